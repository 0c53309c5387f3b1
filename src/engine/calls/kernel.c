/* SPDX-License-Identifier: MIT */
/* Launches of kernels. The last function is the hot path. */
#include "engine/engine.h"

#include "engine/decide/trials.h"
#include "engine/order/barrier.h"
#include "engine/order/enter.h"
#include "engine/order/event_flush.h"
#include "engine/replay/op.h"
#include "engine/stream/event.h"
#include "engine/tell/observe.h"
#include "graph/function.h"
#include "graph/node.h"

/* `function` is what is known of the kernel's; or the op is that of the node `same`. The lock is
   held. */
__attribute__((noinline)) static bool kernel_slow(struct ag_stream *stream,
                                                  const struct ag_kernel_call *call,
                                                  const struct ag_function *function,
                                                  const struct ag_node *same, CUcontext current)
{
    struct ag_described op;
    if (ag_op_passes(stream, ag_mark(AG_OP_KERNEL, call->func, call->shape.grid[0])))
        return false;
    ag_cause = ag_cause_kernel;
    enum ag_why why = ag_op_forbidden(stream, current);
    if (same != NULL) {
        op.op = same->op;
        op.from = call->params;
    } else if (why == AG_WHY_HELD) {
        why = LIKELY(call->extra == NULL) ? ag_describe_kernel(&op, call, function)
                                          : ag_describe_buffer(&op, call, function, stream->fields);
    }
    return ag_op_step(stream, why, &op);
}

/* Whether the launch is the op at this node, but for its arguments. */
static inline bool is_same(const struct ag_node *node, const struct ag_kernel_call *call)
{
    return node != NULL && node->op.func == call->func && node->op.kind == AG_OP_KERNEL &&
           memcmp(node->op.shape, &call->shape, sizeof call->shape) == 0 &&
           call->shape.nattrs == 0 && call->extra == NULL &&
           (call->params != NULL || node->op.layout->count == 0);
}

/* A launch records the event, unless it is refused. */
static void settle_event(CUevent event)
{
    (void)ag_event_flush(event, true, AG_REASON_EVENT);
    ag_event_goes_unnoted(event);
}

/* A launch may record an event: before that goes what has to be submitted before a record. */
static __attribute__((noinline)) void settle_events(const struct ag_kernel_call *call)
{
    for (uint32_t i = 0; i < call->shape.nattrs; i++) {
        const CUlaunchAttribute *attr = &call->attrs[i];
        if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            settle_event(attr->value.programmaticEvent.event);
        else if (attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            settle_event(attr->value.launchCompletionEvent.event);
    }
}

/* Whether the launch records an event; nobody will say which. */
static bool records(const struct ag_kernel_call *call)
{
    for (uint32_t i = 0; call->attrs != NULL && i < call->shape.nattrs; i++)
        if (call->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            call->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            return true;
    return false;
}

/* The launch goes out, and its stream has no state. What must precede it because of its events, or
   because it loads the function, goes first. */
static __attribute__((noinline)) void launch_stateless(const struct ag_kernel_call *call,
                                                       CUcontext current)
{
    if (current == NULL && !ag_stream_is_default(call->stream))
        ag_enter_stateless(); /* no context is needed where there is a handle */
    bool held = ag_anything_held();
    if (records(call)) {
        ag_event_unseen();
        if (held)
            settle_events(call);
    }
    if (held && ag_untracked_has(call->stream))
        ag_barrier_load(call->func);
    AG_NOTE(ag_note_kernel(NULL, call));
}

/* The op that is predicted, and whether the launch is that op. */
static INLINE bool is_predicted(const struct ag_stream *stream, const struct ag_kernel_call *call,
                                CUcontext current, struct ag_node **node)
{
    *node = stream->recorder.cursor->next;
    return is_same(*node, call) && stream->id.context->ctx == current;
}

/* The launch is not the predicted op: what has to be submitted before because of its events goes
   out, and its function is loaded if it is new. Gives the stream's lock back meanwhile, and returns
   the state that is locked in the end, where the launch may be the predicted op after all
   (*function is NULL then). NULL: there is no state any more. */
static INLINE struct ag_stream *prepare(struct ag_stream *stream, const struct ag_kernel_call *call,
                                        CUcontext current, struct ag_node **node,
                                        const struct ag_function **function)
{
    bool learnt = false, settled = call->attrs == NULL;
    if (UNLIKELY(!settled) && records(call))
        ag_event_unseen();
    for (;;) {
        bool settles = UNLIKELY(!settled) && atomic_load(&ag_event_streams) != 0;
        if (!settles && ((*function = ag_function_find(call->func, current)) != NULL || learnt))
            return stream;
        ag_stream_unlock(stream);
        if (settles)
            settle_events(call);
        else
            ag_barrier_load(call->func);
        settled |= settles;
        learnt |= !settles;
        stream = ag_enter_op(call->stream, call->ptsz, current);
        if (stream == NULL || is_predicted(stream, call, current, node))
            return stream;
    }
}

bool ag_engine_kernel(const struct ag_kernel_call *call)
{
    CUcontext current = call->current != NULL ? call->current : ag_engine_current(call->stream);
    const struct ag_function *function = NULL;
    struct ag_node *node;
    struct ag_stream *stream = ag_enter_op(call->stream, call->ptsz, current);
    bool same = LIKELY(stream != NULL) && is_predicted(stream, call, current, &node);
    if (UNLIKELY(!same && stream != NULL)) {
        stream = prepare(stream, call, current, &node, &function);
        same = stream != NULL && function == NULL && is_predicted(stream, call, current, &node);
    }
    if (UNLIKELY(stream == NULL)) {
        launch_stateless(call, current);
        return false;
    }
    AG_NOTE(ag_note_kernel(stream, call));
    bool held = false;
    if (LIKELY(same && ag_sequence_holds(stream) && ag_op_is_promising(node))) {
        ag_node_store(node, call->params);
        ag_op_hold(stream, node);
        held = true;
    } else {
        uint64_t began = ag_trials_clock(stream);
        held = (!same || !ag_op_record_again(stream, node, current)) &&
               kernel_slow(stream, call, function, same ? node : NULL, current);
        ag_trials_spent(stream, began);
    }
    ag_stream_unlock(stream);
    return held;
}
