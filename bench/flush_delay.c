/* Makes every flush of this process take longer, and counts the flushes. Preloaded.
 *
 * A flush is fdatasync, fsync, msync(MS_SYNC), and a pwrite through a descriptor that was
 * opened with O_DSYNC or O_SYNC: LMDB writes its meta page through one, so each of its
 * commits is two flushes. The sleep comes after the real call, in the thread that made it.
 *
 * FLUSH_DELAY_US gives the microseconds; without it the flushes are only counted.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long flushes;
static long delay_ns;

__attribute__((constructor)) static void read_delay(void)
{
    const char *delay_us = getenv("FLUSH_DELAY_US");
    delay_ns = delay_us ? atol(delay_us) * 1000 : 0;
}

/* For the bench: how many flushes there were so far. */
long flush_delay_count(void) { return atomic_load(&flushes); }

static void flushed(void)
{
    atomic_fetch_add(&flushes, 1);
    if (delay_ns > 0) {
        struct timespec pause = {delay_ns / 1000000000, delay_ns % 1000000000};
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* this thread's; 50 us by default */
        nanosleep(&pause, NULL);
        prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);
    }
}

static int writes_through(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & (O_DSYNC | O_SYNC));
}

#define REAL(name) (*(__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fdatasync(int fd)
{
    int result = REAL(fdatasync)(fd);
    flushed();
    return result;
}

int fsync(int fd)
{
    int result = REAL(fsync)(fd);
    flushed();
    return result;
}

int msync(void *start, size_t length, int flags)
{
    int result = REAL(msync)(start, length, flags);
    if (flags & MS_SYNC)
        flushed();
    return result;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    ssize_t result = REAL(pwrite)(fd, data, size, at);
    if (writes_through(fd))
        flushed();
    return result;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    ssize_t result = REAL(pwrite64)(fd, data, size, at);
    if (writes_through(fd))
        flushed();
    return result;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    ssize_t result = REAL(pwritev)(fd, parts, count, at);
    if (writes_through(fd))
        flushed();
    return result;
}
