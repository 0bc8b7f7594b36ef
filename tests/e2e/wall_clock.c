/* Preloaded into a process, it shows a wall clock that is wrong by the nanoseconds in the file GANDY_TEST_WALL_CLOCK.
 *
 * The file is mapped, so that a test can step the clock of running processes. No other clock is touched.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("GANDY_TEST_WALL_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
        offset = mapped == MAP_FAILED ? NULL : mapped;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *shown)
{
    int result = (int) syscall(SYS_clock_gettime, clock, shown);
    if (result == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t wrong = shown->tv_sec * SECOND + shown->tv_nsec + *offset;
        shown->tv_sec = wrong / SECOND;
        shown->tv_nsec = wrong % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict shown, void *restrict zone)
{
    struct timespec now;
    (void) zone;
    clock_gettime(CLOCK_REALTIME, &now);
    shown->tv_sec = now.tv_sec;
    shown->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *shown)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (shown != NULL)
        *shown = now.tv_sec;
    return now.tv_sec;
}
