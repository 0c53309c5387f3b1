/* SPDX-License-Identifier: MIT */
/*
 * irregular.c WORD [wait [STEPS]]: 400 steps of eight kernels in one stream, in which the fourth
 * op, or all, or what surrounds them is irregular as WORD says; with `wait` other than 0 the host
 * waits in each step. No argument: the words. What is irregular depends on the step alone, so two
 * runs do the same.
 */
#include <sched.h>
#include <stdbool.h>

#include "sim_test.h"

enum { N = 64, KERNELS = 8, ODD = 3, WORDS = 1 << 14, PIN = 1 << 10 };

static CUstream stream, beside;
static CUdeviceptr front, back; /* of WORDS words each */
static uint32_t *pinned;
static CUevent early, late, begun, ended; /* the last two tell times */
static CUfunction add;
static uint32_t step, seen; /* a hash of what was read back */

/* A number by chance, the same for the same step and place. */
static uint32_t draw(uint32_t place)
{
    uint32_t x = (step * 64 + place) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return x ^ x >> 13;
}

static CUdeviceptr at(CUdeviceptr buffer, uint32_t word)
{
    return buffer + (CUdeviceptr)word * 4;
}

/* -- Kernels ---------------------------------------------------------------- */

/* Each of the eight has a shape of its own. */
static void turn(uint32_t k)
{
    OK(launch_mix(k % 2 ? front : back, N - k, k == 2 ? step : k, stream));
}

/* Each thread of the grid works on a word. */
static void shaped(uint32_t grid, uint32_t block, uint32_t shared, uint32_t k)
{
    uint32_t n = grid * block;
    CUdeviceptr to = at(back, 1024);
    void *args[] = {&to, &n, &k};
    OK(cuLaunchKernel(mix, grid, 1, 1, block, 1, 1, shared, stream, args, NULL));
}

/* The same in a place of its own, by a kernel that may begin before the one ahead has ended. */
static void early_shaped(uint32_t grid, uint32_t block, uint32_t shared, uint32_t k)
{
    uint32_t n = grid * block;
    CUdeviceptr to = at(back, 4096 + 1024 * k);
    void *args[] = {&to, &n, &k};
    CUlaunchAttribute may = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                             .value = {.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = one_block(block, &may, 1, stream);
    config.gridDimX = grid;
    config.sharedMemBytes = shared;
    OK(cuLaunchKernelEx(&config, mix, args, NULL));
}

/* One of four functions, of other parameters each. */
static void which(uint32_t x)
{
    CUdeviceptr to = at(back, 256), from = at(front, 8);
    uint32_t n = 32, k = step;
    float a = 0.5f;
    void *mixes[] = {&to, &n, &k}, *copies[] = {&to, &from, &n}, *adds[] = {&to, &from, &a, &n};
    switch (x % 4) {
    case 0:
        OK(cuLaunchKernel(mix, 1, 1, 1, 32, 1, 1, 0, stream, mixes, NULL));
        break;
    case 1:
        OK(cuLaunchKernel(word_copy, 2, 1, 1, 16, 1, 1, 0, stream, copies, NULL));
        break;
    case 2:
        OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, adds, NULL));
        break;
    default:
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    }
}

/* -- One op of the step ----------------------------------------------------- */

static void regular(void)
{
    shaped(1, N, 0, ODD);
}

static void grid(void)
{
    shaped(1 + draw(0) % 40, 32, 0, ODD);
}

static void early_grid(void)
{
    early_shaped(1 + draw(0) % 40, 16, draw(1) % 8 * 64, ODD);
}

static void block(void)
{
    shaped(1, 1 + draw(0) % 256, 0, ODD);
}

static void shared(void)
{
    shaped(1, N, draw(0) % 50 * 16, ODD);
}

static void function(void)
{
    which(draw(0));
}

static void left_out(void)
{
    if (draw(0) % 3)
        regular();
}

static void times(void)
{
    for (uint32_t i = draw(0) % 16; i > 0; i--)
        OK(launch_mix(at(back, 512), 32, i, stream));
}

static void memset_value(void)
{
    OK(cuMemsetD32Async(at(back, 2048), draw(0), 16, stream));
}

static void memset_size(void)
{
    OK(cuMemsetD32Async(at(back, 2048), step, 1 + draw(0) % 60, stream));
}

static void memset_place(void)
{
    OK(cuMemsetD32Async(at(back, 2048 + draw(0) % 100), step, 16, stream));
}

static void memset_width(void)
{
    CUdeviceptr to = at(back, 2048);
    if (draw(0) % 3 == 0)
        OK(cuMemsetD8Async(to, (unsigned char)step, 64, stream));
    else if (draw(0) % 3 == 1)
        OK(cuMemsetD16Async(to, (unsigned short)step, 32, stream));
    else
        OK(cuMemsetD32Async(to, step, 16, stream));
}

static void copy_size(void)
{
    OK(cuMemcpyDtoDAsync(at(back, 2048), front, 4 * (1 + draw(0) % 60), stream));
}

static void copy_place(void)
{
    OK(cuMemcpyDtoDAsync(at(back, 2048 + draw(0) % 500), at(front, draw(1) % 32), 64, stream));
}

/* A kernel, a memset, a copy or nothing, of any shape. */
static void anything(void)
{
    switch (draw(0) % 4) {
    case 0:
        shaped(1 + draw(1) % 20, 1 + draw(2) % 64, draw(3) % 8 * 64, step);
        break;
    case 1:
        OK(cuMemsetD32Async(at(back, 2048 + draw(1) % 100), step, 1 + draw(2) % 60, stream));
        break;
    case 2:
        copy_place();
        break;
    default:
        break;
    }
}

/* -- All ops of the step ------------------------------------------------------ */

static void grids(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        shaped(1 + draw(k) % 40, 32, 0, k);
}

/* Every other one may begin early. */
static void early_grids(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        if (k % 2)
            early_shaped(1 + draw(k) % 40, 16, 0, k);
        else
            shaped(1 + draw(k) % 40, 16, 0, k);
}

static void functions(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        which(draw(k));
}

/* A layer of twenty, ten ops of which begin alike; at first any layer by chance, then one after the
   other, as a program does that trains a network. */
static void layers(void)
{
    uint32_t layer = (step < 200 ? draw(0) : step) % 20;
    which(0);
    which(1);
    turn(0);
    for (uint32_t k = 0; k < 6; k++)
        which(layer * (2 * k + 1) >> k);
    turn(1);
}

/* A batch of another size in each step. */
static void batches(void)
{
    uint32_t items = 1 + draw(0) % N;
    for (uint32_t k = 0; k < KERNELS; k++)
        shaped((items + 7) / 8, 8, 0, k);
    OK(cuMemcpyDtoDAsync(at(front, 2048), at(back, 1024), items * 4, stream));
}

/* A sequence that grows by a token in each step. */
static void tokens(void)
{
    uint32_t length = 1 + step % 256;
    for (uint32_t k = 0; k < KERNELS; k++)
        shaped(1 + length / (1 + k % 4) / 16, 16, 0, k);
    OK(cuMemcpyDtoDAsync(at(front, 2048 + length), at(back, 1024), 64, stream));
    OK(cuMemsetD32Async(at(back, 2048), step, length, stream));
}

/* Each part of a sum has half as many as the one before. */
static void halving(void)
{
    for (uint32_t items = 32 + draw(0) % 2000; items > 0; items /= 2)
        shaped((items + 31) / 32, 32, 0, items);
}

static void triangle(void)
{
    for (uint32_t k = 0; k < 1 + step % 16; k++)
        turn(k % KERNELS);
}

static void nested(void)
{
    for (uint32_t outer = 0; outer < 1 + draw(0) % 4; outer++) {
        turn(0);
        for (uint32_t inner = draw(1 + outer) % 4; inner > 0; inner--) {
            turn(1);
            turn(2);
        }
        turn(3);
    }
}

static void left_early(void)
{
    for (uint32_t k = 0; k < 2 * KERNELS && draw(k) % 8; k++)
        turn(k % KERNELS);
}

/* A tree by chance, its leaves first. */
static void tree(uint32_t node, uint32_t depth)
{
    if (depth < 4 && draw(node % 64) % 4) {
        tree(2 * node, depth + 1);
        tree(2 * node + 1, depth + 1);
    }
    turn(depth);
}

static void trees(void)
{
    tree(1, 0);
}

/* The same kernels in another order. */
static void shuffled(void)
{
    uint32_t order[KERNELS];
    for (uint32_t k = 0; k < KERNELS; k++) {
        uint32_t other = draw(k) % (k + 1);
        order[k] = order[other];
        order[other] = k;
    }
    for (uint32_t k = 0; k < KERNELS; k++)
        turn(order[k]);
}

/* One of two bodies for some steps, then the other. */
static void phases(void)
{
    static uint32_t until, body;
    if (step >= until) {
        until = step + 1 + draw(0) % 9;
        body = !body;
    }
    for (uint32_t k = 0; k < KERNELS; k++)
        body ? turn(k) : shaped(1 + k, 16, 0, k);
}

/* Levels of a search, as many and as large as they turn out to be: each level's length is read. */
static void worklist(void)
{
    uint32_t items = 1 + draw(0) % 64, level = 0;
    do {
        shaped((items + 15) / 16, 16, 0, level);
        OK(cuMemsetD32Async(at(back, 2048), 0, items, stream));
        OK(launch_mix(front, N, items, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH(&items, front, 4));
        seen = seen * 31 + items;
        items = items >> 16 & 63;
    } while (items > 8 && ++level < 6);
}

/* -- What surrounds the kernels ------------------------------------------------ */

static void eight(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        turn(k);
}

static void pinned_up(void)
{
    uint32_t *from = pinned + 64 * (step % 8); /* the host waits for none of these words */
    OK(cuMemcpyHtoDAsync(at(front, 4096), from, 64, stream));
    eight();
}

static void pinned_up_late(void)
{
    eight();
    if (step > 100)
        OK(cuMemcpyHtoDAsync(at(front, 4096), pinned, 64, stream));
}

static void pinned_down(void)
{
    eight();
    OK(cuMemcpyDtoHAsync(pinned + PIN, front, 64, stream));
    OK(cuStreamSynchronize(stream));
    seen = seen * 31 + pinned[PIN];
}

static void pageable_up(void)
{
    uint32_t words[16];
    for (uint32_t i = 0; i < 16; i++)
        words[i] = step + i;
    OK(cuMemcpyHtoDAsync(at(front, 4096), words, sizeof words, stream));
    eight();
}

static void read_back(void)
{
    uint32_t words[2];
    eight();
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, front, sizeof words));
    seen = seen * 31 + words[1];
    if (words[0] % 3 == 0)
        turn(1);
}

/* The host waits for the copy, since its destination is pageable, and decides by what it reads. */
static void number_back(void)
{
    uint32_t words[2];
    eight();
    OK(cuMemcpyDtoHAsync(words, front, sizeof words, stream));
    seen = seen * 31 + words[1];
    if (words[0] % 3 == 0)
        turn(1);
}

/* Several numbers, of other places and sizes each time, one behind the other. */
static void numbers_back(void)
{
    uint32_t words[64];
    eight();
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t n = 1 + draw(70 + k) % 64;
        OK(cuMemcpyDtoHAsync(words, at(k % 2 ? front : back, draw(80 + k) % 512),
                             n * sizeof words[0], stream));
        for (uint32_t i = 0; i < n; i++)
            seen = seen * 31 + words[i];
    }
}

static void two_streams(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        OK(launch_mix(k % 2 ? front : back, N, k, k % 2 ? beside : stream));
    OK(cuEventRecord(late, beside));
    OK(cuStreamWaitEvent(stream, late, 0));
}

static void fork_and_join(void)
{
    turn(0);
    OK(cuEventRecord(early, stream));
    OK(cuStreamWaitEvent(beside, early, 0));
    OK(launch_mix(at(front, 4096), N, step, beside));
    OK(cuEventRecord(late, beside));
    eight();
    OK(cuStreamWaitEvent(stream, late, 0));
    turn(1);
}

static void CUDA_CB count(void *of)
{
    ++*(uint32_t *)of;
}

static void host_function(void)
{
    eight();
    OK(cuLaunchHostFunc(stream, count, pinned + PIN + 64));
}

static void allocate(void)
{
    CUdeviceptr own;
    OK(cuMemAllocAsync(&own, N * 4, stream));
    OK(cuMemsetD32Async(own, step, N, stream));
    OK(launch_mix(own, N, 1, stream));
    OK(cuMemcpyDtoDAsync(at(front, 4096), own, N * 4, stream));
    OK(cuMemFreeAsync(own, stream));
    eight();
}

static void polled(void)
{
    eight();
    OK(cuEventRecord(late, stream));
    while (cuEventQuery(late) == CUDA_ERROR_NOT_READY)
        sched_yield();
}

static void setters(void)
{
    for (uint32_t k = 0; k < KERNELS; k++) {
        OK(cuFuncSetCacheConfig(mix,
                                k % 2 ? CU_FUNC_CACHE_PREFER_L1 : CU_FUNC_CACHE_PREFER_SHARED));
        turn(k);
    }
}

/* -- What else programs do between launches ------------------------------------- */

static void timed(void)
{
    OK(cuEventRecord(begun, stream));
    eight();
    OK(cuEventRecord(ended, stream));
}

static void timed_and_read(void)
{
    float ms;
    timed();
    OK(cuEventSynchronize(ended));
    OK(cuEventElapsedTime(&ms, begun, ended));
}

static void context_current(void)
{
    CUcontext was;
    OK(cuCtxSetCurrent(ctx));
    turn(0);
    OK(cuCtxPushCurrent(ctx));
    OK(cuCtxPopCurrent(&was));
    eight();
}

static void asked(void)
{
    size_t left, all;
    int value;
    OK(cuMemGetInfo(&left, &all));
    turn(0);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, mix));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, mix, N, 0));
    eight();
}

static void memory_made(void)
{
    CUdeviceptr own;
    OK(cuMemAlloc(&own, 4096));
    OK(launch_mix(own, N, step, stream));
    eight();
    OK(cuMemFree(own));
}

static void events_made(void)
{
    CUevent own;
    turn(0);
    OK(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(own, stream));
    OK(cuEventDestroy(own));
    eight();
}

static void streams_made(void)
{
    CUstream was = stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    eight();
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    stream = was;
}

static void waits_for_each(void)
{
    for (uint32_t k = 0; k < KERNELS; k++) {
        turn(k);
        OK(cuStreamSynchronize(stream));
    }
}

static void asks_after_each(void)
{
    for (uint32_t k = 0; k < KERNELS; k++) {
        turn(k);
        CUresult now = cuStreamQuery(stream);
        CHECK(now == CUDA_SUCCESS || now == CUDA_ERROR_NOT_READY);
    }
}

static void context_waits(void)
{
    eight();
    OK(cuCtxSynchronize());
}

static void large_down(void)
{
    static uint32_t words[WORDS];
    eight();
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, front, sizeof words));
    seen = seen * 31 + words[step];
}

/* Buffers that change places, and one that moves. */
static void places(void)
{
    for (uint32_t k = 0; k < KERNELS; k++)
        OK(launch_mix(at((k + step) % 2 ? front : back, k == 5 ? 64 * (step % 64) : 0), N - k, k,
                      stream));
}

/* -- Holes: ops that cannot be held ------------------------------------------------ */

static void foreign(uint32_t place)
{
    static uint32_t words[WORDS];
    uint32_t bytes = draw(place) % 4 ? sizeof words / 3 : sizeof words / 2;
    words[0] = draw(place + 1);
    OK(cuMemcpyHtoDAsync(at(front, WORDS / 2), words, bytes, stream));
}

/* Eight kernels with so many of these before one of them by chance, or behind all. */
static void with_holes(uint32_t holes)
{
    for (uint32_t k = 0; k <= KERNELS; k++) {
        for (uint32_t hole = 0; hole < holes; hole++)
            if (draw(2 * hole) % (KERNELS + 1) == k)
                foreign(2 * hole + 8);
        if (k < KERNELS)
            turn(k);
    }
}

static void hole(void)
{
    with_holes(1);
}

static void hole_at_times(void)
{
    with_holes(draw(20) % 3 == 0);
}

static void two_holes(void)
{
    with_holes(2);
}

/* -- Words -------------------------------------------------------------------- */

#define ONE(word) .name = #word, .one = (word)
#define ALL(word) .name = #word, .all = (word)

static const struct {
    const char *name;
    void (*one)(void); /* in place of one kernel, */
    void (*all)(void); /* or of all */
} words[] = {
    {ONE(regular)},        {ONE(grid)},           {ONE(block)},
    {ONE(shared)},         {ONE(function)},       {ONE(left_out)},
    {ONE(times)},          {ONE(memset_value)},   {ONE(memset_size)},
    {ONE(memset_place)},   {ONE(memset_width)},   {ONE(copy_size)},
    {ONE(copy_place)},     {ONE(anything)},       {ALL(grids)},
    {ALL(functions)},      {ALL(batches)},        {ALL(tokens)},
    {ALL(halving)},        {ALL(triangle)},       {ALL(nested)},
    {ALL(left_early)},     {ALL(trees)},          {ALL(shuffled)},
    {ALL(phases)},         {ALL(worklist)},       {ALL(pinned_up)},
    {ALL(pinned_up_late)}, {ALL(pinned_down)},    {ALL(pageable_up)},
    {ALL(read_back)},      {ALL(number_back)},    {ALL(numbers_back)},
    {ALL(two_streams)},    {ALL(fork_and_join)},  {ALL(host_function)},
    {ALL(allocate)},       {ALL(polled)},         {ALL(setters)},
    {ALL(timed)},          {ALL(timed_and_read)}, {ALL(context_current)},
    {ALL(asked)},          {ALL(memory_made)},    {ALL(events_made)},
    {ALL(streams_made)},   {ALL(waits_for_each)}, {ALL(asks_after_each)},
    {ALL(context_waits)},  {ALL(large_down)},     {ALL(places)},
    {ALL(hole)},           {ALL(hole_at_times)},  {ALL(two_holes)},
    {ALL(layers)},         {ONE(early_grid)},     {ALL(early_grids)},
};

static void loop(unsigned word, bool wait, uint32_t steps)
{
    for (step = 0; step < steps; step++) {
        if (words[word].all)
            words[word].all();
        for (uint32_t k = 0; words[word].one && k < KERNELS; k++)
            k == ODD ? words[word].one() : turn(k);
        if (wait)
            OK(cuStreamSynchronize(stream));
    }
    OK(cuCtxSynchronize());
}

static void begin(void)
{
    start();
    OK(cuModuleGetFunction(&add, mod, "ag_axpy"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&early, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&late, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
    OK(cuMemAlloc(&front, WORDS * 4));
    OK(cuMemAlloc(&back, WORDS * 4));
    OK(cuMemsetD32(front, 1, WORDS));
    OK(cuMemsetD32(back, 2, WORDS));
    OK(cuMemHostAlloc((void **)&pinned, 2 * PIN * 4, 0));
    for (uint32_t i = 0; i < 2 * PIN; i++)
        pinned[i] = i;
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    static uint32_t host[WORDS];
    const unsigned all = sizeof words / sizeof words[0];
    unsigned word = 0;
    for (; argc < 2 && word < all; word++)
        puts(words[word].name);
    while (argc >= 2 && word < all && strcmp(words[word].name, argv[1]) != 0)
        word++;
    if (word == all)
        return argc >= 2;
    begin();
    loop(word, argc > 2 && atoi(argv[2]), argc > 3 ? (uint32_t)atoi(argv[3]) : 400);
    seen = seen * 31 + pinned[PIN + 64];
    for (int which_one = 0; which_one < 2; which_one++) {
        OK(cuMemcpyDtoH(host, which_one ? back : front, sizeof host));
        for (unsigned i = 0; i < WORDS; i++)
            seen = seen * 31 + host[i];
    }
    printf("%s %08x\n", argv[1], seen);
    return 0;
}
