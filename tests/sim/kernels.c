/* SPDX-License-Identifier: MIT */
/* kernels.c: the bodies of the kernels in kernels.h and in tests/programs/limits.h. */
#include "sim.h"

#include <sched.h>

#define ARG(i, type) (*(type *)params[i])

static void mix(const struct agsim_launch *l, void **params)
{
    uint32_t *buf = (uint32_t *)ARG(0, uint64_t), n = ARG(1, uint32_t), k = ARG(2, uint32_t);
    uint64_t threads = (uint64_t)l->grid[0] * l->block[0];
    if (!buf)
        agsim_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
    for (uint32_t i = 0; buf && i < n && i < threads; i++)
        buf[i] = buf[i] * 1664525u + k;
}

static void axpy(const struct agsim_launch *l, void **params)
{
    float *y = (float *)ARG(0, uint64_t), a = ARG(2, float);
    const float *x = (const float *)ARG(1, uint64_t);
    uint64_t threads = (uint64_t)l->grid[0] * l->block[0];
    for (uint32_t i = 0; i < ARG(3, uint32_t) && i < threads; i++)
        y[i] = __builtin_fmaf(a, x[i], y[i]);
}

static void copy(const struct agsim_launch *l, void **params)
{
    uint32_t *dst = (uint32_t *)ARG(0, uint64_t);
    const uint32_t *src = (const uint32_t *)ARG(1, uint64_t);
    uint64_t threads = (uint64_t)l->grid[0] * l->block[0];
    for (uint32_t i = 0; i < ARG(2, uint32_t) && i < threads; i++)
        dst[i] = src[i];
}

static void sum_struct(const struct agsim_launch *l, void **params)
{
    const uint32_t *word = params[0];
    uint32_t sum = 0;
    (void)l;
    for (unsigned i = 0; i < 128; i++)
        sum = sum * 31 + word[i];
    *(uint32_t *)ARG(1, uint64_t) = sum;
}

static void flag(const struct agsim_launch *l, void **params)
{
    (void)l;
    __atomic_store_n((uint32_t *)ARG(0, uint64_t), ARG(1, uint32_t), __ATOMIC_RELEASE);
}

static void spin(const struct agsim_launch *l, void **params)
{
    (void)l;
    sim_tls.by_host = true;
    while (__atomic_load_n((uint32_t *)ARG(0, uint64_t), __ATOMIC_ACQUIRE) != ARG(1, uint32_t))
        sched_yield();
}

static void nop(const struct agsim_launch *l, void **params)
{
    (void)l, (void)params;
}

static void many(const struct agsim_launch *l, void **params)
{
    (void)l;
    uint64_t h = 0;
    h = h * 31 + ARG(1, uint8_t);
    h = h * 31 + ARG(2, uint16_t);
    h = h * 31 + ARG(3, uint32_t);
    h = h * 31 + ARG(4, uint64_t);
    h = h * 31 + ARG(5, uint8_t);
    h = h * 31 + ARG(6, uint64_t);
    h = h * 31 + ARG(7, uint16_t);
    h = h * 31 + ARG(8, uint32_t);
    h = h * 31 + ARG(9, uint8_t);
    *(uint64_t *)ARG(0, uint64_t) = h;
}

/* Of tests/programs/limits.h. */
static void shape(const struct agsim_launch *l, void **params)
{
    uint32_t *out = (uint32_t *)ARG(0, uint64_t);
    if (ARG(2, uint32_t) > l->shared)
        agsim_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
    uint32_t hash = out[1] * 31 + ARG(1, uint32_t);
    for (unsigned i = 0; i < 3; i++)
        hash = hash * 31 + l->grid[i];
    for (unsigned i = 0; i < 3; i++)
        hash = hash * 31 + l->block[i];
    out[0]++;
    out[1] = hash;
}

/* The library's own kernel for read-backs (src/engine/context/fetch.c): a word, and the bytes. */
static void fetch(const struct agsim_launch *l, void **params)
{
    (void)l;
    memcpy((void *)ARG(3, uint64_t), (const void *)ARG(0, uint64_t), ARG(2, uint32_t));
    *(uint32_t *)ARG(1, uint64_t) = 1;
}

agsim_kernel_fn *builtin_kernel(const char *name)
{
    static const struct {
        const char *name;
        agsim_kernel_fn *body;
    } all[] = {
        {"ag_mix", mix},     {"ag_axpy", axpy},   {"ag_copy", copy},   {"ag_struct", sum_struct},
        {"ag_flag", flag},   {"ag_spin", spin},   {"ag_nop", nop},     {"ag_many", many},
        {"ag_shape", shape}, {"ag_bound", shape}, {"ag_exact", shape}, {"ag_fixed", shape},
        {"ag_wide", shape},  {"ag_pair", shape},  {"ag_told", shape},  {"autograph_fetch", fetch}};
    for (unsigned i = 0; i < COUNT(all); i++)
        if (!strcmp(all[i].name, name))
            return all[i].body;
    return NULL;
}
