/* SPDX-License-Identifier: MIT */
/* What the driver does for the program's calls. */
#include <string.h>

#include "driver/driver.h"
#include "policy/costs.h"
#include "policy/doors.h"
#include "policy/driver.h"
#include "policy/threads.h"

enum { PAGEABLE, HOST }; /* types of memory */

static enum play_kind copy_kind(const struct play_line *line)
{
    unsigned to = play_memory_type(line->word[2]), from = play_memory_type(line->word[4]);
    return to <= HOST ? PLAY_OP_DOWNLOAD : from <= HOST ? PLAY_OP_UPLOAD : PLAY_OP_COPY;
}

static uint64_t bytes_of(const struct play_line *line)
{
    const uint64_t *w = line->word;
    switch (line->verb) {
    case PLAY_MEMSET:
        return w[2] * w[3] * w[6];
    case PLAY_COPY:
        return w[5] * w[6] * w[7];
    case PLAY_READ:
        return w[3];
    default:
        return 0;
    }
}

/* A profiler's time has some of what each kernel costs, and nothing of how copies are begun. */
static uint64_t recorded_ns(enum play_kind kind, uint64_t ns)
{
    if (kind == PLAY_OP_UPLOAD || kind == PLAY_OP_DOWNLOAD)
        return play_gpu_ns(kind, 0) + (ns > 2000 ? ns - 2000 : 0);
    if (kind != PLAY_OP_KERNEL)
        return ns;
    return ns > NS_GPU_RECORDED ? ns - NS_GPU_RECORDED : 0;
}

struct play_op play_op_of(const struct play_program *program, const struct play_line *line)
{
    static const enum play_kind kinds[PLAY_VERBS] = {
        [PLAY_KERNEL] = PLAY_OP_KERNEL, [PLAY_MEMSET] = PLAY_OP_MEMSET,
        [PLAY_READ] = PLAY_OP_DOWNLOAD, [PLAY_RECORD] = PLAY_OP_RECORD,
        [PLAY_WAIT] = PLAY_OP_WAIT,     [PLAY_VALUE] = PLAY_OP_VALUE,
        [PLAY_GRAPH] = PLAY_OP_KERNEL,  [PLAY_HOST] = PLAY_OP_HOST,
    };
    (void)program;
    struct play_op op = {.kind = kinds[line->verb]};
    if (line->verb == PLAY_COPY)
        op.kind = copy_kind(line);
    if (line->verb == PLAY_RECORD || line->verb == PLAY_WAIT)
        op.event = play_event((uint32_t)line->word[1]);
    op.ns = line->gpu != 0 ? recorded_ns(op.kind, line->gpu) : play_gpu_ns(op.kind, bytes_of(line));
    return op;
}

/* An op goes out by itself. Returns when it is done. */
static uint64_t submit(const struct play_program *program, const struct play_line *line,
                       uint64_t stream, uint64_t ns, uint64_t locked)
{
    struct play_gpu *to = play_stream((uint32_t)stream);
    struct play_op op = play_op_of(program, line);
    play_gpu_room(to);
    play_call(ns, locked);
    return play_gpu_submit(to, &op);
}

/* The time of a call whose time is not in costs.def. */
static uint64_t own(const struct play_line *line, uint64_t otherwise)
{
    return line->own != 0 ? line->own : otherwise;
}

static void copies(const struct play_program *program, const struct play_line *line)
{
    const uint64_t *w = line->word;
    enum play_kind kind = copy_kind(line);
    if (kind == PLAY_OP_COPY) {
        submit(program, line, w[0], NS_COPY, NS_LAUNCH_LOCKED);
        return;
    }
    bool up = kind == PLAY_OP_UPLOAD;
    bool pageable = play_memory_type(w[up ? 4 : 2]) == PAGEABLE;
    uint64_t bytes = bytes_of(line);
    uint64_t ns = up ? NS_UPLOAD : NS_READ;
    if (up && pageable)
        ns += bytes / 1024 * NS_PAGEABLE_KB;
    uint64_t end = submit(program, line, w[0], ns, NS_LAUNCH_LOCKED);
    if (w[10] != 0 || (!up && pageable))
        play_gpu_wait(end);
}

static void reads(const struct play_program *program, const struct play_line *line)
{
    const uint64_t *w = line->word;
    uint64_t end = submit(program, line, w[0], NS_READ, NS_LAUNCH_LOCKED);
    if (w[4] != 0 || play_memory_type(w[1]) == PAGEABLE)
        play_gpu_wait(end);
}

/* A graph of the program's own. */
static void graph(const struct play_program *program, const struct play_line *line)
{
    enum { MOST = 256 };
    static struct play_op ops[MOST];
    struct play_gpu *to = play_stream((uint32_t)line->word[0]);
    uint64_t nodes = line->word[1];
    uint32_t count = nodes < 1 ? 1 : nodes < MOST ? (uint32_t)nodes : MOST;
    struct play_op each = play_op_of(program, line);
    if (line->gpu != 0)
        each.ns = line->gpu / count;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = each;
    play_gpu_room(to);
    play_call(NS_OWN_GRAPH + count * NS_GRAPH_OP, NS_GRAPH_LOCKED);
    play_gpu_launch(to, ops, count);
}

/* A program that asks until the GPU is done goes on when it is. */
static void asks(const struct play_line *line, uint64_t end)
{
    play_spend(NS_ASK);
    if (line->word[1] == CUDA_SUCCESS && end > play_now())
        play_sleep_until(end);
}

static uint64_t asked_for(const struct play_line *line)
{
    return line->verb == PLAY_ASK_STREAM ? play_gpu_end(play_stream((uint32_t)line->word[0]))
                                         : play_event((uint32_t)line->word[0])->time;
}

bool play_is_needless(const struct play_line *line)
{
    return (line->verb == PLAY_ASK_STREAM || line->verb == PLAY_ASK_EVENT) &&
           line->word[1] != CUDA_SUCCESS && asked_for(line) <= play_now();
}

/* The time of such a call is part of what the thread does until its next call. If it waits for the
   GPU the next call comes behind that. */
static void barrier(const struct play_program *program, const struct play_line *line)
{
    const char *who = program->names[line->word[0]], *name = program->names[line->word[2]];
    if (strcmp(who, "wait") == 0 || strcmp(who, "copy") == 0 || strncmp(name, "cuMemFree", 9) == 0)
        play_not_before(play_context_end(play_current()));
    play_spend(line->own);
}

/* Calls that are no ops. */
static void other(const struct play_program *program, const struct play_line *line)
{
    const uint64_t *w = line->word;
    switch ((enum play_verb)line->verb) {
    case PLAY_SYNC_STREAM:
        play_gpu_wait(play_gpu_end(play_stream((uint32_t)w[0])));
        break;
    case PLAY_SYNC_CONTEXT:
        play_spend(NS_WAIT_ALL);
        play_gpu_wait(play_context_end(play_current()));
        break;
    case PLAY_SYNC_EVENT:
        play_gpu_wait(play_event((uint32_t)w[0])->time);
        break;
    case PLAY_ASK_STREAM:
    case PLAY_ASK_EVENT:
        asks(line, asked_for(line));
        break;
    case PLAY_FREE:
        play_call(NS_FREE, NS_FREE / 2);
        break;
    case PLAY_ALLOCATE:
        play_call(own(line, NS_ALLOCATE), NS_ALLOCATE / 2);
        break;
    case PLAY_BARRIER:
        barrier(program, line);
        break;
    case PLAY_CREATED:
        play_call(own(line, NS_STREAM_CREATE), NS_STREAM_CREATE);
        break;
    case PLAY_DESTROYED:
        play_call(own(line, NS_STREAM_DESTROY), NS_STREAM_DESTROY);
        break;
    case PLAY_CURRENT:
        play_make_current(play_context((uint32_t)w[0]));
        break;
    case PLAY_CAPTURE:
        play_stream((uint32_t)w[0])->captures ^= true;
        break;
    default:
        break;
    }
}

void play_eager(const struct play_program *program, const struct play_line *line)
{
    const uint64_t *w = line->word;
    switch ((enum play_verb)line->verb) {
    case PLAY_KERNEL:
        submit(program, line, w[1], NS_LAUNCH, NS_LAUNCH_LOCKED);
        break;
    case PLAY_MEMSET:
        submit(program, line, w[0], NS_MEMSET, NS_LAUNCH_LOCKED);
        break;
    case PLAY_COPY:
        copies(program, line);
        break;
    case PLAY_READ:
        reads(program, line);
        break;
    case PLAY_RECORD:
        submit(program, line, w[0], NS_RECORD, 0);
        break;
    case PLAY_WAIT:
        submit(program, line, w[0], NS_STREAM_WAIT, 0);
        break;
    case PLAY_VALUE:
        submit(program, line, w[0], NS_VALUE, NS_LAUNCH_LOCKED);
        break;
    case PLAY_GRAPH:
        graph(program, line);
        break;
    case PLAY_HOST:
        submit(program, line, w[0], NS_HOST_FUNCTION, NS_LAUNCH_LOCKED);
        break;
    default:
        other(program, line);
        break;
    }
}

void play_define(const struct play_program *program, const struct play_line *line)
{
    const uint64_t *w = line->word;
    (void)program;
    play_memory_is(w[0], (unsigned)w[1], w[2], w[3], w[4]);
}
