/* SPDX-License-Identifier: MIT */
/*
 * steps.c WORD [STREAM]: 500 steps of eight kernels in one stream, with one thing besides that real
 * programs do. WORD names that thing. No argument: the words. STREAM: 0 a blocking stream, 1 a
 * non-blocking stream; without it the default stream.
 */
#include "sim_test.h"

enum { STEPS = 500, N = 64, WORDS = 1 << 14, UP = 16 /* words of a copy */, RING = 8 };

static CUstream stream, beside;
static CUdeviceptr front, back; /* of WORDS words each */
static uint32_t *pinned;        /* also of WORDS words */
static CUevent begun, ended, forked;
static uint32_t step, seen; /* a hash of the words that the host reads */
static uint32_t kernels = 8;

/* A number by chance, the same for the same step. */
static uint32_t draw(void)
{
    return (step * 2654435761u) >> 20;
}

static CUdeviceptr at(CUdeviceptr buffer, uint32_t word)
{
    return buffer + (CUdeviceptr)word * 4;
}

static uint32_t *slot(uint32_t index)
{
    return pinned + (size_t)N * (index % RING);
}

static void see(const uint32_t *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        seen = seen * 31 + words[i];
}

/* -- Kernels of a step ------------------------------------------------------ */

static void launch(uint32_t k, uint32_t n, CUstream on)
{
    OK(launch_mix(k % 2 ? front : back, n, k == 2 ? step : k, on));
}

static void turn(uint32_t k)
{
    launch(k, N, stream);
}

static void wait_for_each(uint32_t k)
{
    turn(k);
    OK(cuStreamSynchronize(stream));
}

static void grid_all(uint32_t k)
{
    launch(k, 8 + (step * 7 + k) % 53, stream);
}

/* The two streams use one buffer each. */
static void two_streams(uint32_t k)
{
    launch(k, N, k % 2 ? beside : stream);
}

/* Another function or block in place of the fourth kernel. */
static void choose(uint32_t k)
{
    uint32_t n = N, chosen = draw() % 4;
    void *args[] = {&back, &n, &step};
    if (k != 3)
        turn(k);
    else if (chosen == 0)
        OK(cuLaunchKernel(nop, 1, 1, 1, N, 1, 1, 0, stream, NULL, NULL));
    else
        OK(cuLaunchKernel(mix, 1, 1, 1, chosen == 2 ? N / 2 : N, 1, 1, 0, stream, args, NULL));
}

static void skip(uint32_t k)
{
    if (k != 5 || draw() % 3)
        turn(k);
}

static void repeat(uint32_t k)
{
    for (uint32_t i = 0; k == 5 && i < draw() % 16; i++)
        OK(launch_mix(at(back, 256), N / 2, i, stream));
    turn(k);
}

static void copy_size(uint32_t k)
{
    if (k == 3)
        OK(cuMemcpyDtoDAsync(at(back, 512), front, 4 * (1 + draw() % 60), stream));
    turn(k);
}

static void fork_and_join(uint32_t k)
{
    turn(k);
    if (k != 1)
        return;
    OK(cuEventRecord(forked, stream));
    OK(cuStreamWaitEvent(beside, forked, 0));
    OK(launch_mix(at(back, 1024), N, step, beside));
    OK(cuEventRecord(ended, beside));
    OK(cuStreamWaitEvent(stream, ended, 0));
}

/* -- Before the kernels ----------------------------------------------------- */

static void triangle(void)
{
    kernels = 1 + step % 16;
}

static void time_begins(void)
{
    OK(cuEventRecord(begun, stream));
}

static void up(uint32_t *from)
{
    for (uint32_t i = 0; i < UP; i++)
        from[i] = step + i;
    OK(cuMemcpyHtoDAsync(back, from, UP * sizeof from[0], stream));
}

/* The host waits for no copy before it writes the next words. */
static void pinned_up(void)
{
    up(pinned);
}

static void pinned_ring(void)
{
    up(slot(step));
}

static void pageable_up(void)
{
    uint32_t words[UP];
    up(words);
}

static CUdeviceptr own; /* memory of this step */

static void make_memory(void)
{
    OK(cuMemAlloc(&own, 4096));
    OK(launch_mix(own, N, step, stream));
}

static void make_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuEventRecord(event, stream));
    OK(cuEventDestroy(event));
}

static void make_stream(void)
{
    CUstream made;
    OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    OK(launch_mix(at(back, 2048), N, step, made));
    OK(cuStreamSynchronize(made));
    OK(cuStreamDestroy(made));
}

/* -- Behind the kernels ----------------------------------------------------- */

static void time_ends(void)
{
    OK(cuEventRecord(ended, stream));
}

static void poll_event(void)
{
    CUresult now;
    OK(cuEventRecord(ended, stream));
    do
        now = cuEventQuery(ended);
    while (now == CUDA_ERROR_NOT_READY);
    OK(now);
}

static void down(uint32_t *to)
{
    OK(cuMemcpyDtoHAsync(to, front, UP * sizeof to[0], stream));
}

static void pinned_down(void)
{
    down(pinned);
    OK(cuStreamSynchronize(stream));
    see(pinned, 1);
}

/* The host reads the copies of several steps at once. */
static void pinned_down_late(void)
{
    down(slot(step));
    if (step % RING != RING - 1)
        return;
    OK(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < RING; i++)
        see(slot(i), 1);
}

/* The copy is in the default stream. It does not wait for the kernels of a non-blocking stream. */
static void decide(void)
{
    uint32_t word;
    OK(cuMemcpyDtoH(&word, front, sizeof word));
    if (word % 3 == 0)
        OK(launch_mix(back, N, 77, stream));
}

static void free_memory(void)
{
    OK(cuMemFree(own));
}

/* -- Words ------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*before)(void);     /* the kernels of a step */
    void (*amid)(uint32_t k); /* in place of turn() */
    void (*behind)(void);
} words[] = {
    {.name = "plain"},
    {.name = "each_sync", .amid = wait_for_each},
    {.name = "timed", .before = time_begins, .behind = time_ends},
    {.name = "pinned_up", .before = pinned_up},
    {.name = "pinned_ring", .before = pinned_ring},
    {.name = "page_up_async", .before = pageable_up},
    {.name = "pinned_down", .behind = pinned_down},
    {.name = "pinned_down_late", .behind = pinned_down_late},
    {.name = "decide", .behind = decide},
    {.name = "malloc", .before = make_memory, .behind = free_memory},
    {.name = "choice", .amid = choose},
    {.name = "fork", .amid = fork_and_join},
    {.name = "event_poll", .behind = poll_event},
    {.name = "skip", .amid = skip},
    {.name = "repeat", .amid = repeat},
    {.name = "triangle", .before = triangle},
    {.name = "grid_all", .amid = grid_all},
    {.name = "two_streams", .amid = two_streams},
    {.name = "copy_size", .amid = copy_size},
    {.name = "events_made", .before = make_event},
    {.name = "stream_made", .before = make_stream},
};

static void loop(unsigned word)
{
    void (*kernel)(uint32_t) = words[word].amid ? words[word].amid : turn;
    for (step = 0; step < STEPS; step++) {
        if (words[word].before)
            words[word].before();
        for (uint32_t k = 0; k < kernels; k++)
            kernel(k);
        if (words[word].behind)
            words[word].behind();
    }
    OK(cuCtxSynchronize());
}

static void begin(void)
{
    start();
    OK(cuMemAlloc(&front, WORDS * 4));
    OK(cuMemAlloc(&back, WORDS * 4));
    OK(cuMemsetD32(front, 1, WORDS));
    OK(cuMemsetD32(back, 2, WORDS));
    OK(cuMemHostAlloc((void **)&pinned, WORDS * 4, 0));
    memset(pinned, 0, WORDS * 4);
    OK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    uint32_t host[N];
    const unsigned all = sizeof words / sizeof words[0];
    unsigned word = 0;
    for (; argc < 2 && word < all; word++)
        puts(words[word].name);
    while (argc >= 2 && word < all && strcmp(words[word].name, argv[1]) != 0)
        word++;
    if (word == all)
        return argc >= 2;
    begin();
    if (argc > 2)
        OK(cuStreamCreate(&stream, atoi(argv[2]) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    loop(word);
    OK(cuMemcpyDtoH(host, front, sizeof host));
    see(host, N);
    OK(cuMemcpyDtoH(host, back, sizeof host));
    see(host, N);
    printf("%s %08x\n", argv[1], seen);
    return 0;
}
