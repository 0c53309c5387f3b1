/* SPDX-License-Identifier: MIT */
/* The file of live counters. */
#include "observe/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "config/program.h"
#include "observe/log.h"

enum {
    FILE_BYTES = 4096, /* one page, of a fixed size: readers map it */
    FLUSHES = 16,      /* places for reasons in the file's format; some are left for new ones */
};
_Static_assert((int)AG_REASON_COUNT <= FLUSHES, "there is a place for each reason");

struct live {
    char magic[8];
    uint32_t version, pid;
    _Atomic uint64_t sequence; /* odd: being written */
    uint64_t wall_start, start, now;
    uint64_t ops, replayed, replays, patches, updates, traces, side_exits, errors;
    uint64_t streams, trace_bytes, trace_lost;
    uint64_t flushes[FLUSHES];
    char region[64];
    char program[256];
};
_Static_assert(offsetof(struct live, program) == 328 && sizeof(struct live) <= FILE_BYTES,
               "as documented");

static char path[64];
static struct live *live;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0
               ? (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec
               : 0;
}

static int make(void)
{
    /* O_EXCL: what somebody else has put there is not written to; what a dead process of ours left
       behind is in nobody's use. */
    if (unlink(path) != 0 && errno != ENOENT)
        return errno;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    void *memory = MAP_FAILED;
    /* Not ftruncate(): where memory is short, writing to a hole would kill the program. */
    int error = posix_fallocate(fd, 0, FILE_BYTES);
    if (!error) {
        memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = memory == MAP_FAILED ? errno : 0;
    }
    close(fd); /* a descriptor of a file in memory, to which nothing was written */
    if (error)
        unlink(path);
    else
        live = memory;
    return error;
}

bool ag_live_open(void)
{
    int saved = errno;
    snprintf(path, sizeof path, "/dev/shm/autograph.%ld.%ld", (long)geteuid(), (long)getpid());
    int error = make();
    if (error) {
        errno = error;
        ag_log(AG_LOG_ALWAYS, "the live counters %s cannot be made: %m", path);
        errno = saved;
        return false;
    }
    live->version = 1;
    live->pid = (uint32_t)getpid();
    live->wall_start = now_ns(CLOCK_REALTIME);
    live->start = live->now = now_ns(CLOCK_MONOTONIC);
    ag_program_path(live->program, sizeof live->program);
    atomic_thread_fence(memory_order_release);
    memcpy(live->magic, "AGLIVE\n", sizeof live->magic);
    errno = saved;
    return true;
}

void ag_live_update(const struct ag_counters *c, uint64_t streams, uint64_t trace_bytes,
                    uint64_t trace_lost, const char *region)
{
    if (!live)
        return;
    uint64_t sequence = atomic_load_explicit(&live->sequence, memory_order_relaxed);
    atomic_store_explicit(&live->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    live->now = now_ns(CLOCK_MONOTONIC);
    live->ops = c->ops;
    live->replayed = c->replayed;
    live->replays = c->replays;
    live->patches = c->patches;
    live->updates = c->updates;
    live->traces = c->traces;
    live->side_exits = c->flushes[AG_REASON_SIDE_EXIT];
    live->errors = c->errors;
    live->streams = streams;
    live->trace_bytes = trace_bytes;
    live->trace_lost = trace_lost;
    memcpy(live->flushes, c->flushes, sizeof c->flushes);
    memset(live->region, 0, sizeof live->region);
    if (region)
        memcpy(live->region, region, strnlen(region, sizeof live->region - 1));
    atomic_store_explicit(&live->sequence, sequence + 2, memory_order_release);
}

void ag_live_close(void)
{
    if (live)
        unlink(path); /* if it is gone, somebody has removed it */
}
