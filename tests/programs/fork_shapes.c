/* SPDX-License-Identifier: MIT */
/* fork_shapes.c SHAPE [legacy]: streams that fork and join by events, in loops of one shape. Prints
 * what came out, which is the same with the library as without it. */
#include "live.h"

enum { STREAMS = 4, EVENTS = 12, LOOPS = 200 };

static CUstream s[STREAMS];
static CUevent event[EVENTS];

static void record(unsigned e, unsigned stream)
{
    OK(cuEventRecord(event[e], s[stream]));
}

static void wait(unsigned stream, unsigned e)
{
    OK(cuStreamWaitEvent(s[stream], event[e], 0));
}

static void kernels(unsigned stream, unsigned count, uint32_t step)
{
    for (unsigned i = 0; i < count; i++)
        OK(launch_mix(buffer[stream], N, step * 7 + i, s[stream]));
}

/* The stream's buffer gets a part of another one's. */
static void take(unsigned stream, unsigned from, unsigned part)
{
    CUdeviceptr dst = buffer[stream] + 4 * part, src = buffer[from] + 4 * part;
    uint32_t n = 4;
    void *args[] = {&dst, &src, &n};
    OK(cuLaunchKernel(word_copy, 1, 1, 1, N, 1, 1, 0, s[stream], args, NULL));
}

/* By a copy: a graph has a few of them at most. */
static void copy(unsigned stream, unsigned from, unsigned part)
{
    OK(cuMemcpyDtoDAsync(buffer[stream] + 4 * part, buffer[from] + 4 * part, 16, s[stream]));
}

/* The stream that forks is the legacy one. */
static bool legacy;

static void begin(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        s[i] = legacy && i == 0 ? NULL : made(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < EVENTS; i++)
        OK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
}

/* Stream 0 forks `ways` - 1 streams off, and joins them. */
static void fork_bare(unsigned ways, unsigned count, uint32_t step, unsigned first)
{
    record(first, 0);
    for (unsigned i = 1; i < ways; i++)
        wait(i, first);
    for (unsigned i = 0; i < ways; i++)
        kernels(i, count, step);
    for (unsigned i = 1; i < ways; i++) {
        record(first + i, i);
        wait(0, first + i);
    }
}

/* The same, and stream 0 takes something of each. */
static void fork_join(unsigned ways, unsigned count, uint32_t step, unsigned first)
{
    fork_bare(ways, count, step, first);
    for (unsigned i = 1; i < ways; i++)
        take(0, i, i);
}

static void plain(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++)
        fork_join(3, 2, step / 8, 0);
}

/* Nothing between the last join and the next fork. */
static void bare(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++)
        fork_bare(4, 1, step, 0);
}

/* More ops than a graph may have. */
static void endless(void)
{
    begin();
    for (uint32_t step = 0; step < 2 * LOOPS; step++)
        fork_join(3, 50, step / 16, 0);
}

static void synced(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        fork_join(4, 1, step / 8, 0);
        OK(cuStreamSynchronize(s[0]));
    }
}

static void changing(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        fork_join(2, 5, step, 0);
        if (step % 16 == 5)
            OK(cuCtxSynchronize());
    }
}

/* A branch forks again; its branch is joined by it, or by the first stream. */
static void nested(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        record(0, 0);
        wait(1, 0);
        take(1, 0, 0);
        kernels(1, 1, step);
        record(1, 1);
        wait(2, 1);
        take(2, 1, 4);
        kernels(2, 2, step);
        OK(launch_mix(buffer[3], N, step, s[0]));
        record(2, 2);
        if (step / 50 % 2 == 0) {
            wait(1, 2);
            take(1, 2, 8);
        } else {
            wait(0, 2);
        }
        record(3, 1);
        wait(0, 3);
        take(0, 1, 8);
        take(0, 2, 12);
    }
}

/* Other ops than kernels. */
static void copies(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        record(0, 0);
        wait(1, 0);
        OK(cuMemsetD32Async(buffer[1], step, N / 2, s[1]));
        copy(1, 0, 4);
        kernels(1, 1, 3);
        OK(cuMemsetD8Async(buffer[3], (unsigned char)step, N, s[0]));
        record(1, 1);
        wait(0, 1);
        copy(0, 1, 8);
        copy(0, 3, 0);
        kernels(0, 1, 4);
    }
}

/* One event for all joins, and for the fork, too. */
static void one_event(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        record(0, 0);
        wait(1, 0);
        wait(2, 0);
        kernels(0, 1, step);
        kernels(1, 2, step);
        kernels(2, 1, step);
        for (unsigned i = 1; i < 3; i++) {
            record(0, i);
            wait(0, 0);
        }
        take(0, 1, 0);
        take(0, 2, 8);
    }
}

/* An event that is recorded in a stream, and another stream's wait for it. */
static CUevent passed(unsigned stream, unsigned from)
{
    CUevent made;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(made, s[from]));
    OK(cuStreamWaitEvent(s[stream], made, 0));
    return made;
}

/* The first stream goes on behind all that the other one has been given: the event lives no longer
   than the call, as in PyTorch. */
static void wait_stream(unsigned stream, unsigned from)
{
    OK(cuEventDestroy(passed(stream, from)));
}

static void brief(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        wait_stream(1, 0);
        wait_stream(2, 0);
        for (unsigned i = 0; i < 3; i++)
            kernels(i, 2, step / 8);
        wait_stream(0, 1);
        wait_stream(0, 2);
        take(0, 1, 1);
        take(0, 2, 2);
    }
}

/* Events that live until the next ones of their kind have been made, or until the end of a step. */
static void kept(void)
{
    CUevent last[3] = {NULL};
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        for (unsigned i = 0; i < 3; i++) {
            CUevent next = passed(i < 2 ? i + 1 : 0, i < 2 ? 0 : 1);
            if (last[i])
                OK(cuEventDestroy(last[i]));
            last[i] = next;
            kernels(i, 2, step / 8);
        }
        CUevent joined = passed(0, 2);
        take(0, 1, 1);
        take(0, 2, 2);
        OK(cuEventDestroy(joined));
    }
}

/* All joins are recorded before any of them is waited for. */
static void gathered(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        CUevent forked[3];
        for (unsigned i = 0; i < 3; i++) {
            OK(cuEventCreate(&forked[i], CU_EVENT_DISABLE_TIMING));
            OK(cuEventRecord(forked[i], s[0]));
            kernels(0, 1, step / 8);
        }
        for (unsigned i = 1; i < 4; i++) {
            OK(cuStreamWaitEvent(s[i], forked[i - 1], 0));
            OK(cuEventDestroy(forked[i - 1]));
            kernels(i, i, step / 8);
            OK(cuEventCreate(&forked[i - 1], CU_EVENT_DISABLE_TIMING));
            OK(cuEventRecord(forked[i - 1], s[i]));
        }
        for (unsigned i = 1; i < 4; i++) {
            OK(cuStreamWaitEvent(s[0], forked[i - 1], 0));
            copy(0, i, i);
        }
        for (unsigned i = 1; i < 4; i++)
            OK(cuEventDestroy(forked[i - 1]));
    }
}

/* Events that are others each time, in rounds of four or of three. */
static void pool(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++)
        fork_join(2, 2, 1, 2 * (step % (step < LOOPS / 2 ? 4 : 3)));
}

/* Copies run ahead by a step: the branch is never joined by its end. */
static void ahead(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        wait(0, 1 + step % 2);
        take(0, 1, 8 * (step % 2));
        kernels(0, 2, step);
        record(0, 0);
        wait(1, 0);
        kernels(1, 1, step);
        record(1 + (step + 1) % 2, 1);
    }
}

/* Two streams are joined. A third one forks with them, and is joined in the next step or never. */
static void fork_three(uint32_t step, bool joins)
{
    if (joins)
        wait(0, 3);
    kernels(0, 1, step);
    record(0, 0);
    wait(joins ? 1 : 3, 0);
    wait(joins ? 3 : 1, 0);
    wait(2, 0);
    for (unsigned i = 0; i < 4; i++)
        kernels(i, 2, step);
    for (unsigned i = 1; i < 3; i++) {
        record(i, i);
        wait(0, i);
    }
    record(3, 3);
    take(0, 1, 4);
    take(0, 2, 8);
}

static void open_end(void)
{
    begin();
    for (uint32_t step = 0; step < 4 * LOOPS; step++)
        fork_three(step / 8, false);
}

static void comes_back(void)
{
    begin();
    for (uint32_t step = 0; step < 4 * LOOPS; step++)
        fork_three(step / 8, step >= LOOPS / 2);
}

/* The branch's stream is used by itself now and then, in each way that there is. */
static void outside(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        uint32_t host[4];
        fork_join(3, 2, step / 4, 0);
        switch (step % 40) {
        case 7: /* of memory that no other stream uses */
            for (unsigned i = 0; i < 3; i++)
                OK(launch_mix(buffer[3], N, step, s[1]));
            break;
        case 13:
            kick(s[1]);
            break;
        case 19:
            OK(cuStreamSynchronize(s[2]));
            break;
        case 25:
            OK(cuMemcpyDtoHAsync(host, buffer[1], sizeof host, s[1]));
            break;
        case 31:
            OK(cuStreamDestroy(s[1]));
            s[1] = made(CU_STREAM_NON_BLOCKING);
            kernels(0, 1, step);
            break;
        default:
            break;
        }
        if (step % 40 == 31) { /* what the stream had done comes before: it was joined */
            record(4, 0);
            wait(1, 4);
        }
    }
}

/* Work in the middle that nobody holds: a barrier, in turn before each op of the step. */
static void middles(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++) {
        uint32_t at = step < LOOPS / 2 ? 100 : step % 9;
        record(0, 0);
        if (at == 0)
            OK(cuEventSynchronize(event[0]));
        wait(1, 0);
        if (at == 1)
            (void)cuEventQuery(event[0]);
        kernels(1, 1, step);
        if (at == 2)
            OK(cuStreamSynchronize(s[1]));
        kernels(0, 1, step);
        if (at == 3)
            OK(cuStreamSynchronize(s[0]));
        kernels(1, 1, step);
        if (at == 4)
            kernels(2, 1, step);
        record(1, 1);
        if (at == 5)
            OK(cuEventSynchronize(event[1]));
        wait(0, 1);
        if (at == 6)
            OK(cuCtxSynchronize());
        take(0, 1, 8);
        if (at == 7)
            OK(cuEventDestroy(event[1]));
        if (at == 7)
            OK(cuEventCreate(&event[1], CU_EVENT_DISABLE_TIMING));
    }
}

/* -- Branches that fork, and join others ------------------------------------------------ */

static bool by_copies; /* not by kernels: a graph may have few copies */

static void pass(CUdeviceptr to, CUdeviceptr from, uint32_t words, unsigned stream)
{
    void *args[] = {&to, &from, &words};
    OK(cuLaunchKernel(word_copy, 1, 1, 1, N, 1, 1, 0, s[stream], args, NULL));
}

static CUdeviceptr given[EVENTS];

/* The stream `to` comes behind all that `from` has done, by that event, and takes something, which
   nobody else writes until the step has ended. */
static void edge(unsigned from, unsigned to, unsigned e)
{
    pass(given[e], buffer[from], N, from);
    record(e, from);
    wait(to, e);
    if (by_copies)
        OK(cuMemcpyDtoDAsync(buffer[to] + 16 * to, given[e] + 16 * from, 16, s[to]));
    else
        pass(buffer[to] + 16 * to, given[e] + 16 * from, 4, to);
}

/* Each half of the streams forks to half of its own, and joins it. */
static void halves(unsigned first, unsigned end, uint32_t step)
{
    unsigned middle = (first + end + 1) / 2;
    if (end - first == 1) {
        kernels(first, 2, step);
        return;
    }
    edge(first, middle, middle);
    halves(first, middle, step);
    halves(middle, end, step);
    edge(middle, first, 4 + middle);
}

static void halved(uint32_t step)
{
    halves(0, 4, step);
}

/* Three streams fork one behind the other, and join back the same way. */
static void chain(uint32_t step)
{
    for (unsigned i = 0; i < 3; i++) {
        kernels(i, 1, step);
        edge(i, i + 1, i);
    }
    for (unsigned i = 3; i > 0; i--) {
        kernels(i, 1, step);
        edge(i, i - 1, 4 + i);
    }
}

/* The first stream joins the last one itself, before or behind the one in between. */
static void direct(uint32_t step, bool last_first)
{
    edge(0, 1, 0);
    kernels(1, 1, step);
    edge(1, 2, 1);
    kernels(2, 2, step);
    kernels(1, 1, step);
    edge(last_first ? 2 : 1, 0, 2);
    kernels(0, 1, step);
    edge(last_first ? 1 : 2, 0, 3);
}

static void last_joins_first(uint32_t step)
{
    direct(step, true);
}

static void last_joins_last(uint32_t step)
{
    direct(step, false);
}

/* Two branches come together in a third one, which the first stream joins. */
static void diamond(uint32_t step)
{
    edge(0, 1, 0);
    edge(0, 2, 1);
    kernels(1, 1, step);
    kernels(2, 2, step);
    edge(1, 3, 2);
    edge(2, 3, 3);
    kernels(3, 1, step);
    edge(3, 0, 4);
}

/* A branch joins two others, in another order than they forked. */
static void collected(uint32_t step)
{
    for (unsigned i = 1; i < 4; i++) {
        edge(0, i, i);
        kernels(i, 1, step);
    }
    edge(3, 1, 5);
    edge(2, 1, 6);
    kernels(1, 1, step);
    edge(1, 0, 7);
}

/* A stream forks, joins, and forks again, the second time from another branch. */
static void again(uint32_t step)
{
    edge(0, 1, 0);
    kernels(1, 1, step);
    edge(1, 0, 1);
    edge(0, 1, 2);
    kernels(0, 1, step);
    edge(0, 2, 3);
    edge(1, 2, 4);
    edge(2, 1, 5);
    kernels(1, 1, step);
    edge(1, 0, 6);
}

static void steps(void (*step_of)(uint32_t step))
{
    begin();
    for (unsigned e = 0; e < EVENTS; e++)
        OK(cuMemAlloc(&given[e], 4 * N));
    for (uint32_t step = 0; step < LOOPS; step++) {
        kernels(0, 1, step);
        step_of(step / 8);
    }
}

/* The same without anything else: no op between the last join and the next fork. */
static void bare_halves(unsigned first, unsigned end, uint32_t step)
{
    unsigned middle = (first + end + 1) / 2;
    if (end - first == 1) {
        kernels(first, 1, step);
        return;
    }
    record(first, first);
    wait(middle, first);
    bare_halves(first, middle, step);
    bare_halves(middle, end, step);
    record(4 + middle, middle);
    wait(first, 4 + middle);
}

static void bare_halved(void)
{
    begin();
    for (uint32_t step = 0; step < LOOPS; step++)
        bare_halves(0, 4, step);
}

#define NEST(name)                                                                                 \
    static void nest_##name(void)                                                                  \
    {                                                                                              \
        steps(name);                                                                               \
    }
NEST(halved)
NEST(chain)
NEST(last_joins_first)
NEST(last_joins_last)
NEST(diamond)
NEST(collected)
NEST(again)

static void nest_copied(void)
{
    by_copies = true;
    steps(diamond);
}

static const struct scenario shapes[] = {
    {"plain", plain},
    {"bare", bare},
    {"endless", endless},
    {"synced", synced},
    {"changing", changing},
    {"nested", nested},
    {"copies", copies},
    {"pool", pool},
    {"one_event", one_event},
    {"open_end", open_end},
    {"comes_back", comes_back},
    {"ahead", ahead},
    {"outside", outside},
    {"middles", middles},
    {"brief", brief},
    {"kept", kept},
    {"gathered", gathered},
    {"halved", nest_halved},
    {"bare_halved", bare_halved},
    {"chain", nest_chain},
    {"last_joins_first", nest_last_joins_first},
    {"last_joins_last", nest_last_joins_last},
    {"diamond", nest_diamond},
    {"collected", nest_collected},
    {"again", nest_again},
    {"copied", nest_copied},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    legacy = argc == 3 && strcmp(argv[2], "legacy") == 0;
    run(shapes, legacy ? 2 : argc, argv);
    show_all(argv[1]);
    return 0;
}
