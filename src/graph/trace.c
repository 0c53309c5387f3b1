/* SPDX-License-Identifier: MIT */
/* Building, patching, launching graphs of held ops. */
#include "graph/trace.h"

#include <stdlib.h>

#include "config/config.h"
#include "config/cuda.h"
#include "driver/driver.h"
#include "driver/limits.h"
#include "graph/fork.h"
#include "graph/node.h"
#include "mutant.h"

/* -- Building ------------------------------------------------------------- */

/* The priority that a launch asks for itself, or NULL. */
static const int *priority_of(const struct ag_op *op)
{
    const CUlaunchAttribute *attrs = op->kind == AG_OP_KERNEL ? op->extra : NULL;
    for (uint32_t i = 0; attrs != NULL && i < op->extra_size / sizeof *attrs; i++)
        if (attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
            return &attrs[i].value.priority;
    return NULL;
}

/*
 * A graph's kernels run with the priority of the stream that it is launched in or, by a flag or by
 * the environment, each with its node's (CUDA driver API, cuGraphInstantiate). Where some launch
 * asks for another than its stream's, all others are given that of the stream; and so are all where
 * the environment says so.
 */
static CUresult set_priorities(struct ag_trace *trace, CUstream stream)
{
    CUlaunchAttributeValue value = {0};
    bool asked = ag_cuda.node_priorities, differs = ag_cuda.node_priorities;
    for (uint32_t i = 0; i < trace->length; i++)
        asked |= priority_of(&trace->step[i].node->op) != NULL;
    CUresult result = asked ? ag_real.cuStreamGetPriority(stream, &value.priority) : CUDA_SUCCESS;
    for (uint32_t i = 0; result == CUDA_SUCCESS && asked && i < trace->length; i++) {
        const int *priority = priority_of(&trace->step[i].node->op);
        differs |= priority != NULL && *priority != value.priority;
    }
    for (uint32_t i = 0; result == CUDA_SUCCESS && differs && i < trace->length; i++) {
        const struct ag_op *op = &trace->step[i].node->op;
        if (op->kind == AG_OP_KERNEL && priority_of(op) == NULL)
            result = ag_real.cuGraphKernelNodeSetAttribute(trace->step[i].graph_node,
                                                           CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
    }
    trace->prioritized = asked;
    trace->differs = differs;
    return result;
}

/* The exec has been given the node's arguments. */
static void given(struct ag_step *step)
{
    step->version = step->node->version;
    memcpy(step->shape, step->node->op.shape, sizeof step->shape);
    memcpy(step->args, step->node->args, step->node->op.layout->size);
}

/* The library's event that a record's node has. */
static CUevent own_event(const struct ag_trace *trace, const struct ag_step *step)
{
    return trace->ends.own[step->own - 1];
}

/* The exec has been given that event. */
static void given_own(const struct ag_trace *trace, struct ag_step *step)
{
    struct ag_event_arguments own = {.event = own_event(trace, step)};
    step->version = step->node->version;
    memcpy(step->args, &own, sizeof own);
}

void ag_trace_keep_records(struct ag_trace *trace)
{
    for (uint32_t next = trace->ends.record; next != 0; next = trace->step[next - 1].record)
        if (trace->step[next - 1].own != 0)
            given_own(trace, &trace->step[next - 1]);
}

/* Bytes from an address to the end of the allocation around it; 0: there is none. *pooled: the
   allocation is of a pool. Only such memory can be freed before ops that use it have run. */
static size_t room_at(CUdeviceptr at, bool *pooled)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUmemoryPool pool = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *values[] = {&base, &size, &pool};
    if (ag_real.cuPointerGetAttributes(3, names, values, at) != CUDA_SUCCESS)
        return 0;
    *pooled = pool != NULL;
    return at - base < size ? size - (at - base) : 0;
}

/* The longest piece of memory of a pool that a copy of the trace names. */
static struct ag_place find_spare(const struct ag_trace *trace)
{
    struct ag_place place[AG_PLACES], spare = {0};
    for (uint32_t i = 0; i < trace->length; i++) {
        const struct ag_node *node = trace->step[i].node; /* each step has one */
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        unsigned count = node->op.kind == AG_OP_COPY ? ag_node_places(node, place) : 0;
        for (unsigned j = 0; j < count; j++) {
            bool pooled = false;
            size_t room = room_at(place[j].at, &pooled);
            if (pooled && room > spare.bytes)
                spare = (struct ag_place){.at = place[j].at, .bytes = room};
        }
    }
    return spare;
}

/*
 * The program may have freed memory since it issued an op that names it, and the driver makes no
 * node that names freed memory. The node is made with other memory, which a copy of the trace names
 * and which is of a pool, too (driver 580 asks for that). For all traces that share the op these
 * are new arguments. A variant can wait until its memory is there. False: no graph can be made now.
 */
static bool avoid_freed(struct ag_trace *trace)
{
    struct ag_place place[AG_PLACES], spare = find_spare(trace);
    for (uint32_t i = 0; i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        unsigned count = ag_node_places(step->node, place);
        for (unsigned j = 0; j < count; j++) {
            bool pooled;
            if (room_at(place[j].at, &pooled) >= place[j].bytes)
                continue;
            if (place[j].argument == NULL || spare.bytes < place[j].bytes ||
                trace->leaf->trace != NULL)
                return false;
            memcpy(place[j].argument, &spare.at, sizeof spare.at);
            step->source_version = ++step->node->version;
            given(step);
        }
    }
    return true;
}

static CUresult add(const struct ag_trace *trace, struct ag_step *step,
                    const struct ag_after *after)
{
    if (step->own != 0)
        return ag_real.cuGraphAddEventRecordNode(&step->graph_node, trace->graph, after->node,
                                                 after->count, own_event(trace, step));
    return ag_node_add(step->node, step->func, trace->graph, trace->ctx, &step->graph_node, after);
}

static CUresult build(struct ag_trace *trace, CUstream stream)
{
    CUresult result = ag_real.cuGraphCreate(&trace->graph, 0);
    struct ag_after after;
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        if (step->nodeless)
            continue;
        ag_fork_after(trace->step, i, &after);
        step->early = ag_node_is_early(step->node, after.last);
        result = add(trace, step, &after);
    }
    return result == CUDA_SUCCESS ? set_priorities(trace, stream) : result;
}

CUresult ag_trace_instantiate(struct ag_trace *trace)
{
    return ag_real.cuGraphInstantiateWithFlags(
        &trace->exec, trace->graph,
        trace->differs ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0);
}

/* A trace of that path with room for all arguments, in one piece; NULL: no memory. */
static struct ag_trace *allocate(const struct ag_node *leaf)
{
    size_t bytes = 0;
    for (const struct ag_node *node = leaf; node->parent != NULL; node = node->parent)
        bytes += node->op.layout->size;
    struct ag_trace *trace;
    size_t steps = leaf->depth * sizeof trace->step[0];
    trace = calloc(1, sizeof *trace + steps + bytes);
    unsigned char *free = trace != NULL ? (unsigned char *)trace->step + steps : NULL;
    for (const struct ag_node *node = leaf; free != NULL && node->parent != NULL;
         node = node->parent) {
        trace->step[node->depth - 1].args = free;
        free += node->op.layout->size;
    }
    return trace;
}

/* Whether a node has an event. The program may destroy an event that the source graph names: the
   exec is not updated from there. */
static bool names_events(const struct ag_trace *trace)
{
    uint32_t i = 0;
    while (i < trace->length && (trace->step[i].nodeless || !ag_node_is_event(trace->step[i].node)))
        i++;
    return i < trace->length;
}

/* Whether a node has an event of the program's: any record or wait of one branch, or a wait for
   another sequence. */
static bool has_events(const struct ag_trace *trace)
{
    bool any = false;
    for (uint32_t i = 0; i < trace->length; i++) {
        const struct ag_step *step = &trace->step[i];
        any |= !step->nodeless && ag_node_is_event(step->node) &&
               (trace->ends.branches <= 1 || step->node->op.kind == AG_OP_WAIT);
    }
    return any;
}

struct ag_trace *ag_trace_build(struct ag_node *leaf, CUcontext ctx, CUstream stream,
                                const CUevent *own, CUresult *error)
{
    *error = CUDA_SUCCESS;
    struct ag_trace *trace = allocate(leaf);
    if (trace == NULL)
        return NULL;
    trace->leaf = leaf;
    trace->variant = trace;
    trace->ctx = ctx;
    trace->length = leaf->depth;
    trace->paths = (uint8_t)ag_fork_paths(leaf);
    for (struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        struct ag_step *step = &trace->step[node->depth - 1];
        if (!ag_node_arguments(node)) {
            free(trace);
            return NULL;
        }
        step->node = node;
        step->func = ag_node_function(node);
        step->source_version = node->version;
        given(step);
    }
    trace->ends.own = own;
    if (!ag_fork_find(trace->step, trace->length, leaf->apart, &trace->ends) ||
        !avoid_freed(trace)) {
        free(trace);
        return NULL;
    }
    trace->events = has_events(trace);
    trace->by_node = names_events(trace);
    ag_trace_keep_records(trace);
    *error = build(trace, stream);
    if (*error == CUDA_SUCCESS)
        return trace;
    ag_trace_destroy(trace);
    return NULL;
}

CUresult ag_trace_destroy(struct ag_trace *trace)
{
    CUresult result = CUDA_SUCCESS;
    if (trace->exec != NULL)
        result = ag_real.cuGraphExecDestroy(trace->exec);
    if (trace->graph != NULL) {
        CUresult second = ag_real.cuGraphDestroy(trace->graph);
        result = result != CUDA_SUCCESS ? result : second;
    }
    free(trace->history);
    free(trace);
    return result;
}

/* -- Patching ------------------------------------------------------------- */

/* Whether updating the exec as a whole from its source graph is cheaper than node by node. */
static bool update_is_cheaper(const struct ag_trace *trace, uint32_t changed)
{
    if ((trace->by_node && !AG_MUTANT(events_updated_whole)) ||
        ag_opt.update_strategy == AG_UPDATE_SET_PARAMS)
        return false;
    if (ag_opt.update_strategy == AG_UPDATE_EXEC_UPDATE)
        return true;
    return changed * AG_UPDATE_PART > trace->length || AG_MUTANT(events_updated_whole);
}

static CUresult update(struct ag_trace *trace, struct ag_counters *counters)
{
    for (uint32_t i = 0; i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        if (step->source_version == step->node->version || step->graph_node == NULL)
            continue;
        CUresult result =
            ag_node_patch_source(step->node, step->func, step->graph_node, trace->ctx);
        if (result != CUDA_SUCCESS) {
            counters->errors++;
            return result;
        }
        step->source_version = step->node->version;
    }
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult result = ag_real.cuGraphExecUpdate_v2(trace->exec, trace->graph, &info);
    if (result != CUDA_SUCCESS) {
        unsigned reason = info.result;
        counters->refusals[reason < AG_REFUSAL_COUNT ? reason : CU_GRAPH_EXEC_UPDATE_ERROR]++;
        return result;
    }
    for (uint32_t i = 0; i < trace->length; i++)
        given(&trace->step[i]);
    counters->updates++;
    return CUDA_SUCCESS;
}

/* Whether the exec has other arguments than those that the op has been held with. Another trace of
   the op may have been given others in between; where there is none they are hardly ever what they
   were before, and not compared. */
static inline __attribute__((always_inline)) bool is_stale(const struct ag_trace *trace,
                                                           struct ag_step *step)
{
    const struct ag_node *node = step->node;
    if (__builtin_expect(step->version == node->version, 1) || step->graph_node == NULL ||
        AG_MUTANT(arguments_stay))
        return false;
    /* The node has been given other events by sequences that are not held, a lone record say. */
    bool alone = trace->variant == trace && node->below + (node->trace != NULL) == 1 &&
                 !ag_node_is_event(node);
    return alone || !ag_step_is_current(step);
}

static CUresult patch(struct ag_trace *trace, uint32_t changed, struct ag_counters *counters)
{
    counters->patches += changed;
    if (update_is_cheaper(trace, changed)) {
        if (update(trace, counters) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        /* A refused update leaves the exec as it was. It would be refused again: never repeated. */
        trace->by_node = true;
    }
    for (uint32_t i = 0; i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        if (!is_stale(trace, step))
            continue;
        CUresult result =
            ag_node_patch(step->node, step->func, trace->exec, step->graph_node, trace->ctx);
        if (result != CUDA_SUCCESS)
            return result;
        given(step);
    }
    return CUDA_SUCCESS;
}

/* The node of a record gets an event of the library's. */
static CUresult set_own(const struct ag_trace *trace, struct ag_step *step)
{
    CUevent own = own_event(trace, step);
    CUresult result = ag_node_patch_event(step->node, trace->exec, step->graph_node, own);
    if (result == CUDA_SUCCESS)
        given_own(trace, step);
    return result;
}

/* The same of the event that it needs, which is set now if it is the library's, or else later. */
static CUresult set_record(const struct ag_trace *trace, struct ag_step *step)
{
    struct ag_event_arguments has, needs = ag_node_event_arguments(step->node);
    memcpy(&has, step->args, sizeof has);
    if (step->own != 0 && has.event != own_event(trace, step))
        return set_own(trace, step);
    step->version = step->node->version;
    if (step->own == 0 && (has.event != needs.event || has.serial != needs.serial))
        step->version = step->node->version - 1;
    return CUDA_SUCCESS;
}

CUresult ag_trace_set_records(struct ag_trace *trace)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t next = trace->ends.record;
    for (; next != 0 && result == CUDA_SUCCESS; next = trace->step[next - 1].record)
        if (trace->step[next - 1].graph_node != NULL)
            result = set_record(trace, &trace->step[next - 1]);
    return result;
}

CUresult ag_trace_replace_event(struct ag_trace *trace, CUevent event, CUevent other)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0; i < trace->length && result == CUDA_SUCCESS; i++) {
        struct ag_step *step = &trace->step[i];
        struct ag_event_arguments arguments;
        if (!ag_node_is_event(step->node) || step->graph_node == NULL)
            continue;
        memcpy(&arguments, step->args, sizeof arguments);
        if (event != NULL && arguments.event != event)
            continue;
        arguments = (struct ag_event_arguments){.event = other};
        result = ag_node_patch_event(step->node, trace->exec, step->graph_node, other);
        if (result != CUDA_SUCCESS)
            break;
        memcpy(step->args, &arguments, sizeof arguments);
        step->version = step->node->version - 1; /* another one than it will ever have */
    }
    return result;
}

CUresult ag_trace_replay(struct ag_trace *trace, CUstream stream, struct ag_counters *counters)
{
    uint32_t changed = 0;
    for (uint32_t i = 0; i < trace->length; i++)
        changed += is_stale(trace, &trace->step[i]);
    if (changed != 0) {
        CUresult result = patch(trace, changed, counters);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return ag_real.cuGraphLaunch(trace->exec, stream);
}
