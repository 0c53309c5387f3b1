/* SPDX-License-Identifier: MIT */
/*
 * Memory that a copy writes, seen by others than the thread that waits for the copy; and kernels
 * that wait for the host.
 *
 * The copy is behind a kernel that waits for a word. So another thread can act while the owner of
 * the lane waits: it is told when the copy has been issued, and sets the word before it acts, or
 * behind that. Whatever it does comes behind the copy, so what it sees does not depend on chance.
 */
#include "world.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { BYTES = BUFFER_WORDS * sizeof(uint32_t) };

static uint32_t *area(const struct lane *l, enum pinned which)
{
    return l->pinned + (size_t)which * BUFFER_WORDS;
}

static CUdeviceptr mapped(const struct lane *l, enum pinned which)
{
    return l->mapped + (CUdeviceptr)which * BYTES;
}

/* The device's or the host's memory share the word with no call in between: that is the point. */
static void set_word(const struct lane *l, int word, uint32_t value)
{
    __atomic_store_n(area(l, PINNED_WORDS) + word, value, __ATOMIC_RELEASE);
}

static void sleep_us(int us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L}, NULL);
}

/* -- Kernels that wait for the host ---------------------------------------------------- */

/* Opens gates one by one, each some time behind the one before it or behind the call. */
static void *open_gates(void *arg)
{
    struct world *w = arg;
    struct gates *gates = &w->gates;
    pthread_mutex_lock(&w->lock);
    while (!gates->quit || gates->opened != gates->closed) {
        if (gates->opened == gates->closed) {
            pthread_cond_wait(&gates->wake, &w->lock);
            continue;
        }
        struct gate gate = gates->list[gates->opened % GATES];
        pthread_mutex_unlock(&w->lock);
        sleep_us(gate.us);
        set_word(gate.lane, WORD_GATE, gate.value);
        pthread_mutex_lock(&w->lock);
        gates->opened++;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void gates_begin(struct world *w)
{
    pthread_cond_init(&w->gates.wake, NULL);
    if (pthread_create(&w->gates.thread, NULL, open_gates, w) != 0)
        abort();
}

void gates_end(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    w->gates.quit = true;
    pthread_cond_signal(&w->gates.wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->gates.thread, NULL);
}

/* A kernel that waits for the word, in so many blocks of 1,024 threads. */
static void wait_for_word(struct thread *t, struct lane *l, int word, uint32_t value,
                          unsigned blocks)
{
    CUdeviceptr at = word_address(l, word);
    void *params[] = {&at, &value};
    t->world->ops++;
    MUST(t, l->api->cuLaunchKernel(l->context->wait, blocks, 1, 1, blocks > 1 ? 1024 : 1, 1, 1, 0,
                                   l->stream, params, NULL));
}

/* More than there is room for are none. */
static void gate(struct thread *t, struct lane *l, const struct statement *s, unsigned blocks)
{
    struct gates *gates = &t->world->gates;
    if (l->capturing)
        return;
    pthread_mutex_lock(&t->world->lock);
    bool room = gates->closed - gates->opened < GATES;
    if (room)
        gates->list[gates->closed++ % GATES] = (struct gate){l, ++l->gate, s->n};
    pthread_cond_signal(&gates->wake);
    pthread_mutex_unlock(&t->world->lock);
    wait_for_word(t, l, WORD_GATE, l->gate, blocks);
}

void gate_run(struct thread *t, struct lane *l, const struct statement *s)
{
    gate(t, l, s, 1);
}

/* -- What another thread sees ------------------------------------------------------------ */

struct sight {
    const struct statement *s;
    struct lane *lane, *other; /* other: in the same context, or NULL */
    size_t words;
    uint32_t seen[BUFFER_WORDS];
};

static void see(struct sight *watch)
{
    memcpy(watch->seen, area(watch->lane, PINNED_WATCH), watch->words * sizeof *watch->seen);
}

static void CUDA_CB host_sees(void *of)
{
    see(of);
}

static void CUDA_CB callback_sees(CUstream stream, CUresult status, void *of)
{
    (void)stream, (void)status;
    see(of);
}

/* A kernel or a copy in the lane's stream takes the words, and gives them on to the host. */
static void device_sees(struct thread *t, struct sight *watch, struct lane *in, bool copies)
{
    struct lane *l = watch->lane;
    CUdeviceptr dst = mapped(l, PINNED_SEEN), src = mapped(l, PINNED_WATCH);
    uint32_t n = (uint32_t)watch->words, k = (uint32_t)watch->s->k;
    void *params[] = {&dst, &src, &n, &k};
    if (copies) {
        src = l->seen;
        MUST(t,
             in->api->cuMemcpyHtoDAsync(src, area(l, PINNED_WATCH), watch->words * 4, in->stream));
    }
    MUST(t,
         in->api->cuLaunchKernel(in->context->fork, 1, 1, 1, 1, 1, 1, 0, in->stream, params, NULL));
}

static void record(struct thread *t, const struct lane *l)
{
    MUST(t, l->api->cuEventRecord(l->watched, l->stream));
}

/* What is issued goes on without this thread. */
static bool acts_at_once(int how)
{
    return how < WATCH_WAIT;
}

static void act(struct thread *t, struct sight *watch)
{
    struct lane *l = watch->lane;
    struct lane *in = watch->other != NULL ? watch->other : l;
    switch (watch->s->how) {
    case WATCH_HOST:
        MUST(t, l->api->cuLaunchHostFunc(l->stream, host_sees, watch));
        break;
    case WATCH_CALLBACK:
        MUST(t, l->api->cuStreamAddCallback(l->stream, callback_sees, watch, 0));
        break;
    case WATCH_KERNEL:
    case WATCH_COPY:
        device_sees(t, watch, l, watch->s->how == WATCH_COPY);
        break;
    case WATCH_OTHER_KERNEL:
    case WATCH_OTHER_COPY:
        record(t, l);
        MUST(t, in->api->cuStreamWaitEvent(in->stream, l->watched, 0));
        device_sees(t, watch, in, watch->s->how == WATCH_OTHER_COPY);
        break;
    default:
        break;
    }
}

/* Only an error becomes part of the result: how often one asks depends on chance. */
static void poll(struct thread *t, CUresult (*ask)(const struct lane *l), const struct lane *l)
{
    CUresult result;
    while ((result = ask(l)) == CUDA_ERROR_NOT_READY)
        sched_yield();
    must_succeed(t, result, "a question");
}

static CUresult ask_stream(const struct lane *l)
{
    return l->api->cuStreamQuery(l->stream);
}

static CUresult ask_event(const struct lane *l)
{
    return l->api->cuEventQuery(l->watched);
}

/* The thread waits until it may see what its act has seen, or sees by itself. */
static void await(struct thread *t, struct sight *watch)
{
    struct lane *l = watch->lane;
    const struct lane *in = watch->other != NULL ? watch->other : l;
    int how = watch->s->how;
    if (how == WATCH_EVENT || how == WATCH_EVENT_QUERY)
        record(t, l);
    if (how == WATCH_EVENT)
        MUST(t, l->api->cuEventSynchronize(l->watched));
    else if (how == WATCH_EVENT_QUERY)
        poll(t, ask_event, l);
    else if (how == WATCH_QUERY)
        poll(t, ask_stream, l);
    else if (how == WATCH_OTHER_KERNEL || how == WATCH_OTHER_COPY)
        MUST(t, in->api->cuStreamSynchronize(in->stream));
    else
        MUST(t, l->api->cuStreamSynchronize(l->stream));
    if (how == WATCH_WRITE)
        for (size_t i = 0; i < watch->words; i++)
            area(l, PINNED_WATCH)[i] = (uint32_t)(watch->s->k + (int)i) * 2654435761u;
    else if (!acts_at_once(how))
        see(watch);
}

static void watch_job(struct thread *t, const void *of)
{
    static const int pause[] = {0, 100, 2000};
    struct sight *watch = (struct sight *)(uintptr_t)of;
    struct lane *l = watch->lane;
    bool before = !acts_at_once(watch->s->how) || watch->s->mode == 0 || t->world->fills;
    world_enter(t, l->context);
    sleep_us(pause[watch->s->more % 3]);
    if (before)
        set_word(l, WORD_WATCH, l->ticket);
    act(t, watch);
    if (!before)
        set_word(l, WORD_WATCH, l->ticket);
    await(t, watch);
}

/* Another thread can name the lane's stream, and nothing that others do waits for the kernel. */
static bool is_seen(const struct thread *t, const struct lane *l, const struct statement *s)
{
    return !t->par && captures(t) == 0 && l->kind != LANE_PER_THREAD && s->n > 0 &&
           l->watches % (unsigned)s->n == 0;
}

static struct lane *other_lane(const struct thread *t, const struct lane *l, int index)
{
    struct world *w = t->world;
    struct lane *other = index >= 0 && index < w->nlanes ? &w->lane[index] : NULL;
    return other != NULL && other->context == l->context && other->kind != LANE_PER_THREAD ? other
                                                                                           : NULL;
}

void watch_run(struct thread *t, struct lane *l, const struct statement *s)
{
    size_t words = s->size < 1 || s->size > BUFFER_WORDS ? BUFFER_WORDS : (size_t)s->size;
    struct sight watch = {.s = s, .lane = l, .other = other_lane(t, l, s->other), .words = words};
    struct call call = {.job = watch_job, .of = &watch};
    CUdeviceptr from = l->seen + BYTES;
    if (l->capturing)
        return;
    l->watches++;
    bool seen = is_seen(t, l, s);
    l->ticket += seen;
    t->world->ops += 3;
    MUST(t, word_launch(l, l->context->wait, word_address(l, WORD_WATCH), l->ticket));
    MUST(t, word_launch(l, l->context->set, from, l->watches));
    MUST(t, l->api->cuMemcpyDtoHAsync(area(l, PINNED_WATCH), from, words * 4, l->stream));
    if (seen) {
        memset(area(l, PINNED_SEEN), 0, BYTES);
        thread_begin(t, &call, t->world->nthreads);
    }
    MUST(t, l->api->cuStreamSynchronize(l->stream));
    if (seen)
        thread_end(t, &call);
    look(t, area(l, PINNED_WATCH), (int)words);
    look(t, area(l, PINNED_SEEN), (int)words);
    look(t, watch.seen, (int)words);
}

/* -- Kernels that need the whole device ------------------------------------------------- */

enum {
    BLOCKS = 132 * 2
}; /* of 1,024 threads: the simulated device, and the largest one of today */

/* The copy engine works beside such a kernel, which begins behind all kernels of the lane. */
static void read_beside(struct thread *t, struct lane *l, struct lane *other)
{
    uint32_t *pinned = area(l, PINNED_READ);
    if (!order_may_wait_ahead(t, l, other) || l->kind == LANE_PER_THREAD)
        return;
    record(t, l);
    MUST(t, other->api->cuStreamWaitEvent(other->stream, l->watched, 0));
    wait_for_word(t, other, WORD_FILL, ++other->full, BLOCKS);
    t->world->ops++;
    MUST(t, l->api->cuMemcpyDtoHAsync(pinned, l->state, BYTES, l->stream));
    order_wait(t, l, EDGE_HOST);
    look(t, pinned, BUFFER_WORDS);
    set_word(other, WORD_FILL, other->full);
}

void fill_run(struct thread *t, struct lane *l, const struct statement *s)
{
    struct statement launch = {.kind = S_KERNEL, .grid = BLOCKS, .block = 1024};
    struct lane *other = other_lane(t, l, s->other);
    if (s->how == FILL_WORKS)
        MUST(t, op_launch(t, l, &launch, l->state, l->a, op_value(t, l, s)));
    else if (s->how == FILL_WAITS)
        gate(t, l, s, BLOCKS);
    else if (other != NULL && captures(t) == 0)
        read_beside(t, l, other);
}
