/* SPDX-License-Identifier: MIT */
/*
 * What turns.toml puts into programs so that the library is in use for TURN_STEPS steps and out of
 * use for as many, in turn. Where threads of OpenMP, one for each GPU, are in step: turns_step() at
 * the begin of each step, and turns_end() behind the last, by all of them. Elsewhere turns_switch()
 * and turns_print() by one thread while no other one calls CUDA. Prints a line: "turns",
 * TURN_STEPS, and for each turn the microseconds that a step of it took. Library: built with
 * CPPFLAGS=-DAG_TURNS; without one nothing is switched.
 */
#ifndef TURNS_H
#define TURNS_H

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TURN_STEPS
#define TURN_STEPS 100
#endif

enum { TURNS_MOST = 10000 };

static double turns_us[TURNS_MOST], turns_began;
static int turns_count;

/* All work of this thread's device is done then. */
static void turns_wait(void)
{
    cudaError_t result = cudaDeviceSynchronize();
    if (result != cudaSuccess) {
        fprintf(stderr, "what turn %d did has failed: %s\n", turns_count,
                cudaGetErrorString(result));
        exit(1);
    }
}

/* Which turns have the library: the first, third, ... */
static void turns_switch(void)
{
    typedef void engage(int on);
    static engage *const found = (engage *)dlsym(RTLD_DEFAULT, "autograph_engage");
    turns_wait();
    double now = omp_get_wtime();
    if (turns_began != 0 && turns_count < TURNS_MOST)
        turns_us[turns_count++] = (now - turns_began) * 1e6 / TURN_STEPS;
    if (found != NULL)
        found(turns_count % 2 == 0);
    turns_began = omp_get_wtime();
}

static void turns_print(void)
{
    turns_switch();
    printf("turns %d", TURN_STEPS);
    for (int i = 0; i < turns_count; i++)
        printf(" %.3f", turns_us[i]);
    printf("\n");
}

static void turns_step(int step)
{
    if (step % TURN_STEPS != 0)
        return;
    turns_wait();
#pragma omp barrier
#pragma omp master
    turns_switch();
#pragma omp barrier
}

static void turns_end(void)
{
#pragma omp master
    turns_print();
}

#endif
