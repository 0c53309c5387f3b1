/* SPDX-License-Identifier: MIT */
/* The noise of a machine. */
#include "policy/noise.h"

#include <math.h>
#include <stdlib.h>

#include "policy/program.h"

/* Shares of all, and ns. Steps that take 1.3 times as long, pauses and slow first windows were seen
   on machines with one GPU of eight. */
static const double slow_steps = 0.1, slow_step = 1.3, jitter = 0.05, slow_starts = 0.5,
                    slow_start = 1.5, pauses_for_ns = 20e6, pause_ns = 150e3;
static const uint64_t start_ns = 2000000;

/* splitmix64 */
static uint64_t hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b * 0xbf58476d1ce4e5b9u ^ c * 0x94d049bb133111ebu;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Of 0 to 1. */
static double share(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(hash(a, b, c) >> 11) / (double)(1ull << 53);
}

static bool ends_step(const struct play_line *line)
{
    return line->verb == PLAY_SYNC_STREAM || line->verb == PLAY_SYNC_CONTEXT ||
           line->verb == PLAY_SYNC_EVENT || line->verb == PLAY_READ;
}

static double of_step(uint64_t seed, uint64_t thread, uint64_t step)
{
    double slow = share(seed, thread, 2 * step);
    double factor = 1 + jitter * (2 * share(seed, thread, 2 * step + 1) - 1);
    return slow < slow_steps ? factor * slow_step : factor;
}

struct play_noise *play_noise_make(const struct play_program *program, uint64_t seed)
{
    enum { STEP = 128 }; /* calls of a step without waits */
    struct thread {
        uint64_t step, calls, ns;
    } *threads = calloc(program->threads + 1, sizeof *threads);
    struct play_noise *noise = calloc(program->lines + 1, sizeof *noise);
    if (threads == NULL || noise == NULL)
        abort();
    for (size_t i = 0; i < program->lines; i++) {
        const struct play_line *line = &program->line[i];
        struct thread *thread = &threads[line->thread];
        uint64_t ns = line->gap + line->own;
        noise[i] = (struct play_noise){.factor = 1};
        if (seed == 0)
            continue;
        noise[i].factor = of_step(seed, line->thread, thread->step);
        if (thread->ns < start_ns && share(seed, line->thread, UINT64_MAX) < slow_starts)
            noise[i].factor *= slow_start;
        if (share(seed, UINT32_MAX, i) * pauses_for_ns < (double)ns)
            noise[i].pause = (uint64_t)(-pause_ns * log(1 - share(seed, UINT32_MAX - 1u, i)));
        thread->ns += ns;
        if (ends_step(line) || ++thread->calls % STEP == 0)
            thread->step++;
    }
    free(threads);
    return noise;
}
