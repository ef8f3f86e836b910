// A preloaded library: read(2) and pread(2) fail with the errno that a file contains, `!16` is EBUSY. Plain files then
// behave like those of a driver that refuses.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// Turns a successful read of `!ERRNO` into that error.
static ssize_t fail_if_marked(const char *text, ssize_t count)
{
    if (count >= 3 && count <= 5 && text[0] == '!' && text[1] >= '1' && text[1] <= '9' && text[count - 1] == '\n') {
        errno = atoi(text + 1);
        return -1;
    }
    return count;
}

ssize_t read(int fd, void *data, size_t size)
{
    static ssize_t (*real)(int, void *, size_t);
    if (!real)
        real = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    return fail_if_marked(data, real(fd, data, size));
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real)
        real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    return fail_if_marked(data, real(fd, data, size, offset));
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    return pread64(fd, data, size, offset);
}
