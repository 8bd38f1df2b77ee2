/* What time is it? The kernel's, and as many seconds more as the file $SHIFTED_CLOCK holds: preloaded, it
 * sets the clock of one process, also while the process runs. Monotonic clocks stay as they are. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

static int64_t shift_seconds(void) {
    if (!shift) {
        const char *name = getenv("SHIFTED_CLOCK");
        int file = name ? open(name, O_RDONLY) : -1;
        void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        if (found == MAP_FAILED) return 0;
        shift = found;
    }
    return *shift;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift_seconds();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return (time_t)-1;
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
