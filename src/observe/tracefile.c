/* SPDX-License-Identifier: MIT */
/* The trace file: rings, and writing them and the definitions. */
#include "observe/tracefile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "config/program.h"
#include "observe/definitions.h"
#include "observe/log.h"
#include "observe/name.h"
#include "observe/target.h"
#include "observe/thread.h"

#define MAGIC "AGTRACE\n"
enum {
    CHUNK_MAGIC = 0x4b434741, /* "AGCK" */
    END_ROOM = 4096,          /* bytes below the file's size bound, kept for the last records */
};

_Atomic bool ag_tracefile_on;

struct file_header {
    char magic[8];
    uint32_t version, size;
    uint64_t monotonic, wall;
    uint32_t pid, arguments;
    char library[24];
};
_Static_assert(sizeof(struct file_header) == 64, "as documented");

struct chunk {
    uint32_t magic, size, thread, zero;
    uint64_t lost;
};

uint64_t ag_tracefile_clock(void)
{
    return ag_record_clock(CLOCK_MONOTONIC);
}

/* -- Rings ------------------------------------------------------------------- */

/*
 * Positions only grow; a record never lies across the ring's end. `head` belongs to the thread,
 * `tail` to the writer; each reads the other's. Rings are never unmapped: a thread that ends leaves
 * its own to the next.
 */
struct ring {
    struct ring *next; /* rings_lock */
    _Atomic uint64_t head;
    _Atomic uint64_t lost;
    uint32_t thread;
    uint64_t seen; /* the writer's: head when it looked */
    _Atomic uint64_t tail __attribute__((aligned(64)));
    _Atomic bool free; /* its thread has ended */
    unsigned char data[] __attribute__((aligned(64)));
};

static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring *rings;
static uint64_t
    capacity; /* bytes of a ring's data, a power of two; constant once records are wanted */
static _Atomic uint64_t lost_elsewhere; /* without a ring, or in rings that others use now */
static _Thread_local struct ring *mine __attribute__((tls_model("initial-exec")));

static pthread_key_t end_of_thread;

static void thread_ends(void *ring)
{
    mine = NULL;
    atomic_store_explicit(&((struct ring *)ring)->free, true, memory_order_release);
}

static struct ring *ring_take(void)
{
    struct ring *ring = rings;
    while (ring && !(atomic_load_explicit(&ring->free, memory_order_acquire) &&
                     atomic_load(&ring->head) == atomic_load(&ring->tail)))
        ring = ring->next;
    if (ring) {
        atomic_fetch_add(&lost_elsewhere, atomic_exchange(&ring->lost, 0));
        return ring;
    }
    ring = mmap(NULL, sizeof *ring + capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (ring == MAP_FAILED)
        return NULL;
    ring->next = rings;
    rings = ring;
    return ring;
}

/* The name that the calling thread has now. */
static void define_thread(uint32_t thread)
{
    char name[16]; /* bytes, as the system has it */
    if (prctl(PR_GET_NAME, name) == 0)
        ag_define(AG_RECORD_THREAD, 0, thread, NULL, 0, name);
}

static __attribute__((noinline)) struct ring *ring_make(void)
{
    pthread_mutex_lock(&rings_lock);
    struct ring *ring = ring_take();
    if (ring && pthread_setspecific(end_of_thread, ring) == 0) {
        ring->thread = (uint32_t)syscall(SYS_gettid);
        ring->free = false;
        mine = ring;
        define_thread(ring->thread);
    } else if (ring) {
        ring->free = true;
    }
    pthread_mutex_unlock(&rings_lock);
    return mine;
}

struct ag_record *ag_record_begin(unsigned type, unsigned sub, uint32_t id, uint64_t time,
                                  size_t words)
{
    struct ring *ring = mine ? mine : ring_make();
    if (!ring) {
        atomic_fetch_add(&lost_elsewhere, 1);
        return NULL;
    }
    size_t size = (sizeof(struct ag_record) + words * 8 + 15) & ~(size_t)15;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t at = head & (capacity - 1);
    size_t pad = at + size > capacity ? capacity - at : 0;
    if (head + pad + size - atomic_load_explicit(&ring->tail, memory_order_acquire) > capacity) {
        atomic_store_explicit(&ring->lost,
                              atomic_load_explicit(&ring->lost, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        return NULL;
    }
    if (time == 0)
        time = ag_record_clock(CLOCK_MONOTONIC);
    if (pad) {
        ag_record_fill((struct ag_record *)(ring->data + at), pad, AG_RECORD_PAD, 0, 0, time);
        atomic_store_explicit(&ring->head, head + pad, memory_order_release);
        at = 0;
    }
    struct ag_record *record = (struct ag_record *)(ring->data + at);
    ag_record_fill(record, size, type, sub, id, time);
    if (size - sizeof *record > words * 8)
        record->word[words] = 0;
    return record;
}

void ag_record_end(const struct ag_record *record)
{
    uint64_t head = atomic_load_explicit(&mine->head, memory_order_relaxed);
    atomic_store_explicit(&mine->head, head + record->size, memory_order_release);
}

/* -- The file ------------------------------------------------------------------ */

/* The tracer's, but for what says otherwise. */
static int fd = -1;
static bool wanted;                /* the file, once there is something to write */
static char path[AG_PATH_MAX];     /* constant once records are wanted */
static uint64_t limit;             /* likewise */
static uint64_t began, began_wall; /* likewise */
static _Atomic uint64_t bytes;
static _Atomic int failure; /* errno */

/* What went wrong, to be said by a thread that has the program's stderr. */
enum { NONE, TAKEN, OTHER, SHARED, UNWRITABLE, FULL };
static _Atomic int complaint;

/* The thread that writes has descriptors of its own, and `fd` is of these; constant once it works.
 */
static bool own_files;

static bool put(const void *data, size_t size)
{
    int error = ag_write_all(fd, data, size);
    if (error) {
        atomic_store(&failure, error);
        return false;
    }
    atomic_fetch_add(&bytes, size);
    return true;
}

/* False: the file ends here. */
static bool put_chunk(uint32_t thread, uint64_t lost, const void *data, size_t size, size_t room)
{
    struct chunk chunk = {
        .magic = CHUNK_MAGIC, .size = (uint32_t)size, .thread = thread, .lost = lost};
    if (size == 0)
        return true;
    if (atomic_load(&bytes) + sizeof chunk + size + room > limit)
        return false;
    return put(&chunk, sizeof chunk) && put(data, size);
}

/* The bytes of the first records at `data` that the file has room for. */
static size_t fitting(const unsigned char *data, size_t size)
{
    uint64_t used = atomic_load(&bytes) + sizeof(struct chunk) + END_ROOM;
    size_t fit = 0;
    if (used + size <= limit)
        return size;
    while (fit < size && used + fit + ((const struct ag_record *)(data + fit))->size <= limit)
        fit += ((const struct ag_record *)(data + fit))->size;
    return fit;
}

static bool drain_ring(struct ring *ring)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    while (tail != ring->seen) {
        uint64_t at = tail & (capacity - 1), size = ring->seen - tail;
        if (at + size > capacity)
            size = capacity - at;
        size_t fit = fitting(ring->data + at, size);
        if (!put_chunk(ring->thread, atomic_load_explicit(&ring->lost, memory_order_relaxed),
                       ring->data + at, fit, END_ROOM) ||
            fit < size)
            return false;
        tail += size;
        atomic_store_explicit(&ring->tail, tail, memory_order_release);
    }
    return true;
}

/* Definitions stand before their first use: those taken after a ring was looked at are enough. */
static bool drain(void)
{
    static struct ag_definitions taken;
    pthread_mutex_lock(&rings_lock);
    struct ring *first = rings;
    pthread_mutex_unlock(&rings_lock);
    for (struct ring *ring = first; ring; ring = ring->next)
        ring->seen = atomic_load_explicit(&ring->head, memory_order_acquire);

    ag_definitions_take(&taken);
    bool good = put_chunk(0, 0, taken.data, taken.used, END_ROOM);
    taken.used = 0;

    for (struct ring *ring = first; good && ring; ring = ring->next)
        good = drain_ring(ring);
    return good;
}

static uint64_t lost_in_all(void)
{
    uint64_t sum = atomic_load(&lost_elsewhere) + ag_definitions_lost();
    pthread_mutex_lock(&rings_lock);
    for (struct ring *ring = rings; ring; ring = ring->next)
        sum += atomic_load_explicit(&ring->lost, memory_order_relaxed);
    pthread_mutex_unlock(&rings_lock);
    return sum;
}

/* -- The tracer's work ---------------------------------------------------------- */

static bool put_header(void)
{
    struct file_header header = {
        .magic = MAGIC,
        .version = 1,
        .size = sizeof header,
        .monotonic = began,
        .wall = began_wall,
        .pid = (uint32_t)getpid(),
        .arguments = AG_RECORD_ARGUMENTS,
        .library = PACKAGE_VERSION,
    };
    char program[AG_PATH_MAX];
    ag_program_path(program, sizeof program);
    ag_define(AG_RECORD_PROGRAM, 0, 0, NULL, 0, program);
    return put(&header, sizeof header);
}

/* Writes the last record, unless the file cannot be written. `full`: it is as large as it may be.
 */
static void finish(bool full)
{
    atomic_store(&ag_tracefile_on, false);
    if (!atomic_load(&failure)) {
        union {
            struct ag_record record;
            uint64_t room[sizeof(struct ag_record) / 8 + 2]; /* what is lost, and a zero */
        } end = {.room = {0}};
        end.record.word[0] = lost_in_all();
        ag_record_fill(&end.record, sizeof end, AG_RECORD_END, full, 0,
                       ag_record_clock(CLOCK_MONOTONIC));
        (void)put_chunk(0, 0, &end, sizeof end, 0); /* a failure is kept */
    }
    if (close(fd) != 0 && !atomic_load(&failure))
        atomic_store(&failure, errno);
    fd = -1;
    if (atomic_load(&failure))
        atomic_store(&complaint, UNWRITABLE);
    else if (full)
        atomic_store(&complaint, FULL);
}

/* Whether another process is writing the file. Some file systems have no locks, and cannot tell. */
static bool is_taken(void)
{
    return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* The file at the name, made if there is none; 0, or the errno of what failed. */
static int open_name(void)
{
    struct ag_target target;
    int error = ag_target_look(path, MAGIC, NULL, &target);
    if (error)
        return error;
    /* O_NONBLOCK: a FIFO without a reader must not stop the thread. */
    fd = ag_target_open(path, &target, O_NONBLOCK);
    return fd < 0 ? errno : 0;
}

/* 0, or the errno of what failed. A file that another process is writing is left alone. */
static int open_file(void)
{
    struct stat st;
    int error = open_name();
    if (error == EEXIST) /* it may have come between a look and the next */
        error = open_name();
    if (error)
        return error;
    if (fstat(fd, &st) != 0 || fcntl(fd, F_SETFL, 0) != 0)
        return errno;
    if (S_ISREG(st.st_mode) && (is_taken() || ftruncate(fd, 0) != 0))
        return errno;
    return 0;
}

static void fail(int error)
{
    atomic_store(&failure, error);
    atomic_store(&complaint, error == EWOULDBLOCK  ? TAKEN
                             : error == EEXIST     ? OTHER
                             : error == EOPNOTSUPP ? SHARED
                                                   : UNWRITABLE);
    if (fd >= 0)
        close(fd); /* nothing was written to it */
    ag_tracefile_child();
}

void ag_tracefile_complain(void)
{
    int kind = atomic_exchange(&complaint, NONE), saved = errno;
    errno = atomic_load(&failure);
    const char *name = errno == ENAMETOOLONG ? ag_opt.trace_file : path;
    if (kind == TAKEN)
        ag_log(AG_LOG_ALWAYS,
               "another process writes the trace %.900s: %%p in its name makes one each", name);
    else if (kind == OTHER)
        ag_log(AG_LOG_ALWAYS,
               "the trace %.900s is not written: the file there is no trace of yours", name);
    else if (kind == SHARED)
        ag_log(AG_LOG_ALWAYS,
               "the trace %.900s is not written: close_range and unshare are refused here", name);
    else if (kind == UNWRITABLE)
        ag_log(AG_LOG_ALWAYS, "the trace %.900s cannot be written: %m", name);
    else if (kind == FULL)
        ag_log(AG_LOG_WARNING, "the trace %.900s ends here: it has reached %ld MiB (trace.file_mb)",
               name, ag_opt.trace_file_mb);
    errno = saved;
}

void ag_tracefile_prepare(void)
{
    own_files = ag_thread_own_files();
}

static bool is_anything_recorded(void)
{
    pthread_mutex_lock(&rings_lock);
    bool any = rings != NULL;
    pthread_mutex_unlock(&rings_lock);
    return any;
}

void ag_tracefile_work(bool last)
{
    if (wanted && is_anything_recorded()) {
        wanted = false;
        /* What is in the program's table the program may close, and give the number to another. */
        int error = own_files ? open_file() : EOPNOTSUPP;
        if (error)
            fail(error);
    }
    if (fd < 0)
        return;
    bool good = (atomic_load(&bytes) != 0 || put_header()) && drain();
    if (last || !good)
        finish(!good);
}

bool ag_tracefile_open(void)
{
    if (!*ag_opt.trace_file)
        return false;
    int saved = errno;
    began = ag_record_clock(CLOCK_MONOTONIC);
    began_wall = ag_record_clock(CLOCK_REALTIME);
    limit = (uint64_t)ag_opt.trace_file_mb << 20;
    capacity = 64 << 10;
    while (capacity < (uint64_t)ag_opt.trace_buffer_kb << 10)
        capacity *= 2;
    int error = ag_name_expand(ag_opt.trace_file, path)
                    ? pthread_key_create(&end_of_thread, thread_ends)
                    : ENAMETOOLONG;
    if (error) {
        fail(error);
        ag_tracefile_complain();
    }
    wanted = !error;
    atomic_store(&ag_tracefile_on, !error);
    errno = saved;
    return !error;
}

void ag_tracefile_stop(void)
{
    atomic_store(&ag_tracefile_on, false);
}

void ag_tracefile_child(void)
{
    atomic_store(&ag_tracefile_on, false);
    fd = -1; /* a descriptor that this process does not have */
    wanted = false;
}

void ag_tracefile_state(struct ag_tracefile_state *state)
{
    *state = (struct ag_tracefile_state){
        .file = atomic_load(&bytes) || atomic_load(&failure) ? path : "",
        .bytes = atomic_load(&bytes),
        .lost = lost_in_all(),
        .error = atomic_load(&failure),
    };
}
