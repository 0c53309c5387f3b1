/* SPDX-License-Identifier: MIT */
/* The GPU. */
#include "policy/gpu.h"

#include <stdlib.h>

#include "policy/costs.h"
#include "policy/threads.h"

enum { LEGACY = 2, NON_BLOCKING = 1 }; /* kinds of streams */

/* -- What is issued --------------------------------------------------------------- */

void play_gpu_issue(struct play_gpu *stream, const struct play_op *op)
{
    if (stream->count == stream->room) {
        uint32_t room = stream->room != 0 ? 2 * stream->room : 64;
        struct play_op *ring = malloc(room * sizeof *ring);
        if (ring == NULL)
            abort();
        for (uint32_t i = 0; i < stream->count; i++)
            ring[i] = stream->op[(stream->first + i) % stream->room];
        free(stream->op);
        stream->op = ring;
        stream->first = 0;
        stream->room = room;
    }
    stream->op[(stream->first + stream->count++) % stream->room] = *op;
}

/* A held copy to the host may become a read-back, or go out as it is. */
static bool is_alike(const struct play_op *op, enum play_kind kind, const struct play_event *event)
{
    return op->event == event &&
           (op->kind == kind || (op->kind == PLAY_OP_FETCH && kind == PLAY_OP_DOWNLOAD));
}

struct play_op play_gpu_take(struct play_gpu *stream, enum play_kind kind, struct play_event *event)
{
    uint32_t i = 0;
    while (i < stream->count &&
           !is_alike(&stream->op[(stream->first + i) % stream->room], kind, event))
        i++;
    if (i == stream->count)
        return (struct play_op){.kind = kind, .ns = play_gpu_ns(kind, 0), .event = event};
    struct play_op op = stream->op[(stream->first + i) % stream->room];
    stream->first = (stream->first + i + 1) % stream->room;
    stream->count -= i + 1;
    op.kind = kind;
    return op;
}

uint64_t play_gpu_ns(enum play_kind kind, uint64_t bytes)
{
    uint64_t kb = bytes / 1024;
    switch (kind) {
    case PLAY_OP_KERNEL:
        return NS_GPU_KERNEL;
    case PLAY_OP_MEMSET:
        return NS_GPU_MEMSET + kb * NS_DEVICE_KB;
    case PLAY_OP_COPY:
        return NS_GPU_COPY + kb * NS_DEVICE_KB;
    case PLAY_OP_UPLOAD:
        return NS_GPU_UPLOAD + kb * NS_LINK_KB;
    case PLAY_OP_DOWNLOAD:
        return NS_GPU_DOWNLOAD + kb * NS_LINK_KB;
    case PLAY_OP_FETCH:
        return NS_GPU_FETCH + kb * NS_LINK_KB;
    case PLAY_OP_RECORD:
    case PLAY_OP_WAIT:
    case PLAY_OP_VALUE:
    case PLAY_OP_HOST:
        break;
    }
    return 0;
}

/* -- What is submitted --------------------------------------------------------------- */

void play_gpu_room(struct play_gpu *stream)
{
    if (stream->launches >= PLAY_QUEUE)
        play_sleep_until(stream->ends[stream->launches % PLAY_QUEUE]);
}

/* When what comes next can begin: CUDA's implicit order included. */
static uint64_t ready(const struct play_gpu *stream)
{
    uint64_t other = 0;
    if (stream->kind == LEGACY)
        other = stream->context->blocking_end;
    else if (stream->kind != NON_BLOCKING && stream->context->legacy != NULL)
        other = stream->context->legacy->end;
    return other > stream->end ? other : stream->end;
}

static uint64_t begins(const struct play_gpu *stream)
{
    uint64_t arrives = play_now() + NS_LATENCY, from = ready(stream);
    return arrives > from ? arrives : from;
}

static uint64_t ended(struct play_gpu *stream, uint64_t end)
{
    stream->end = end;
    stream->ends[stream->launches++ % PLAY_QUEUE] = end;
    if (stream->kind != NON_BLOCKING && stream->kind != LEGACY &&
        end > stream->context->blocking_end)
        stream->context->blocking_end = end;
    return end;
}

/* The time behind the op, which can begin at `time`; `each`: what an op costs besides. */
static uint64_t pass(const struct play_op *op, uint64_t time, uint64_t each)
{
    switch (op->kind) {
    case PLAY_OP_RECORD:
        op->event->time = time + NS_GPU_EVENT / 2;
        return time + NS_GPU_EVENT / 2;
    case PLAY_OP_WAIT:
        return (op->event->time > time ? op->event->time : time) + NS_GPU_EVENT / 2;
    default:
        return time + each + op->ns;
    }
}

static bool is_engine(const struct play_op *op)
{
    return op->kind == PLAY_OP_DOWNLOAD;
}

uint64_t play_gpu_submit(struct play_gpu *stream, const struct play_op *op)
{
    if (stream->captures)
        return stream->end;
    uint64_t time = begins(stream);
    /* A copy engine is told once the kernels are done. */
    if (is_engine(op) && !stream->copies && time == ready(stream))
        time += NS_GPU_SWITCH;
    stream->copies = is_engine(op);
    return ended(stream, pass(op, time, is_engine(op) ? 0 : NS_GPU_EAGER));
}

uint64_t play_gpu_launch(struct play_gpu *stream, const struct play_op *op, uint32_t count)
{
    uint64_t time = begins(stream) + NS_GPU_GRAPH;
    stream->copies = false;
    for (uint32_t i = 0; i < count; i++)
        time = pass(&op[i], time, NS_GPU_NODE);
    return ended(stream, time);
}

uint64_t play_gpu_end(const struct play_gpu *stream)
{
    return ready(stream);
}

void play_gpu_wait(uint64_t until)
{
    play_spend(NS_WAIT_CALL);
    if (until <= play_now())
        return;
    play_sleep_until(until);
    play_spend(NS_WAKE);
}
