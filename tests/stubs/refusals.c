// A read(2), and a pread(2), that fail where the contents of a file say so: `!16` is EBUSY. Preloaded, it makes of a plain file one
// of a driver that refuses.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// What became of a read of so many bytes.
static ssize_t judged(const char *text, ssize_t count)
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
    return judged(data, real(fd, data, size));
}

ssize_t pread64(int fd, void *data, size_t size, off64_t place)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real)
        real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    return judged(data, real(fd, data, size, place));
}

ssize_t pread(int fd, void *data, size_t size, off_t place)
{
    return pread64(fd, data, size, place);
}
