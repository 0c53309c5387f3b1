/* SPDX-License-Identifier: MIT */
/* limit.c: which shapes of launches are refused, by device, kernel and attributes. The codes of
 * sim_rules.expected are a GPU's. */
#include "sim.h"

enum {
    THREADS = 1024,       /* of a block */
    REGISTERS = 65536,    /* of a multiprocessor */
    PARTS = 4,            /* of a multiprocessor, each with its own registers */
    WARP = 32,            /* threads */
    REGISTER_UNIT = 8,    /* of a thread, that are taken at once */
    PORTABLE_CLUSTER = 8, /* blocks */
    LARGEST_CLUSTER = 16,
};

static uint64_t product(const unsigned size[3])
{
    return (uint64_t)size[0] * size[1] * size[2];
}

/* As many as find their registers: a warp has them in one part. */
static unsigned threads_by_registers(const struct kernel_def *def)
{
    unsigned each = (def->limits.registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    unsigned threads = each ? REGISTERS / PARTS / (each * WARP) * PARTS * WARP : THREADS;
    return threads < THREADS ? threads : THREADS;
}

/* A block that the text requires does not count: CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK is 1024
 * with .reqntid 64 (H100, driver 580). */
static unsigned threads_by_text(const struct kernel_def *def)
{
    unsigned threads = def->limits.threads;
    return threads && threads < THREADS ? threads : THREADS;
}

unsigned kernel_most_threads(const struct kernel_def *def)
{
    unsigned registers = threads_by_registers(def), text = threads_by_text(def);
    return registers < text ? registers : text;
}

struct func_attrs kernel_fresh_attrs(const struct kernel_def *def)
{
    struct func_attrs attrs = {.max_dynamic_shared = (int)(SHARED_DEFAULT - def->limits.shared),
                               .carveout = -1};
    memcpy(attrs.cluster, def->limits.cluster, sizeof attrs.cluster);
    return attrs;
}

CUresult kernel_shape_check(const struct kernel_def *def, const unsigned grid[3],
                            const unsigned block[3])
{
    const unsigned *asked = def->limits.block;
    if (!product(grid) || !product(block))
        return CUDA_ERROR_INVALID_VALUE;
    if (grid[0] > INT_MAX || grid[1] > 65535 || grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
        product(block) > threads_by_text(def))
        return CUDA_ERROR_INVALID_VALUE;
    /* Another block than the one of .reqntid, also a smaller one: 1 (H100, driver 580). */
    return asked[0] && memcmp(block, asked, 3 * sizeof *block) != 0 ? CUDA_ERROR_INVALID_VALUE
                                                                    : CUDA_SUCCESS;
}

static CUresult registers_check(const struct work *w)
{
    return product(w->kernel.block) > threads_by_registers(w->kernel.def)
               ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
               : CUDA_SUCCESS;
}

/* An exec does not look at this again: where the function's limit is lowered, its launch goes on,
 * and setting the parameters that it has is refused (H100, driver 580). */
static CUresult shared_check(const struct work *w, const struct kernel_attrs *attrs,
                             const struct func_attrs *f)
{
    unsigned fixed = w->kernel.def->limits.shared;
    const unsigned most[] = {
        [MODE_AS_FUNCTION] = (unsigned)f->max_dynamic_shared,
        [MODE_PORTABLE] = SHARED_DEFAULT - fixed,
        [MODE_ANY] = SHARED_MAX - fixed,
    };
    return w->kernel.shared > most[attrs->shared_mode] ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult cluster_check(const struct work *w, const struct kernel_attrs *a,
                              const struct func_attrs *f, bool later)
{
    const unsigned *grid = w->kernel.grid, *asked = w->kernel.def->limits.cluster;
    bool given = a->set & 1u << CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    const unsigned *cluster = given ? a->cluster : f->cluster;
    if (!given && !cluster[0] && !cluster[1] && !cluster[2])
        return w->kernel.def->limits.asks_cluster && !later ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                            : CUDA_SUCCESS;
    bool any = a->cluster_mode == MODE_ANY ||
               (a->cluster_mode == MODE_AS_FUNCTION && f->nonportable_cluster);
    if (!product(cluster) || product(cluster) > (any ? LARGEST_CLUSTER : PORTABLE_CLUSTER) ||
        (asked[0] && memcmp(cluster, asked, 3 * sizeof *asked) != 0))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (unsigned i = 0; i < 3; i++)
        if (grid[i] % cluster[i] ||
            (a->preferred[i] && (grid[i] % a->preferred[i] || a->preferred[i] % cluster[i])))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}

/* All blocks have to be there at once. */
static CUresult cooperative_check(const struct work *w)
{
    unsigned threads = (unsigned)(product(w->kernel.block) + WARP - 1) / WARP * WARP;
    unsigned per_sm = 2048 / threads < 32 ? 2048 / threads : 32;
    return product(w->kernel.grid) > 132u * per_sm ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                                   : CUDA_SUCCESS;
}

CUresult kernel_attrs_check(const struct work *w, const struct kernel_attrs *attrs,
                            const struct func_attrs *f, bool later)
{
    CUresult r = later ? CUDA_SUCCESS : registers_check(w);
    if (r == CUDA_SUCCESS)
        r = shared_check(w, attrs, f);
    if (r == CUDA_SUCCESS)
        r = cluster_check(w, attrs, f, later);
    if (r == CUDA_SUCCESS && attrs->cooperative)
        r = cooperative_check(w);
    return r;
}

CUresult kernel_exec_check(const struct work *w, const struct func_attrs *f)
{
    CUresult r = registers_check(w);
    return r == CUDA_SUCCESS ? cluster_check(w, &w->kernel.attrs, f, true) : r;
}
