/* SPDX-License-Identifier: MIT */
/*
 * What turns.toml puts into programs whose threads are in step (OpenMP, a thread for each GPU), so that
 * the library is in use for some steps and out of use for as many, in turn: turns_step() at the begin of
 * each step and turns_end() behind the last, by all threads. Prints a line: "turns", and for each turn the
 * microseconds that a step of it took. Library: built with CPPFLAGS=-DAG_TURNS; without one nothing is
 * switched.
 */
#ifndef TURNS_H
#define TURNS_H

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURN_STEPS = 100, TURNS_MOST = 10000 };

static double turns_us[TURNS_MOST], turns_began;
static int turns_count;

/* All work is done, and no thread is elsewhere. Which turns have the library: the first, third, ... */
static void turns_switch(void)
{
    typedef void engage(int on);
    static engage *const found = (engage *)dlsym(RTLD_DEFAULT, "autograph_engage");
    double now = omp_get_wtime();
    if (turns_began != 0 && turns_count < TURNS_MOST)
        turns_us[turns_count++] = (now - turns_began) * 1e6 / TURN_STEPS;
    if (found != NULL)
        found(turns_count % 2 == 0);
    turns_began = omp_get_wtime();
}

static void turns_step(int step)
{
    if (step % TURN_STEPS != 0)
        return;
    cudaError_t result = cudaDeviceSynchronize();
    if (result != cudaSuccess) {
        fprintf(stderr, "a step before the %dth has failed: %s\n", step, cudaGetErrorString(result));
        exit(1);
    }
#pragma omp barrier
#pragma omp master
    turns_switch();
#pragma omp barrier
}

static void turns_end(void)
{
#pragma omp master
    {
        turns_switch();
        printf("turns");
        for (int i = 0; i < turns_count; i++)
            printf(" %.3f", turns_us[i]);
        printf("\n");
    }
}

#endif
