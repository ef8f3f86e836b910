// A preloaded library that moves the time of the day by the seconds in the file that CLOCK_STUB_STEP names; the monotonic
// clock goes on as before.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *out) {
    const int result = (int)syscall(SYS_clock_gettime, clock, out);
    const char *path = getenv("CLOCK_STUB_STEP");
    if (result || clock != CLOCK_REALTIME || !path)
        return result;
    char text[32] = "";
    const int file = open(path, O_RDONLY);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            out->tv_sec += atol(text);
        close(file);
    }
    return 0;
}
