/* SPDX-License-Identifier: MIT */
/* The file of live counters. */
#include "observe/live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/program.h"
#include "observe/log.h"

enum {
    FILE_BYTES = 4096, /* one page, of a fixed size: readers map it */
    FLUSHES = 16,      /* places for reasons in the file's format; some are left for new ones */
    WHYS = 64,         /* likewise */
};
_Static_assert((int)AG_REASON_COUNT <= FLUSHES && (int)AG_WHY_COUNT <= WHYS,
               "there is a place for each reason");

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
    uint64_t namespace; /* in which `pid` counts */
    uint64_t given_up[FLUSHES], eager[WHYS];
};
_Static_assert(offsetof(struct live, namespace) == 584 && offsetof(struct live, given_up) == 592 &&
                   offsetof(struct live, eager) == 720 && sizeof(struct live) <= FILE_BYTES,
               "as documented");

/* The name by which the file is found, and one that no living process has besides: in containers
   processes may have equal numbers, and share /dev/shm. */
static char plain[64], own[96];
static const char *path; /* the file's; one of these */
static struct live *live;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0
               ? (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec
               : 0;
}

/* The namespace of the process's number; 0: not known. */
static uint64_t own_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* The file with its own name; 0, or the errno of what failed. */
static int make(void)
{
    /* O_EXCL: what somebody else has put there is not written to; what a dead process of ours left
       behind is in nobody's use. */
    if (unlink(own) != 0 && errno != ENOENT)
        return errno;
    int fd = open(own, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
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
        unlink(own);
    else
        live = memory;
    return error;
}

static void fill(pid_t number, uint64_t namespace)
{
    live->version = 1;
    live->pid = (uint32_t)number;
    live->wall_start = now_ns(CLOCK_REALTIME);
    live->start = live->now = now_ns(CLOCK_MONOTONIC);
    live->namespace = namespace;
    ag_program_path(live->program, sizeof live->program);
    uint64_t magic; /* last, and at once: who sees it sees the rest */
    memcpy(&magic, "AGLIVE\n", sizeof magic);
    __atomic_store_n((uint64_t *)(void *)live->magic, magic, __ATOMIC_RELEASE);
}

/* Whether the file that is found by the plain name is of a process in another namespace, which may
   live. */
static bool is_another_s(uint64_t namespace)
{
    struct live there;
    int fd = open(plain, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool whole = pread(fd, &there, sizeof there, 0) == (ssize_t)sizeof there;
    close(fd); /* it was only read */
    return whole && memcmp(there.magic, live->magic, sizeof there.magic) == 0 &&
           there.namespace != namespace;
}

/* Gives the file the plain name, if that is free; 0, or the errno of what failed. */
static int publish(uint64_t namespace)
{
    path = own;
    int error = link(own, plain) == 0 ? 0 : errno;
    if (error == EEXIST && is_another_s(namespace))
        return 0;
    if (error == EEXIST && unlink(plain) != 0) /* of a dead process that had this number */
        return errno;
    if (error == EEXIST)
        error = link(own, plain) == 0 ? 0 : errno;
    if (error)
        return error == EEXIST ? 0 : error;
    unlink(own); /* the file has both names */
    path = plain;
    return 0;
}

static int begin(void)
{
    pid_t number = (pid_t)syscall(SYS_getpid); /* a preloaded library may have another getpid() */
    uint64_t namespace = own_namespace();
    snprintf(plain, sizeof plain, "/dev/shm/autograph.%ld.%ld", (long)geteuid(), (long)number);
    snprintf(own, sizeof own, "%s.%" PRIu64, plain, namespace);
    int error = make();
    if (error)
        return error;
    fill(number, namespace);
    error = publish(namespace);
    if (error) {
        unlink(own);
        munmap(live, FILE_BYTES); /* a whole mapping */
        live = NULL;
    }
    return error;
}

bool ag_live_open(void)
{
    int saved = errno, error = begin();
    errno = error;
    if (error)
        ag_log(AG_LOG_ALWAYS, "the live counters %s cannot be made: %m", plain);
    errno = saved;
    return !error;
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
    memcpy(live->given_up, c->given_up, sizeof c->given_up);
    memcpy(live->eager, c->eager, sizeof c->eager);
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
