/* SPDX-License-Identifier: MIT */
/* queue.c: how streams execute. Each stream is a queue; a stream whose first
 * operation can start is handed to a worker thread, which runs operations in
 * order until the queue is empty or must wait for other work. Workers are made
 * when no idle one is left, so a kernel that never ends holds up its stream
 * only. A waiting stream hangs on the list of the one thing it waits for.
 *
 * A context has a few queues of the device (CUDA_DEVICE_MAX_CONNECTIONS), and its streams are dealt
 * out to them as they are made. In such a queue operations begin in the order of submission: one
 * that must wait holds up all that are behind it, whatever their streams. It leaves the queue when
 * it has begun, a graph when its last node has. */
#include "sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOKS    30        /* of a thread for what it waits for, before it sleeps */
#define LONG_NS  1000000   /* for which others keep the CPU: the machine is busy */
#define ALONE_NS 100000000 /* for which no thread yields then */

struct worker {
    struct worker *next;
    struct stream *job;
    pthread_cond_t cond;
};
static struct worker *idle_workers;

/* -- The device's time -- */

/* A device is not late, however busy the machine is. An operation begins when it has been given to
   the stream and what it waits for has ended, and takes as long as its worker works: the worker is
   late by stream.late. Where the host says when an operation ends, it ends when the worker sees
   that. */

static atomic_bool timed; /* a time may be asked for */

/* The C library's, whatever comes before it. A system call takes 50 times as long. */
static int (*machine_clock)(clockid_t, struct timespec *);

void clock_start(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *own = libc ? dlsym(libc, "clock_gettime") : NULL;
    if (!own)
        abort();
    memcpy(&machine_clock, &own, sizeof own);
}

uint64_t machine_ns(void)
{
    struct timespec t = {0, 0};
    (void)machine_clock(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0: nobody asks. */
static uint64_t now_ns(void)
{
    return atomic_load_explicit(&timed, memory_order_relaxed) ? machine_ns() : 0;
}

static uint64_t device_ns(const struct stream *s)
{
    return now_ns() - s->late;
}

/* Returns when it begins. */
static uint64_t op_begins(struct stream *s, const struct op *op)
{
    uint64_t begin = op->given > s->ended ? op->given : s->ended;
    for (unsigned i = 0; i < op->ndeps; i++) {
        const struct dep *d = &op->deps[i];
        uint64_t ended = d->marker ? d->marker->ns : d->stream->ended;
        if (ended > begin)
            begin = ended;
    }
    s->late = op->given ? now_ns() - begin : 0;
    return begin;
}

/* -- Markers -- */

struct marker *marker_new(struct stream *s, bool takes_time)
{
    struct marker *m = calloc(1, sizeof *m);
    if (m) {
        m->refs = 1;
        m->timed = takes_time;
        m->stream = s;
        if (takes_time)
            atomic_store_explicit(&timed, true, memory_order_relaxed);
    }
    return m;
}

void marker_drop(struct marker *m)
{
    if (m && --m->refs == 0)
        free(m);
}

static void wake(struct stream **list);
static void marker_wakes_host(struct stream *s);

void marker_complete(struct marker *m)
{
    m->ns = device_ns(m->stream);
    m->done = 1;
    wake(&m->waiters);
    marker_wakes_host(m->stream);
}

/* -- Threads that wait -- */

/* Lets others run. On a busy machine they keep the CPU for milliseconds, and an operation would
   take as long: then false for a while, and nobody else runs. */
static bool yields(void)
{
    static _Atomic uint64_t again;
    uint64_t begun = machine_ns();
    if (begun < atomic_load_explicit(&again, memory_order_relaxed))
        return false;
    sched_yield();
    uint64_t ended = machine_ns();
    if (ended - begun > LONG_NS)
        atomic_store_explicit(&again, ended + ALONE_NS, memory_order_relaxed);
    return true;
}

/* -- Host threads that wait -- */

/* A signal handler may leave a wait by a longjmp, and a thread may be cancelled there. So a thread
   that waits has no lock, and nobody counts it: it looks at a number that goes up. */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    int saved = errno; /* the program's */
    (void)syscall(SYS_futex, word, operation, value, NULL);
    errno = saved;
}

static void wake_host(struct stream *s)
{
    s->turns++;
    futex(&s->turns, FUTEX_WAKE_PRIVATE, INT_MAX);
}

static void marker_wakes_host(struct stream *s)
{
    if (!s->marker_awaited)
        return;
    s->marker_awaited = false;
    wake_host(s);
}

static void op_wakes_host(struct stream *s)
{
    uint64_t first = s->awaited;
    if (first == 0 || s->completed < first)
        return;
    s->awaited = 0;
    wake_host(s);
}

/* A thread waits for that operation. */
static void await_op(struct stream *s, uint64_t seq)
{
    uint64_t first = s->awaited;
    while ((first == 0 || seq < first) && !atomic_compare_exchange_weak(&s->awaited, &first, seq))
        continue;
}

/* Sleeps, without the lock, until the stream's turns differ from this number, or for less. */
static void sleep_on(struct stream *s, uint32_t turn)
{
#ifdef __SANITIZE_THREAD__ /* it lets signals come only in calls that it knows */
    if (s->turns == turn)
        usleep(200);
#else
    futex(&s->turns, FUTEX_WAIT_PRIVATE, turn);
#endif
}

static bool has_ended(const struct stream *s, const struct marker *m, uint64_t seq)
{
    return m ? m->done : s->completed >= seq;
}

/* Waits for a marker of the stream; NULL: for that operation. */
static void wait_for(struct stream *s, const struct marker *m, uint64_t seq)
{
    int type;
    if (has_ended(s, m, seq))
        return;
    strict_wait(s, m ? m->seq : seq);
    stream_wanted(s, m ? m->seq : seq);
    pthread_mutex_unlock(&sim.lock);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    for (unsigned i = 0; i < LOOKS && !has_ended(s, m, seq) && yields(); i++)
        continue;
    for (;;) {
        uint32_t turn = s->turns;
        if (m) /* before the look: who wakes looks in the other order */
            s->marker_awaited = true;
        else
            await_op(s, seq);
        if (has_ended(s, m, seq))
            break;
        sleep_on(s, turn);
    }
    pthread_setcanceltype(type, NULL);
    pthread_mutex_lock(&sim.lock);
}

void stream_wait(struct stream *s, uint64_t seq)
{
    wait_for(s, NULL, seq);
}

void marker_wait(struct marker *m)
{
    m->refs++;
    wait_for(m->stream, m, 0);
    marker_drop(m);
}

/* -- Work that is late (AGSIM_LATE) -- */

static void want(struct stream *s, uint64_t seq);

/* All that an operation comes behind in its stream's queue of the device. */
static void want_ahead(const struct op *op)
{
    for (const struct op *ahead = op->queue->head; ahead != op; ahead = ahead->behind)
        want(ahead->stream, ahead->seq);
}

static void want(struct stream *s, uint64_t seq)
{
    if (s->wanted >= seq)
        return;
    s->wanted = seq;
    for (const struct op *op = s->head; op && op->seq <= seq; op = op->next) {
        for (unsigned i = 0; i < op->ndeps; i++) {
            const struct dep *d = &op->deps[i];
            want(d->marker ? d->marker->stream : d->stream, d->marker ? d->marker->seq : d->seq);
        }
        if (op->queue)
            want_ahead(op);
    }
}

void stream_wanted(struct stream *s, uint64_t seq)
{
    if (sim.late_us)
        want(s, seq);
}

/* Without the lock: an operation begins when somebody waits for it, or some time after it was
 * given. */
static void begin_late(const struct stream *s, const struct op *op)
{
    enum { LOOK_US = 20 };
    while (s->wanted < op->seq && machine_ns() < op->due)
        usleep(LOOK_US);
}

/* -- Scheduling -- */

static bool dep_done(const struct dep *d)
{
    return d->marker ? d->marker->done : d->stream->completed >= d->seq;
}

/* Is the first operation waiting? Then the stream now hangs on what it waits for; or it is kicked
   when the turn has come to it in its queue. */
static bool head_waits(struct stream *s)
{
    if (s->head->queue && s->head->queue->head != s->head)
        return true;
    for (unsigned i = 0; i < s->head->ndeps; i++) {
        struct dep *d = &s->head->deps[i];
        if (dep_done(d))
            continue;
        struct stream **list = d->marker ? &d->marker->waiters : &d->stream->waiters;
        s->waiting = d;
        s->next_waiter = *list;
        *list = s;
        return true;
    }
    return false;
}

static void *worker_main(void *arg);

bool sim_thread(void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, (size_t)1 << 20);
    /* The program's signals are the program's threads' business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return !error;
}

static bool start_worker(struct stream *s)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return false;
    pthread_cond_init(&w->cond, NULL);
    w->job = s;
    if (sim_thread(worker_main, w))
        return true;
    pthread_cond_destroy(&w->cond);
    free(w);
    return false;
}

static void kick(struct stream *s)
{
    if (s->running || s->waiting || !s->head || head_waits(s))
        return;
    struct worker *w = idle_workers;
    s->running = true;
    if (w) {
        idle_workers = w->next;
        w->job = s;
        pthread_cond_signal(&w->cond);
    } else if (!start_worker(s)) {
        fprintf(stderr, "simulated driver: no thread for a stream\n");
        abort(); /* the work would be lost, and every wait would hang */
    }
}

static void wake(struct stream **list)
{
    struct stream *s = *list;
    *list = NULL;
    while (s) {
        struct stream *next = s->next_waiter;
        s->waiting = NULL;
        kick(s);
        s = next;
    }
}

/* -- The device's queues -- */

static void queue_append(struct queue *q, struct op *op)
{
    op->queue = q;
    op->behind = NULL;
    if (q->tail)
        q->tail->behind = op;
    else
        q->head = op;
    q->tail = op;
}

/* The operation, the queue's first, has begun at that time: the next one's turn has come. */
static void queue_pass(struct op *op, uint64_t ns)
{
    struct queue *q = op->queue;
    if (!q)
        return;
    op->queue = NULL;
    q->head = op->behind;
    if (!q->head) {
        q->tail = NULL;
        return;
    }
    if (q->head->given && q->head->given < ns)
        q->head->given = ns;
    if (q->head->stream->head == q->head)
        kick(q->head->stream);
}

void stream_graph_begun(struct stream *s)
{
    pthread_mutex_lock(&sim.lock);
    queue_pass(s->head, device_ns(s));
    pthread_mutex_unlock(&sim.lock);
}

/* -- Execution -- */

unsigned sim_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return (unsigned)(x >> 32);
}

unsigned stream_random(struct stream *s)
{
    return sim_random(&s->random);
}

static void pause_for(unsigned us)
{
    struct timespec t, now;
    if (us >= 50) {
        t = (struct timespec){.tv_nsec = (long)us * 1000};
        while (t.tv_nsec >= 1000000000) {
            t.tv_nsec -= 1000000000;
            t.tv_sec++;
        }
        nanosleep(&t, NULL);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    unsigned looks = us * 10; /* a look takes more than 0.1 us, and the clock may stand still */
    do {
        (void)yields();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (looks-- > 0 &&
             (now.tv_sec - t.tv_sec) * 1000000000L + (now.tv_nsec - t.tv_nsec) < us * 1000L);
}

unsigned sim_pause_us(uint64_t *random)
{
    return !sim.delay_us || sim_random(random) % 4 ? 0 : sim_random(random) % (sim.delay_us + 1);
}

void stream_pause(struct stream *s, unsigned us)
{
    if (!us)
        return;
    uint64_t begun = now_ns(), paused;
    pause_for(us);
    paused = now_ns() - begun;
    if (begun && paused > us * 1000ull)
        s->late += paused - us * 1000ull;
}

static void op_done(struct stream *s, struct op *op)
{
    s->head = op->next;
    if (!s->head)
        s->tail = NULL;
    s->completed = op->seq;
    s->depth--;
    work_finish(&op->work);
    s->ended = device_ns(s);
    for (unsigned i = 0; i < op->ndeps; i++)
        marker_drop(op->deps[i].marker);
    if (op->deps != op->inline_deps)
        free(op->deps);
    work_clear(&op->work);
    free(op);
    wake(&s->waiters);
    op_wakes_host(s);
}

/* Without the lock: waits a little for the next operation. */
static void linger(const struct stream *s)
{
    for (unsigned i = 0; i < LOOKS && s->submitted == s->completed && yields(); i++)
        continue;
}

static void run_stream(struct stream *s)
{
    do {
        while (s->head && !s->waiting && !head_waits(s)) {
            struct op *op = s->head;
            uint64_t begin = op_begins(s, op);
            if (op->work.kind != WORK_GRAPH)
                queue_pass(op, begin);
            pthread_mutex_unlock(&sim.lock);
            if (sim.late_us)
                begin_late(s, op);
            stream_pause(s, sim_pause_us(&s->random));
            work_execute(s, &op->work, false);
            pthread_mutex_lock(&sim.lock);
            op_done(s, op);
        }
        if (s->head || s->destroyed)
            break;
        pthread_mutex_unlock(&sim.lock);
        linger(s);
        pthread_mutex_lock(&sim.lock);
    } while (s->head);
    s->running = false;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        struct stream *s = w->job;
        run_stream(s);
        w->job = NULL;
        w->next = idle_workers;
        idle_workers = w;
        if (s->head)
            kick(s); /* this worker may take it: it is free */
        else if (s->destroyed)
            stream_release(s);
        if (log_on()) {
            pthread_mutex_unlock(&sim.lock);
            log_flush();
            pthread_mutex_lock(&sim.lock);
        }
        while (!w->job)
            pthread_cond_wait(&w->cond, &sim.lock);
    }
    return NULL;
}

/* -- Enqueueing and waiting -- */

static CUresult add_dep(struct op *op, unsigned *cap, struct dep d)
{
    if (dep_done(&d))
        return CUDA_SUCCESS;
    if (op->ndeps == *cap) {
        struct dep *more = malloc(2 * *cap * sizeof *more);
        if (!more)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(more, op->deps, op->ndeps * sizeof *more);
        if (op->deps != op->inline_deps)
            free(op->deps);
        op->deps = more;
        *cap *= 2;
    }
    if (d.marker)
        d.marker->refs++;
    op->deps[op->ndeps++] = d;
    return CUDA_SUCCESS;
}

/* The legacy stream waits for all blocking streams, and they for it. */
static CUresult add_implicit_deps(struct op *op, unsigned *cap, struct stream *s)
{
    CUresult r = CUDA_SUCCESS;
    struct stream *legacy = s->ctx->legacy;
    if (s->kind == STREAM_LEGACY) {
        for (struct stream *t = s->ctx->streams; t && r == CUDA_SUCCESS; t = t->next_in_ctx)
            if (t != s && stream_blocking(t))
                r = add_dep(op, cap, (struct dep){.stream = t, .seq = t->submitted});
    } else if (stream_blocking(s)) {
        r = add_dep(op, cap, (struct dep){.stream = legacy, .seq = legacy->submitted});
    }
    return r;
}

void ctx_alone(struct ctx *ctx)
{
    strict_alone(ctx);
    while (ctx->in_room)
        pthread_cond_wait(&sim.room, &sim.lock);
}

static void wait_for_room(struct stream *s, const struct work *w)
{
    struct ctx *ctx = s->ctx; /* never freed */
    uint32_t turn = s->turns;
    strict_room(s, w);
    stream_wanted(s, s->completed + 1);
    ctx->in_room++;
    await_op(s, s->completed + 1);
    pthread_mutex_unlock(&sim.lock);
    sleep_on(s, turn);
    pthread_mutex_lock(&sim.lock);
    if (!--ctx->in_room)
        pthread_cond_broadcast(&sim.room);
}

/* The moments of the operation's records are known as work of its stream. */
static void number_markers(struct op *op)
{
    struct work *w = &op->work;
    if (w->kind == WORK_RECORD)
        w->event.marker->seq = op->seq;
    for (unsigned i = 0; w->kind == WORK_GRAPH && i < w->graph.nmarkers; i++)
        if (w->graph.markers[i]) /* else its event is gone */
            w->graph.markers[i]->seq = op->seq;
}

static CUresult enqueue(struct stream *s, struct work *w, const struct dep *deps, unsigned ndeps,
                        struct queue *q)
{
    uint64_t gen = s->o.gen;
    if (s->kind == STREAM_LEGACY)
        ctx_alone(s->ctx);
    while (s->depth >= sim.room_entries)
        wait_for_room(s, w);
    struct op *op = NULL;
    CUresult r = s->o.gen == gen && s->o.alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && !(op = malloc(sizeof *op)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        work_clear(w);
        return r;
    }
    op->next = NULL;
    op->ndeps = 0;
    op->deps = op->inline_deps;
    unsigned cap = COUNT(op->inline_deps);
    for (unsigned i = 0; i < ndeps && r == CUDA_SUCCESS; i++)
        r = add_dep(op, &cap, deps[i]);
    if (r == CUDA_SUCCESS)
        r = add_implicit_deps(op, &cap, s);
    op->work = *w;
    if (r != CUDA_SUCCESS) {
        for (unsigned i = 0; i < op->ndeps; i++)
            marker_drop(op->deps[i].marker);
        if (op->deps != op->inline_deps)
            free(op->deps);
        free(op);
        work_clear(w);
        return r;
    }
    op->seq = ++s->submitted;
    op->given = now_ns();
    op->stream = s;
    op->queue = NULL;
    op->surplus = 0;
    op->due = sim.late_us ? machine_ns() + sim.late_us * 1000ull : 0;
    number_markers(op);
    s->worked |= w->kind == WORK_KERNEL || w->kind == WORK_GRAPH;
    strict_enqueued(op);
    if (q)
        queue_append(q, op);
    if (s->tail)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    s->depth++;
    if (op->work.kind == WORK_RECORD && op->work.event.marker->timed)
        stream_wanted(s, op->seq); /* times are those of a device that is in time */
    kick(s);
    return CUDA_SUCCESS;
}

CUresult stream_enqueue(struct stream *s, struct work *w, const struct dep *deps, unsigned ndeps)
{
    return enqueue(s, w, deps, ndeps, s->queue);
}

CUresult stream_enqueue_end(struct stream *s)
{
    struct work empty = {.kind = WORK_EMPTY};
    return enqueue(s, &empty, NULL, 0, NULL);
}
