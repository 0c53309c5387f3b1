/* SPDX-License-Identifier: MIT */
/* Read-backs: copies to the host for which the host waits (fetch.h). */
#include "engine/engine.h"

#include <stddef.h>
#include <string.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/context/fetch.h"
#include "engine/decide/budget.h"
#include "engine/decide/trials.h"
#include "engine/order/barrier.h"
#include "engine/order/enter.h"
#include "engine/order/fork.h"
#include "engine/replay/make.h"
#include "engine/replay/op.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "engine/tell/observe.h"
#include "mutant.h"
#include "observe/callsite.h"

/* Where the copy goes. */
enum place { ELSEWHERE, PAGEABLE, PINNED };

static enum place place_of(const struct ag_read_call *call)
{
    CUmemorytype type = ag_memory_now((CUdeviceptr)call->dst, call->bytes, AG_ACCESS_ALL);
    return type == AG_MEMORY_PAGEABLE ? PAGEABLE : type == CU_MEMORYTYPE_HOST ? PINNED : ELSEWHERE;
}

/* Whether the host waits in the call until the copy is made. */
static bool is_waited(const struct ag_read_call *call, enum place place)
{
    return place == PAGEABLE || (place == PINNED && call->blocks);
}

/* -- The op --------------------------------------------------------------------- */

/* A launch of fetch, described, and what it points to. */
struct launch {
    CUdeviceptr src, done, to;
    uint32_t bytes;
    void *arguments[4];
    struct ag_described op;
};

/* The read-back as an op of the stream, which is locked. False: it cannot be one, or passes. */
static bool describe(struct launch *to, struct ag_stream *stream, const struct ag_read_call *call,
                     enum place place, CUcontext current)
{
    const struct ag_fetch *fetch = &stream->id.context->fetch;
    CUfunction func = atomic_load(&fetch->func);
    to->src = call->src;
    to->done = fetch->at + offsetof(struct ag_fetched, done);
    to->bytes = (uint32_t)call->bytes;
    to->to =
        place == PINNED ? (CUdeviceptr)call->dst : fetch->at + offsetof(struct ag_fetched, bytes);
    to->arguments[0] = &to->src;
    to->arguments[1] = &to->done;
    to->arguments[2] = &to->bytes;
    to->arguments[3] = &to->to;
    const struct ag_kernel_call launch = {.shape = {{1, 1, 1}, {AG_FETCH_THREADS, 1, 1}, 0, 0},
                                          .func = func,
                                          .params = to->arguments};
    uint64_t buffer;
    if (ag_memory_at(&stream->answers, to->src, to->bytes, AG_ACCESS_READ | AG_ACCESS_DIRECT,
                     &buffer) != CU_MEMORYTYPE_DEVICE)
        return false;
    if (ag_op_passes(stream, ag_mark(AG_OP_KERNEL, func, 1))) {
        AG_NOTE(ag_note_uncounted(stream, -1)); /* it is still to be noted */
        return false;
    }
    return ag_describe_kernel(&to->op, &launch, ag_function_find(func, current)) == AG_WHY_HELD;
}

/* The read-back is an op of the stream, which is locked: what becomes of it. If the driver refuses
   the kernel the program's own copy goes out in its place, and the program hears of that. `noted`:
   the trace file has it. */
static enum ag_read step(struct ag_stream *stream, const struct ag_read_call *call,
                         enum place place, CUcontext current, bool noted)
{
    struct launch launch;
    if (!describe(&launch, stream, call, AG_MUTANT(read_back_late) ? PAGEABLE : place, current))
        return AG_READ_NOT;
    if (!noted)
        AG_NOTE(ag_note_read(stream, call));
    struct ag_fetch *fetch = &stream->id.context->fetch;
    fetch->place->done = 0;
    fetch->lost = false;
    bool held = ag_op_step(stream, AG_WHY_HELD, &launch.op);
    if (held)
        AG_NOTE(ag_note_why(AG_WHY_HELD));
    ag_stream_end(stream, true, AG_REASON_HOST_WAIT);
    return !held ? AG_READ_RECORDED : fetch->lost ? AG_READ_NOT : AG_READ_DONE;
}

/* Whether the stream, which is locked, may read back now: nothing else is at work, and other
   threads wait. */
static bool begin(struct ag_stream *stream, CUcontext current, uint32_t *number)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    if (stream->id.kind == AG_STREAM_PER_THREAD || !ag_fetch_is_ready(fetch) ||
        !ag_op_is_eligible(stream, current) || !ag_branches_have_joined(stream) ||
        !ag_fetch_begin(fetch, stream, number))
        return false;
    bool alone =
        AG_MUTANT(read_back_beside_work) || !ag_outstanding_in_context(stream->id.context, stream);
    if (!alone)
        ag_fetch_end(fetch, *number);
    return alone;
}

/* -- Copies for which the host waits ---------------------------------------------- */

/* Marks what is to be waited for, under the stream's lock: other threads may issue work behind it
   before the wait begins. NULL: there are none, and the stream itself is waited for. */
static CUevent mark(struct ag_stream *stream)
{
    CUresult result;
    if (!ag_issuer_are_many())
        return NULL;
    CUevent event = ag_fetch_mark(&stream->id.context->fetch, stream->id.handle, &result);
    ag_failure_note(stream, result, "marking the end of a read-back");
    return event;
}

/* Takes the bytes for pageable memory, which have come. False: they are lost. */
static bool take(const struct ag_fetch *fetch, uint32_t number, const struct ag_read_call *call)
{
    const volatile struct ag_fetched *place = fetch->place;
    if (!ag_fetch_is_mine(fetch, number) || place->done == 0)
        return false;
    memcpy(call->dst, (const void *)place->bytes, call->bytes);
    return true;
}

/* The bytes are on their way: waits for them, as the program would, which may leave the wait by a
   longjmp. False: there was an error. */
static bool arrive(const struct ag_fetch *fetch, uint32_t number, CUevent event, CUstream handle,
                   const struct ag_read_call *call, enum place place)
{
    CUresult result =
        event != NULL ? ag_real.cuEventSynchronize(event) : ag_real.cuStreamSynchronize(handle);
    if (AG_MUTANT(read_back_late))
        place = PAGEABLE;
    bool arrived = (result == CUDA_SUCCESS || AG_MUTANT(read_error_hidden)) &&
                   (place == PINNED || take(fetch, number, call));
    if (!arrived)
        atomic_fetch_add(&ag_context_errors, 1);
    return arrived;
}

/* Writes a byte of each page as it is, before anything is begun: if the place cannot be written, a
   handler of SIGSEGV may make it so by calls of its own, or jump away. */
static void touch(void *to, size_t bytes)
{
    enum { PAGE = 4096 }; /* or more */
    unsigned char *byte = to, *last = byte + bytes - 1;
    for (bool more = true; more; byte += PAGE) {
        more = byte < last;
        unsigned char *at = more ? byte : last, is = __atomic_load_n(at, __ATOMIC_RELAXED);
        (void)__atomic_compare_exchange_n(at, &is, is, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

/* Where the copy goes. Pageable memory is touched. Where the host waits the kernel must be ready.
 */
static enum place prepare(const struct ag_read_call *call, bool ready)
{
    enum place place = place_of(call);
    if (!ready && is_waited(call, place))
        return ELSEWHERE;
    if (place == PAGEABLE && !AG_MUTANT(pages_untouched))
        touch(call->dst, call->bytes);
    return place;
}

/* Reads back in the stream, which is locked, and gives the lock back. */
static enum ag_read read_back(struct ag_stream *stream, const struct ag_read_call *call,
                              enum place place, CUcontext current)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    CUstream handle = stream->id.handle;
    enum ag_read read = AG_READ_NOT;
    uint32_t number;
    bool reads = begin(stream, current, &number);
    CUevent event = NULL;
    if (reads) {
        uint64_t began = ag_trials_clock(stream);
        read = step(stream, call, place, current, false);
        if (read == AG_READ_DONE)
            event = mark(stream);
        ag_trials_spent(stream, began);
    }
    ag_stream_unlock(stream);
    AG_CALLSITE();
    if (read == AG_READ_DONE && !arrive(fetch, number, event, handle, call, place))
        read = AG_READ_NOT; /* the program's own call says why */
    if (reads)
        ag_fetch_end(fetch, number);
    return read;
}

/* -- Copies to pinned memory: pinned.h ------------------------------------------------- */

/* The copy came right behind a sequence that has gone out in one graph, several times. A longer
   sequence ends with it. */
static void learn(struct ag_stream *stream, struct ag_described *op)
{
    struct ag_recorder *rec = &stream->recorder;
    struct ag_node *node = ag_tree_find(&rec->tree, rec->ended, &op->op);
    if (node == NULL)
        node = ag_tree_add(&rec->tree, rec->ended, &op->op);
    if (node == NULL || node->trace != NULL || !ag_node_is_good(node) ||
        ++node->ends < ag_budget_hot(stream, node) || !ag_node_arguments(node))
        return;
    node->ends = 0;
    ag_node_store(node, op->from);
    ag_depth++;
    ag_make(stream, node);
    ag_depth--;
}

/* The host has often waited behind such a copy. The stream is locked: holds it, or learns where it
   stands. */
static enum ag_read expect(struct ag_stream *stream, const struct ag_read_call *call,
                           CUcontext current)
{
    struct ag_recorder *rec = &stream->recorder;
    struct launch launch;
    uint64_t buffer;
    if (ag_memory_at(&stream->answers, (CUdeviceptr)call->dst, call->bytes, AG_ACCESS_ALL,
                     &buffer) != CU_MEMORYTYPE_HOST ||
        !describe(&launch, stream, call, PINNED, current))
        return AG_READ_NOT;
    ag_op_hash(&launch.op.op);
    if (stream->seq.held != 0) {
        struct ag_node *node = ag_recorder_find(rec, &launch.op.op);
        if (node != NULL && ag_op_is_promising(node) && stream->seq.free_count == 0) {
            rec->cursor->next = node; /* no op of the program's is that */
            AG_NOTE(ag_note_read(stream, call));
            AG_NOTE(ag_note_uncounted(stream, 1));
            ag_pinned_hold(stream, call->dst, call->src, (uint32_t)call->bytes);
            return AG_READ_DONE;
        }
        if (ag_stream_submit(stream, AG_REASON_SIDE_EXIT)) /* it begins a longer sequence, too */
            ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    }
    if (rec->cursor->depth == 0) {
        if (rec->ended != NULL)
            learn(stream, &launch.op);
        return AG_READ_NOT;
    }
    AG_NOTE(ag_note_read(stream, call));
    ag_op_record(stream, &launch.op);
    ag_stream_end(stream, true, AG_REASON_HOST_WAIT);
    return AG_READ_RECORDED;
}

/* Gives the lock of the stream back. */
static enum ag_read copy_to_pinned(struct ag_stream *stream, const struct ag_read_call *call,
                                   CUcontext current)
{
    bool expected = ag_pinned_is_awaited(stream) && !ag_pinned_holds(stream) &&
                    stream->id.kind != AG_STREAM_PER_THREAD &&
                    ag_fetch_is_ready(&stream->id.context->fetch) &&
                    ag_op_is_eligible(stream, current);
    uint64_t began = ag_trials_clock(stream);
    enum ag_read read = expected ? expect(stream, call, current) : AG_READ_NOT;
    ag_trials_spent(stream, began);
    ag_self.copied = read == AG_READ_DONE ? NULL : stream;
    ag_self.reads = read == AG_READ_DONE ? stream : NULL;
    ag_stream_unlock(stream);
    AG_CALLSITE();
    return read;
}

/* The driver has made the copy, behind which the host may wait. */
static void copied(struct ag_stream *stream, const struct ag_read_call *call)
{
    ag_stream_lock(stream);
    bool own = stream->id.live && ag_issuer_is_self(stream);
    if (own && call->bytes <= AG_FETCH_BYTES)
        ag_pinned_copied(stream);
    else if (own)
        ag_sequence_subscribe(stream, true);
    ag_stream_unlock(stream);
}

/* A copy that was held goes out by itself, after the stream's op of that number. */
static void note_copy(struct ag_stream *stream, uint64_t number, enum ag_read read, uint64_t began)
{
    bool counted = ag_note_number(stream) != number;
    if (!counted)
        ag_note_uncounted(stream, 1);
    if (counted && read != AG_READ_RECORDED)
        return; /* it has been submitted as a read-back, which was lost */
    stream->reading.flushed = true;
    ag_note_submit(stream, 0, AG_REASON_HOST_WAIT, began, stream->counters.patches, 0);
}

static _Thread_local struct ag_read_call late; /* of the mutation read_back_late */

/* The host waits for the stream, which is locked, and which this thread may read back from. */
static void bring(struct ag_stream *stream, CUcontext current, uint32_t number,
                  struct ag_wait_call *wait)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    struct ag_reading copy = ag_pinned_take(stream);
    const struct ag_read_call call = {.dst = copy.dst, .src = copy.src, .bytes = copy.bytes};
    AG_NOTE(ag_note_uncounted(stream, -1)); /* the engine counts it now */
    uint64_t before = ag_note_number(stream);
    enum ag_read read = step(stream, &call, PINNED, current, true);
    if (read == AG_READ_DONE) {
        *wait = (struct ag_wait_call){fetch, number};
        if (AG_MUTANT(read_back_late))
            late = call;
        atomic_store(&fetch->marked, true);
        ag_done.reads = true;
        return;
    }
    ag_stream_end(stream, true, AG_REASON_HOST_WAIT); /* the copy goes out behind what is held */
    uint64_t began = ag_tracefile_now();
    ag_depth++;
    ag_pinned_submit(stream, &copy, stream->id.handle);
    ag_depth--;
    AG_NOTE(note_copy(stream, before, read, began));
    ag_fetch_end(fetch, number);
}

/* The thread waits for the stream in which it has held a copy last. */
static void reads(struct ag_stream *stream, CUstream handle, bool ptsz, struct ag_wait_call *wait)
{
    CUcontext current;
    uint32_t number;
    ag_self.reads = NULL;
    if (ag_context_refused(&current) || ag_stream_peek(handle, ptsz, current) != stream)
        return;
    ag_stream_lock(stream);
    if (ag_pinned_holds(stream) && ag_issuer_is_self(stream) && begin(stream, current, &number))
        bring(stream, current, number, wait);
    ag_stream_unlock(stream);
}

void ag_engine_stream_waits(CUstream handle, bool ptsz, struct ag_wait_call *wait)
{
    ag_fetch_give_up();
    if (ag_self.reads != NULL)
        reads(ag_self.reads, handle, ptsz, wait);
    ag_barrier_wait(handle, ptsz, AG_REASON_HOST_WAIT);
}

void ag_engine_stream_waited(const struct ag_wait_call *wait, CUresult result)
{
    ag_done.reads = false;
    if (AG_MUTANT(read_back_late) && wait->fetch != NULL)
        (void)take(wait->fetch, wait->number, &late);
    if (wait->fetch != NULL)
        ag_fetch_end(wait->fetch, wait->number);
    const struct ag_context *context = ag_context_peek(ag_context_current());
    if (result == CUDA_SUCCESS && context != NULL && ag_fetch_is_wanted(&context->fetch))
        ag_engine_waited();
}

/* -- Both ------------------------------------------------------------------------------ */

/* What the copy comes behind, in a legacy stream. */
static unsigned mark_left(const struct ag_read_call *call, CUcontext current)
{
    if (__builtin_expect(atomic_load(&ag_any_orphans) == 0, 1) ||
        ag_stream_name(call->stream, call->ptsz) != CU_STREAM_LEGACY)
        return 0;
    const struct ag_context *context = ag_context_peek(current);
    return context != NULL ? ag_orphans_mark(&context->orphans) : 0;
}

/* Whether copies of this call's size may be read-backs now, in the stream. */
static bool may_read(const struct ag_stream *stream, const struct ag_read_call *call)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    return call->bytes != 0 && call->bytes <= AG_FETCH_BYTES && ag_opt.graph_read_backs &&
           !atomic_load(&fetch->never) && atomic_load(&ag_hold_bans) == 0 && !ag_fetch_rests(fetch);
}

enum ag_read ag_engine_read(const struct ag_read_call *call)
{
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (UNLIKELY(stream == NULL) && !call->blocks)
        ag_engine_stream_works(call->stream, call->ptsz);
    ag_self.copied = NULL;
    AG_NOTE(ag_note_read_begins());
    ag_self.left = mark_left(call, current);
    ag_fetch_give_up();
    if (stream != NULL && !call->blocks && call->bytes > AG_FETCH_BYTES)
        ag_self.copied = stream;
    if (stream == NULL || !may_read(stream, call))
        return AG_READ_NOT;
    bool ready = ag_fetch_is_ready(&stream->id.context->fetch);
    enum place place = ready || !call->blocks ? prepare(call, ready) : ELSEWHERE;
    ag_fork_leave(stream, AG_REASON_HOST_WAIT);
    if (place == ELSEWHERE || (stream = ag_enter(call->stream, call->ptsz, current, false)) == NULL)
        return AG_READ_NOT;
    if (!is_waited(call, place))
        return copy_to_pinned(stream, call, current);
    enum ag_read read = read_back(stream, call, place, current);
    ag_done.waits += !call->blocks && read != AG_READ_NOT;
    return read;
}

/* A copy has gone to the host while the kernel for read-backs is not loaded. */
static void count(struct ag_fetch *fetch, const struct ag_read_call *call)
{
    uint32_t seen = atomic_load(&fetch->seen) + 1;
    /* Seldom where no load comes. If this copy is no read-back it does not count: the next may be.
     */
    bool looks = seen >= AG_FETCH_AFTER.first && (seen & (seen - 1)) == 0;
    if (looks && !is_waited(call, place_of(call)))
        return;
    atomic_store(&fetch->seen, seen); /* of two threads one may be lost */
    if (looks && ag_fetch_is_wanted(fetch))
        ag_engine_waited();
}

void ag_engine_read_eager(const struct ag_read_call *call)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    if (ag_self.copied != NULL)
        copied(ag_self.copied, call);
    if (context == NULL)
        return;
    if (ag_self.left != 0 && (call->blocks || place_of(call) == PAGEABLE))
        ag_orphans_waited(&context->orphans, ag_self.left, false);
    struct ag_fetch *fetch = &context->fetch;
    if (call->bytes <= AG_FETCH_BYTES && ag_opt.graph_read_backs &&
        atomic_load(&fetch->func) == NULL && !atomic_load(&fetch->never))
        count(fetch, call);
}

void ag_note_read_call(const struct ag_read_call *call)
{
    if (ag_note_has_read(call)) /* as a read-back, which has failed */
        return;
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL) {
        ag_note_read(NULL, call);
        return;
    }
    ag_stream_lock(stream);
    if (stream->seq.held != 0) /* another thread has been faster */
        ag_stream_submit(stream, AG_REASON_HOST_WAIT);
    ag_note_read(stream, call);
    ag_note_why(AG_WHY_TO_HOST);
    ag_note_uncounted(stream, 1);
    ag_stream_unlock(stream);
}
