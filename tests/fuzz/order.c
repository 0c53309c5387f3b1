/* SPDX-License-Identifier: MIT */
/* Statements about order: between lanes, and between a lane and the host. */
#include "world.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* -- A step on a lane's stream, by the thread that can name it ------------------ */

struct step {
    void (*what)(struct thread *t, const struct step *step);
    struct lane *lane;
    CUevent event;
    CUdeviceptr address, other;
    uint32_t value;
    bool *failed;
};

static void step_job(struct thread *t, const void *of)
{
    const struct step *step = of;
    lane_enter(t, step->lane);
    step->what(t, step);
}

static void take(struct thread *t, const struct step *step)
{
    bool owner = step->lane->kind == LANE_PER_THREAD;
    thread_call(t, owner ? step->lane->thread : t->index, step_job, step);
}

static void record(struct thread *t, const struct step *step)
{
    CUresult result = step->lane->api->cuEventRecord(step->event, step->lane->stream);
    must_succeed(t, result, "cuEventRecord");
    if (step->failed != NULL)
        *step->failed |= result != CUDA_SUCCESS;
}

static void wait(struct thread *t, const struct step *step)
{
    CUresult result = step->lane->api->cuStreamWaitEvent(step->lane->stream, step->event, 0);
    must_succeed(t, result, "cuStreamWaitEvent");
    *step->failed |= result != CUDA_SUCCESS;
}

static void write_value(struct thread *t, const struct step *step)
{
    MUST(t, step->lane->api->cuStreamWriteValue32(step->lane->stream, step->address, step->value,
                                                  CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void wait_value(struct thread *t, const struct step *step)
{
    MUST(t, step->lane->api->cuStreamWaitValue32(step->lane->stream, step->address, step->value,
                                                 CU_STREAM_WAIT_VALUE_GEQ));
}

static void wait_word(struct thread *t, const struct step *step)
{
    MUST(t, word_launch(step->lane, step->lane->context->wait, step->address, step->value));
}

static void set_word(struct thread *t, const struct step *step)
{
    MUST(t, word_launch(step->lane, step->lane->context->set, step->address, step->value));
}

static void synchronize(struct thread *t, const struct step *step)
{
    MUST(t, step->lane->api->cuStreamSynchronize(step->lane->stream));
}

static void query(struct thread *t, const struct step *step)
{
    CUresult result;
    while ((result = step->lane->api->cuStreamQuery(step->lane->stream)) == CUDA_ERROR_NOT_READY)
        sched_yield();
    must_succeed(t, result, "cuStreamQuery");
}

/* fold(state of the lane, what is passed to it) */
static void receive(struct thread *t, const struct step *step)
{
    struct statement launch = {.kind = S_KERNEL, .n = KERNEL_PLAIN, .block = 1};
    MUST(t, op_launch(t, step->lane, &launch, step->address, step->other, step->value));
}

static void pass_out(struct thread *t, const struct step *step)
{
    uint32_t *pass = step->lane->pinned + PINNED_PASS * BUFFER_WORDS;
    MUST(t, step->lane->api->cuMemcpyDtoHAsync(pass, step->other, BUFFER_WORDS * 4,
                                               step->lane->stream));
}

/* Pinned memory is in step->other, as a number. */
static void pass_in(struct thread *t, const struct step *step)
{
    MUST(t, step->lane->api->cuMemcpyHtoDAsync(step->address, (const void *)step->other,
                                               BUFFER_WORDS * 4, step->lane->stream));
}

static void pass_over(struct thread *t, const struct step *step)
{
    MUST(t, step->lane->api->cuMemcpyDtoDAsync(step->address, step->other, BUFFER_WORDS * 4,
                                               step->lane->stream));
}

/* -- Edges ---------------------------------------------------------------- */

/* The lane's events in turn. In every other lane they are replaced from time to time, while work
   may still wait for them: before the new one is made, which may get the old one's handle, or
   behind. */
static CUevent next_event(struct thread *t, struct lane *l)
{
    unsigned turn = l->event_turn++;
    CUevent *event = &l->event[turn % 2], old = *event;
    if (l->index % 2 == 0 || turn % 8 < 6 || captures(t) != 0 || (t->par && t->world->par_captures))
        return old;
    world_enter(t, l->context);
    if (turn / 8 % 2 == 0)
        MUST(t, l->api->cuEventDestroy(old));
    MUST(t, l->api->cuEventCreate(event, turn % 2 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
    if (turn / 8 % 2 != 0)
        MUST(t, l->api->cuEventDestroy(old));
    return *event;
}

static bool ordered_by_legacy(const struct lane *a, const struct lane *b)
{
    return a->context == b->context && (a->kind == LANE_LEGACY || b->kind == LANE_LEGACY) &&
           a->kind != LANE_NONBLOCKING && b->kind != LANE_NONBLOCKING;
}

bool order_may_wait_ahead(const struct thread *t, const struct lane *from, const struct lane *to)
{
    bool same =
        from->kind == to->kind && (from->kind == LANE_LEGACY ||
                                   (from->kind == LANE_PER_THREAD && from->thread == to->thread));
    return from->context == to->context && from->stream != to->stream && !same && !t->par &&
           !ordered_by_legacy(from, to);
}

void order_wait(struct thread *t, struct lane *l, int how)
{
    const struct api *call = l->api;
    if (how == EDGE_HOST_CONTEXT && t->par && t->world->par_captures)
        how = EDGE_HOST; /* another thread's capture would forbid it */
    if (how == EDGE_HOST_CONTEXT) {
        world_enter(t, l->context);
        MUST(t, call->cuCtxSynchronize());
        return;
    }
    if (l->stray) /* an event in its stream waits for the legacy stream */
        how = EDGE_HOST_EVENT;
    l->stray = false;
    if (how == EDGE_HOST || how == EDGE_HOST_QUERY) {
        take(t, &(struct step){how == EDGE_HOST ? synchronize : query, l, NULL, 0, 0, 0, NULL});
        return;
    }
    CUevent event = next_event(t, l);
    take(t, &(struct step){record, l, event, 0, 0, 0, NULL});
    if (how == EDGE_HOST_EVENT) {
        MUST(t, call->cuEventSynchronize(event));
        return;
    }
    CUresult result;
    while ((result = call->cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        sched_yield();
    must_succeed(t, result, "cuEventQuery");
}

void order_record(struct thread *t, struct lane *l, CUevent event)
{
    take(t, &(struct step){record, l, event, 0, 0, 0, NULL});
}

void order_await(struct thread *t, struct lane *l, CUevent event)
{
    bool failed = false;
    take(t, &(struct step){wait, l, event, 0, 0, 0, &failed});
}

bool order_edge(struct thread *t, struct lane *from, struct lane *to, int how)
{
    bool failed = false;
    if (from->capturing || (how == EDGE_LEGACY && !ordered_by_legacy(from, to)) ||
        (how == EDGE_DEVICE && (t->world->fills || !order_may_wait_ahead(t, from, to))))
        how = EDGE_EVENT;
    if (how == EDGE_LEGACY)
        return true;
    if (how == EDGE_DEVICE) {
        CUdeviceptr address = word_address(from, WORD_DEVICE);
        take(t, &(struct step){wait_word, to, NULL, address, 0, ++from->device, NULL});
        take(t, &(struct step){set_word, from, NULL, address, 0, from->device, NULL});
    } else if (how >= EDGE_HOST) {
        order_wait(t, from, how);
    } else if (how == EDGE_VALUE) {
        CUdeviceptr address = word_address(from, WORD_FLAG);
        take(t, &(struct step){write_value, from, NULL, address, 0, ++from->flag, NULL});
        take(t, &(struct step){wait_value, to, NULL, address, 0, from->flag, NULL});
    } else {
        CUevent event = next_event(t, from);
        take(t, &(struct step){record, from, event, 0, 0, 0, &failed});
        take(t, &(struct step){wait, to, event, 0, 0, 0, &failed});
    }
    return !failed;
}

/* Whether `from` may bring `to` into its capture. */
static bool may_join(const struct thread *t, const struct lane *from, const struct lane *to)
{
    return to->kind != LANE_LEGACY && to->share == NULL && !to->shared &&
           from->context == to->context && (!t->par || to->kind == LANE_NONBLOCKING);
}

/* The lane takes what is at an address of its context into its state. */
static void take_in(struct thread *t, struct lane *to, CUdeviceptr from, int mode, uint32_t k)
{
    if (mode == 1) {
        take(t, &(struct step){pass_over, to, NULL, to->b, from, 0, NULL});
        from = to->b;
    } else if (mode == 2) {
        CUdeviceptr pass = (CUdeviceptr)(to->pinned + PINNED_PASS * BUFFER_WORDS);
        take(t, &(struct step){pass_out, to, NULL, 0, from, 0, NULL});
        take(t, &(struct step){pass_in, to, NULL, to->b, pass, 0, NULL});
        from = to->b;
    }
    take(t, &(struct step){receive, to, NULL, to->state, from, k, NULL});
}

static void exchange(struct thread *t, struct lane *to, struct lane *from,
                     const struct statement *s)
{
    if (from == to || (captures(t) != 0 && !from->capturing) ||
        (to->capturing && !from->capturing) ||
        (from->capturing && !to->capturing && !may_join(t, from, to)))
        return;
    uint32_t k = op_value(t, to, s);
    if (from->context == to->context) {
        if (!order_edge(t, from, to, s->how))
            return; /* the capture is broken */
        if (from->capturing && !to->capturing) {
            to->capturing = true;
            to->origin = from->origin;
            to->origin->joined |= 1u << to->index;
        }
        take_in(t, to, from->state, s->mode, k);
    } else {
        if (from->capturing || to->capturing)
            return;
        CUdeviceptr pass = (CUdeviceptr)(from->pinned + PINNED_PASS * BUFFER_WORDS);
        take(t, &(struct step){pass_out, from, NULL, 0, from->state, 0, NULL});
        order_edge(t, from, to, s->how);
        take(t, &(struct step){pass_in, to, NULL, to->b, pass, 0, NULL});
        take(t, &(struct step){receive, to, NULL, to->state, to->b, k, NULL});
    }
    order_edge(t, to, from, s->how);
}

static void pass(struct thread *t, struct lane *to, struct lane *from, const struct statement *s)
{
    if (from->context != to->context || from->slots_used == SLOTS) {
        exchange(t, to, from, s);
        return;
    }
    if (from == to || captures(t) != 0)
        return;
    CUdeviceptr slot = from->slots + (CUdeviceptr)from->slots_used++ * BUFFER_WORDS * 4;
    take(t, &(struct step){pass_over, from, NULL, slot, from->state, 0, NULL});
    order_edge(t, from, to, s->how);
    take_in(t, to, slot, s->mode, op_value(t, to, s));
}

/* -- The host looks --------------------------------------------------------- */

static void read_back(struct thread *t, struct lane *l, const struct statement *s)
{
    uint32_t words[BUFFER_WORDS] = {0}, *pinned = l->pinned + PINNED_READ * BUFFER_WORDS;
    const struct api *call = l->api;
    bool mapped = access_is_in(l, s->src);
    CUdeviceptr from = mapped ? access_memory(l) : l->state;
    t->may_fail = mapped;
    t->world->ops++;
    if (s->how == 1) {
        if (l->kind == LANE_NONBLOCKING)
            order_wait(t, l, EDGE_HOST);
        MUST(t, l->sync->cuMemcpyDtoH(words, from, sizeof words));
        look(t, words, BUFFER_WORDS);
    } else if (s->how == 2) {
        MUST(t, call->cuMemcpyDtoHAsync(words, from, sizeof words, l->stream));
        look(t, words, BUFFER_WORDS);
    } else if (s->how == 3) {
        struct statement launch = {.kind = S_KERNEL, .n = s->n % KERNEL_NONE};
        MUST(t, op_launch(t, l, &launch, lane_buffer(l, BUFFER_HOST), l->state, op_value(t, l, s)));
        order_wait(t, l, EDGE_HOST_EVENT);
        look(t, l->pinned + PINNED_MAPPED * BUFFER_WORDS, BUFFER_WORDS);
    } else {
        MUST(t, call->cuMemcpyDtoHAsync(pinned, from, sizeof words, l->stream));
        order_wait(t, l, s->mode % 2 ? EDGE_HOST_EVENT_QUERY : EDGE_HOST);
        look(t, pinned, BUFFER_WORDS);
    }
    t->may_fail = false;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The host and a kernel share the word with no call between them: that is the point, and no race
   that ThreadSanitizer shall tell of. */
__attribute__((no_sanitize("thread"))) static void spin(struct thread *t, struct lane *l,
                                                        const struct statement *s)
{
    enum { SECONDS = 5 };
    volatile uint32_t *word = l->pinned + PINNED_WORDS * BUFFER_WORDS + WORD_SPIN;
    struct statement launch = {.kind = S_KERNEL, .size = 1, .block = 1};
    *word = 0; /* its last writer was waited for */
    MUST(t, op_launch(t, l, &launch, word_address(l, WORD_SPIN), l->state, op_value(t, l, s)));
    double end = now() + SECONDS;
    while (*word == 0 && now() < end)
        sched_yield();
    if (*word == 0)
        must_succeed(t, CUDA_ERROR_TIMEOUT, "a kernel does not run while the host spins");
}

static void poke(struct thread *t, struct lane *l, const struct statement *s)
{
    order_wait(t, l, s->how < EDGE_HOST || s->how > EDGE_HOST_CONTEXT ? EDGE_HOST : s->how);
    uint32_t *words = l->pinned + PINNED_SOURCE * BUFFER_WORDS, k = op_value(t, l, s);
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        words[i] = words[i] * 31 + k;
}

/* A stream that only this lane uses; the new one goes on where the old one was. */
static void renew(struct thread *t, struct lane *l, const struct statement *s)
{
    if (l->kind == LANE_LEGACY || l->kind == LANE_PER_THREAD || l->share != NULL || l->shared)
        return;
    CUevent event = next_event(t, l);
    bool late = s->n == 2 && !(t->par && t->world->par_captures);
    if (s->n == 1)
        MUST(t, l->api->cuEventRecord(event, l->stream));
    else if (!late)
        MUST(t, l->api->cuStreamSynchronize(l->stream));
    MUST(t, l->api->cuStreamDestroy(l->stream));
    if (late)
        MUST(t, l->api->cuCtxSynchronize());
    stream_make(t, l);
    if (s->n == 1)
        MUST(t, l->api->cuStreamWaitEvent(l->stream, event, 0));
}

void order_run(struct thread *t, struct lane *l, const struct statement *s)
{
    struct lane *other = t->world->lane + s->other;
    if (s->kind == S_EXCHANGE || s->kind == S_PASS) {
        if (s->other < 0 || s->other >= t->world->nlanes || !may_use(t, other))
            return;
        if (s->kind == S_PASS)
            pass(t, l, other, s);
        else
            exchange(t, l, other, s);
    } else if (s->kind == S_SYNC) { /* in a capture it is an error of the program's */
        order_wait(t, l, s->how < EDGE_HOST || s->how > EDGE_HOST_CONTEXT ? EDGE_HOST : s->how);
    } else if (l->capturing) {
        return;
    } else if (s->kind == S_READ) {
        read_back(t, l, s);
    } else if (s->kind == S_POKE) {
        poke(t, l, s);
    } else if (s->kind == S_SPIN) {
        spin(t, l, s);
    } else if (s->kind == S_RENEW) {
        renew(t, l, s);
    }
}
