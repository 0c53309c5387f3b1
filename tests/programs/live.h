/* SPDX-License-Identifier: MIT */
/* What live_life.c, live_beside.c and others share: a loop that is replayed, a table of scenarios.
 */
#ifndef LIVE_H
#define LIVE_H

#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "agsim.h"

enum { N = 32, STEPS = 60, BODY = 6 };

static CUdeviceptr buffer[4];

static inline void body(CUstream s, CUdeviceptr at, uint32_t step)
{
    for (uint32_t i = 0; i < BODY; i++)
        OK(launch_mix(at, N, i == 2 ? step : i, s));
}

static inline void loop(CUstream s, CUdeviceptr at)
{
    for (uint32_t step = 0; step < STEPS; step++)
        body(s, at, step);
}

static inline void show(const char *what, CUdeviceptr at)
{
    uint32_t host[N], sum = 0;
    OK(cuMemcpyDtoH(host, at, sizeof host));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + host[i];
    printf("%s %08x\n", what, sum);
}

static volatile uint32_t released;

static inline void until_released(void *arg)
{
    while (get_word(&released) < (uint32_t)(uintptr_t)arg)
        sched_yield();
}

struct scenario {
    const char *name;
    void (*run)(void);
};

/* Runs the scenario that argv[1] names; NULL names the end of the table. */
static inline void run(const struct scenario *scenario, int argc, char **argv)
{
    CHECK(argc == 2);
    while (scenario->name && strcmp(scenario->name, argv[1]))
        scenario++;
    CHECK(scenario->name);
    alarm(100);
    start();
    for (unsigned b = 0; b < 4; b++) {
        OK(cuMemAlloc(&buffer[b], 4 * N));
        OK(cuMemsetD32(buffer[b], b + 1, N));
    }
    OK(cuCtxSynchronize());
    scenario->run();
}

static inline void show_all(const char *name)
{
    OK(cuCtxSynchronize());
    for (unsigned b = 0; b < 4; b++)
        show(name, buffer[b]);
}

#endif
