/* SPDX-License-Identifier: MIT */
/* The doors. */
#include "policy/doors.h"

#include <string.h>

#include "driver/driver.h"
#include "engine/base/thread.h"
#include "engine/engine.h"
#include "policy/costs.h"
#include "policy/driver.h"
#include "policy/threads.h"

static bool passive(void)
{
    return !atomic_load(&ag_engine_on) || ag_depth != 0;
}

/* -- Ops -------------------------------------------------------------------------------- */

/* What a call says of its stream. */
struct place {
    struct play_gpu *stream;
    CUstream handle;
    bool ptsz;
};

static struct place place_of(uint64_t stream)
{
    struct place place = {.stream = play_stream((uint32_t)stream)};
    place.handle = play_handle(place.stream, &place.ptsz);
    return place;
}

/* Whether the op passes: then the library takes hardly any time for it. */
static bool passes(const struct place *to, enum ag_op_kind kind, CUfunction func, unsigned grid)
{
    if (ag_engine_still_passes(to->handle, to->ptsz, kind, func, grid) || passive() ||
        (atomic_load(&ag_subscribers) == 0 &&
         ag_engine_passes(to->handle, to->ptsz, kind, func, grid))) {
        play_spend(passive() ? 0 : NS_PASS);
        return true;
    }
    return false;
}

/* The engine has decided: an op that is not held goes out. */
static void decided(const struct play_program *program, const struct play_line *line, bool held)
{
    play_spend(held ? NS_HELD : NS_EAGER);
    if (!held)
        play_eager(program, line);
}

/* The arguments of a launch: numbers that stand for values become values. */
static void arguments(const struct play_program *p, const struct play_line *line,
                      unsigned char *bytes, void **params)
{
    const struct play_function *function = &p->function[line->word[0]];
    for (uint32_t i = 0; i < function->params; i++) {
        uint32_t size = p->sizes[function->first + i];
        uint64_t value =
            p->values[line->word[10] + i] + 1; /* hardly any argument is 0 in all bytes */
        memset(bytes, 0, size);
        memcpy(bytes, &value, size < sizeof value ? size : sizeof value);
        params[i] = bytes;
        bytes += (size + 7) / 8 * 8;
    }
}

static bool kernel(const struct play_program *p, const struct play_line *line,
                   const struct place *to)
{
    enum { MOST = 512, BYTES = 40960 };
    unsigned char bytes[BYTES];
    void *params[MOST];
    const uint64_t *w = line->word;
    CUlaunchAttribute attrs[8]; /* which ones they were is not known */
    for (unsigned i = 0; i < 8; i++)
        attrs[i] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};
    if (p->function[w[0]].params > MOST)
        return false;
    arguments(p, line, bytes, params);
    const struct ag_kernel_call call = {
        .shape = {{(uint32_t)w[2], (uint32_t)w[3], (uint32_t)w[4]},
                  {(uint32_t)w[5], (uint32_t)w[6], (uint32_t)w[7]},
                  (uint32_t)w[8],
                  w[9] < 8 ? (uint32_t)w[9] : 8},
        .func = play_function((uint32_t)w[0]),
        .stream = to->handle,
        .ptsz = to->ptsz,
        .params = params,
        .attrs = w[9] != 0 ? attrs : NULL,
    };
    return ag_engine_kernel(&call);
}

static bool memset_op(const struct play_line *line, const struct place *to)
{
    const uint64_t *w = line->word;
    const struct ag_memset_call call = {
        .dst = w[1],
        .count = w[2],
        .height = w[3],
        .pitch = w[4],
        .value = (uint32_t)w[5],
        .width = (uint32_t)w[6],
        .stream = to->handle,
        .ptsz = to->ptsz,
        .blocks = w[7] != 0,
    };
    ag_cause = "cuMemset";
    bool held = (!call.blocks || ag_engine_follows_default(to->ptsz)) && ag_engine_memset(&call);
    if (!held && call.blocks)
        ag_engine_barrier_wait(NULL, to->ptsz, AG_REASON_HOST_WAIT);
    return held;
}

static bool copy(const struct play_line *line, const struct place *to)
{
    enum { HOST = CU_MEMORYTYPE_HOST };
    const uint64_t *w = line->word;
    struct ag_copy_call call = {
        .params = {.srcMemoryType = (CUmemorytype)w[3],
                   .dstMemoryType = (CUmemorytype)w[1],
                   .srcPitch = w[9],
                   .dstPitch = w[8],
                   .WidthInBytes = w[5],
                   .Height = w[6],
                   .Depth = w[7]},
        .stream = to->handle,
        .ptsz = to->ptsz,
        .blocks = w[10] != 0,
    };
    if (w[1] == HOST)
        call.params.dstHost = (void *)w[2];
    else
        call.params.dstDevice = w[2];
    if (w[3] == HOST)
        call.params.srcHost = (void *)w[4];
    else
        call.params.srcDevice = w[4];
    ag_cause = "cuMemcpy";
    bool held = (!call.blocks || ag_engine_follows_default(to->ptsz)) && ag_engine_copy(&call);
    if (!held && call.blocks)
        ag_engine_barrier_copy(to->ptsz, AG_REASON_HOST_WAIT);
    return held;
}

/* The program has created it at some time before. */
static void know(const struct play_program *p, uint32_t number)
{
    struct play_event *event = play_event(number);
    if (!event->known)
        ag_engine_event_created((CUevent)event, p->timed[number] ? 0 : CU_EVENT_DISABLE_TIMING);
    event->known = true;
}

static bool event(const struct play_program *p, const struct play_line *line,
                  const struct place *to)
{
    know(p, (uint32_t)line->word[1]);
    const struct ag_event_call call = {
        .event = (CUevent)play_event((uint32_t)line->word[1]),
        .stream = to->handle,
        .wait = line->verb == PLAY_WAIT,
        .ptsz = to->ptsz,
    };
    ag_cause = call.wait ? "cuStreamWaitEvent" : "cuEventRecord";
    return ag_engine_event(&call);
}

static bool value(const struct play_line *line, const struct place *to)
{
    const uint64_t *w = line->word;
    const struct ag_value_call call = {
        .operation = (CUstreamBatchMemOpType)w[1],
        .address = w[2],
        .value = w[3],
        .flags = (unsigned)w[4],
        .stream = to->handle,
        .ptsz = to->ptsz,
    };
    ag_cause = "cuStreamWriteValue";
    return ag_engine_value(&call);
}

static void op(const struct play_program *p, const struct play_line *line)
{
    static const enum ag_op_kind kinds[] = {
        [PLAY_KERNEL] = AG_OP_KERNEL, [PLAY_MEMSET] = AG_OP_MEMSET, [PLAY_COPY] = AG_OP_COPY,
        [PLAY_RECORD] = AG_OP_RECORD, [PLAY_WAIT] = AG_OP_WAIT,     [PLAY_VALUE] = AG_OP_VALUE,
    };
    bool is_kernel = line->verb == PLAY_KERNEL;
    struct place to = place_of(line->word[is_kernel]);
    CUfunction func = is_kernel ? play_function((uint32_t)line->word[0]) : NULL;
    if (passes(&to, kinds[line->verb], func, is_kernel ? (unsigned)line->word[2] : 0)) {
        play_eager(p, line);
        return;
    }
    struct play_op issued = play_op_of(p, line);
    play_gpu_issue(to.stream, &issued);
    bool held = is_kernel                   ? kernel(p, line, &to)
                : line->verb == PLAY_MEMSET ? memset_op(line, &to)
                : line->verb == PLAY_COPY   ? copy(line, &to)
                : line->verb == PLAY_VALUE  ? value(line, &to)
                                            : event(p, line, &to);
    if (!held)
        (void)play_gpu_take(to.stream, issued.kind, issued.event);
    decided(p, line, held);
}

/* -- Copies to the host -------------------------------------------------------------------- */

static void read_barrier(const struct place *from, bool blocks)
{
    if (!ag_anything_held() && atomic_load(&ag_next_subscribers) == 0)
        return;
    if (blocks)
        ag_engine_barrier_wait(from->handle, from->ptsz, AG_REASON_HOST_WAIT);
    else
        ag_engine_barrier_stream(from->handle, from->ptsz, AG_REASON_STREAM_BARRIER);
}

static void read_back(const struct play_program *p, const struct play_line *line)
{
    const uint64_t *w = line->word;
    struct place from = place_of(w[0]);
    if (passive()) {
        play_eager(p, line);
        return;
    }
    const struct ag_read_call call = {
        .dst = (void *)w[1],
        .src = w[2],
        .bytes = w[3],
        .stream = from.handle,
        .ptsz = from.ptsz,
        .blocks = w[4] != 0,
    };
    struct play_op fetch = {.kind = PLAY_OP_FETCH, .ns = play_gpu_ns(PLAY_OP_FETCH, w[3])};
    ag_cause = call.blocks ? "cuMemcpyDtoH_v2" : "cuMemcpyDtoHAsync_v2";
    play_gpu_issue(from.stream, &fetch);
    enum ag_read read = ag_engine_read(&call);
    ag_done.waits += call.blocks;
    if (read == AG_READ_DONE) {
        play_spend(NS_HELD);
        return;
    }
    (void)play_gpu_take(from.stream, PLAY_OP_FETCH, NULL);
    if (read == AG_READ_NOT)
        read_barrier(&from, call.blocks);
    play_spend(NS_EAGER);
    play_eager(p, line);
    ag_engine_read_eager(&call);
}

/* -- Memory in streams --------------------------------------------------------------------- */

static void frees(const struct play_program *p, const struct play_line *line)
{
    struct place in = place_of(line->word[0]);
    ag_cause = "cuMemFreeAsync";
    ag_memory_changed();
    if (!passive()) {
        ag_engine_frees(in.handle, in.ptsz);
        if (ag_engine_free(line->word[1], in.handle, in.ptsz)) {
            play_spend(NS_HELD);
            return;
        }
    }
    play_eager(p, line);
}

static void allocates(const struct play_program *p, const struct play_line *line)
{
    struct place in = place_of(line->word[0]);
    ag_cause = "cuMemAllocAsync";
    if (!passive())
        ag_engine_allocates(in.handle, in.ptsz);
    play_eager(p, line);
    ag_memory_changed();
    if (!passive())
        ag_engine_allocated(in.handle, in.ptsz);
}

/* -- Waits ---------------------------------------------------------------------------------- */

static void wait_begins(const struct play_line *line, uint64_t *mark, struct ag_wait_call *wait)
{
    ag_done.waits++;
    if (line->verb == PLAY_SYNC_STREAM) {
        struct place on = place_of(line->word[0]);
        ag_cause = "cuStreamSynchronize";
        if (ag_engine_listens())
            ag_engine_stream_waits(on.handle, on.ptsz, wait);
        *mark = atomic_load(&ag_streams_go) ? ag_engine_issued(on.handle, on.ptsz) : 0;
    } else if (line->verb == PLAY_SYNC_EVENT) {
        ag_cause = "cuEventSynchronize";
        if (ag_engine_listens())
            ag_engine_barrier_event((CUevent)play_event((uint32_t)line->word[0]),
                                    AG_REASON_HOST_WAIT);
    } else {
        ag_cause = "cuCtxSynchronize";
        if (ag_engine_listens())
            ag_engine_barrier_all(AG_REASON_HOST_WAIT);
        if (atomic_load(&ag_any_orphans) != 0)
            *mark = ag_engine_orphans(NULL);
    }
}

static void wait_ends(const struct play_line *line, uint64_t mark)
{
    if (line->verb == PLAY_SYNC_STREAM) {
        struct place on = place_of(line->word[0]);
        ag_engine_waited_for(on.handle, on.ptsz, mark);
    } else {
        ag_engine_orphans_done(NULL, (unsigned)mark);
    }
}

static void waits(const struct play_program *p, const struct play_line *line)
{
    struct ag_wait_call wait = {.fetch = NULL};
    uint64_t mark = 0;
    bool is_passive = passive();
    if (!is_passive)
        wait_begins(line, &mark, &wait);
    play_eager(p, line);
    if (is_passive)
        return;
    if (mark != 0)
        wait_ends(line, mark);
    if (ag_done.reads)
        ag_engine_stream_waited(&wait, CUDA_SUCCESS);
    if (atomic_load(&ag_wanted_traces) != 0)
        ag_engine_waited();
}

/* -- Other barriers ------------------------------------------------------------------------- */

/* As a thunk does, or a door that is not an op's. */
static void barrier(const struct play_program *p, const struct play_line *line)
{
    const uint64_t *w = line->word;
    const char *who = p->names[w[0]];
    struct place place = {.handle = NULL};
    if (strcmp(who, "setter") == 0) /* no barrier, and what it sets is not played */
        return;
    bool all = strcmp(who, "all") == 0 || strcmp(who, "most") == 0;
    bool has_stream =
        line->words > 3 && w[3] != 0 && w[3] <= p->streams &&
        (strcmp(who, "stream") == 0 || strcmp(who, "wait") == 0 || strcmp(who, "attach") == 0);
    if (has_stream)
        place = place_of(w[3]);
    if (all)
        ag_memory_changed();
    if (strcmp(who, "stream") == 0)
        ag_engine_stream_works(place.handle, place.ptsz);
    if (!ag_engine_listens() && strcmp(who, "attach") != 0)
        return;
    ag_cause = p->names[w[2]];
    if (strcmp(who, "stream") == 0)
        ag_engine_barrier_stream(place.handle, place.ptsz, AG_REASON_STREAM_BARRIER);
    else if (strcmp(who, "wait") == 0) {
        ag_done.waits++;
        ag_engine_barrier_wait(place.handle, place.ptsz, AG_REASON_HOST_WAIT);
    } else if (strcmp(who, "copy") == 0)
        ag_engine_barrier_copy(false, AG_REASON_HOST_WAIT);
    else if (strcmp(who, "most") == 0)
        ag_engine_barrier_most(AG_REASON_BARRIER);
    else if (strcmp(who, "event") == 0 && line->words > 3 && w[3] <= p->events)
        ag_engine_barrier_event((CUevent)play_event((uint32_t)w[3]), AG_REASON_BARRIER);
    else if (strcmp(who, "attach") == 0)
        ag_engine_barrier_attach(place.handle, place.ptsz);
    else if (strcmp(who, "load") == 0 && line->words > 3 && w[3] <= p->functions)
        ag_engine_barrier_load(play_function((uint32_t)w[3]));
    else
        ag_engine_barrier_all(AG_REASON_BARRIER);
}

static void graph_launches(const struct place *in)
{
    if (atomic_load(&ag_graphs_free))
        ag_memory_changed();
    ag_done.graphs += ag_engine_listens();
    if (atomic_load(&ag_event_streams) != 0 || (atomic_load(&ag_graphs_wait) && ag_anything_held()))
        ag_engine_barrier_all(AG_REASON_BARRIER);
    else if (atomic_load(&ag_subscribers) != 0)
        ag_engine_barrier_stream(in->handle, in->ptsz, AG_REASON_STREAM_BARRIER);
    ag_engine_stream_used(in->handle, in->ptsz);
}

/* -- Life ------------------------------------------------------------------------------------- */

static void captures(const struct place *in, bool ends)
{
    if (ends) {
        ag_engine_capture_ended(in->handle, in->ptsz);
        return;
    }
    ag_engine_capture_prepare(in->handle, in->ptsz);
    ag_engine_capture_begun(in->handle, in->ptsz);
}

static void thread_ends(void)
{
    if (!ag_self.watched)
        return;
    ag_self.watched = false;
    ag_thread_ends();
}

/* Whether the engine knows the answer. */
static bool is_held(const struct play_line *line)
{
    struct place on;
    if (line->verb == PLAY_ASK_EVENT)
        return ag_engine_asks_event((CUevent)play_event((uint32_t)line->word[0]));
    on = place_of(line->word[0]);
    return ag_engine_asks_stream(on.handle, on.ptsz);
}

/* A program that was told that it is done asks until it is. */
static void asks(const struct play_line *line)
{
    bool done = line->word[1] == CUDA_SUCCESS;
    while (ag_engine_listens() && is_held(line) && done)
        ag_done.told++;
    ag_done.told += !done;
}

/* What the engine is told before the call. */
static void before(const struct play_program *p, const struct play_line *line)
{
    const uint64_t *w = line->word;
    struct place on;
    switch ((enum play_verb)line->verb) {
    case PLAY_GRAPH:
        on = place_of(w[0]);
        graph_launches(&on);
        break;
    case PLAY_HOST:
        on = place_of(w[0]);
        ag_engine_stream_works(on.handle, on.ptsz);
        if (ag_engine_listens())
            ag_engine_barrier_stream(on.handle, on.ptsz, AG_REASON_STREAM_BARRIER);
        break;
    case PLAY_ASK_STREAM:
    case PLAY_ASK_EVENT:
        asks(line);
        break;
    case PLAY_BARRIER:
        barrier(p, line);
        break;
    case PLAY_CREATED:
        if (ag_engine_listens())
            ag_engine_barrier_most(AG_REASON_BARRIER);
        break;
    case PLAY_DESTROYED:
        ag_engine_stream_destroy(place_of(w[0]).handle);
        break;
    case PLAY_GONE:
        (void)ag_engine_event_destroy((CUevent)play_event((uint32_t)w[0]));
        break;
    case PLAY_CAPTURE:
        on = place_of(w[0]);
        captures(&on, play_stream((uint32_t)w[0])->captures);
        break;
    case PLAY_END:
        thread_ends();
        break;
    default:
        break;
    }
}

void play_door(const struct play_program *program, const struct play_line *line)
{
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
    case PLAY_MEMSET:
    case PLAY_COPY:
    case PLAY_RECORD:
    case PLAY_WAIT:
    case PLAY_VALUE:
        op(program, line);
        break;
    case PLAY_READ:
        read_back(program, line);
        break;
    case PLAY_FREE:
        frees(program, line);
        break;
    case PLAY_ALLOCATE:
        allocates(program, line);
        break;
    case PLAY_SYNC_STREAM:
    case PLAY_SYNC_CONTEXT:
    case PLAY_SYNC_EVENT:
        waits(program, line);
        break;
    default:
        if (!passive())
            before(program, line);
        play_eager(program, line);
        break;
    }
    if (line->verb == PLAY_CURRENT)
        ag_engine_forget_current();
    if (line->verb == PLAY_CREATED && !passive())
        ag_engine_stream_created(place_of(line->word[0]).handle,
                                 play_stream((uint32_t)line->word[0])->flags);
}
