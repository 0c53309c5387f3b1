/* SPDX-License-Identifier: MIT */
/* Limits of devices and functions, and whether a launch's shape is within them. */
#include "graph/shape.h"

#include "driver/driver.h"

enum {
    PORTABLE_CLUSTER = 8, /* blocks, on each device that has clusters (CUDA driver API,
                             cuFuncGetAttribute, NON_PORTABLE_CLUSTER_SIZE_ALLOWED) */
    CLUSTER_BITS = 8,     /* of each dimension, in ag_limits.cluster */
    BLOCK_BITS = 21,      /* of each dimension, in ag_limits.launched */
    STEP = 16,            /* bytes in which ag_limits.wanted grows: so that most ops only look */
};

#define NO_CLUSTER_FITS UINT32_MAX
#define SEVERAL_BLOCKS  UINT64_MAX

#define GET(field)        atomic_load_explicit(&(field), memory_order_relaxed)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

/* -- Asking ----------------------------------------------------------------- */

/* What an older driver does not know of is 0 at all times. */
static uint32_t of_function(CUfunction func, CUfunction_attribute attribute)
{
    int value;
    CUresult result = ag_real.cuFuncGetAttribute(&value, attribute, func);
    return result == CUDA_SUCCESS && value > 0 ? (uint32_t)value : 0;
}

bool ag_limits_ask_shared(struct ag_limits *limits, CUfunction func)
{
    int bytes;
    CUfunction_attribute attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    bool known = ag_real.cuFuncGetAttribute(&bytes, attribute, func) == CUDA_SUCCESS;
    atomic_store(&limits->shared, known && bytes > 0 ? (uint32_t)bytes : 0);
    return known;
}

static bool is_portable(const uint32_t *cluster)
{
    uint64_t blocks = 1;
    for (unsigned i = 0; i < 3 && blocks != 0 && blocks <= PORTABLE_CLUSTER; i++)
        blocks *= cluster[i];
    return blocks != 0 && blocks <= PORTABLE_CLUSTER;
}

void ag_limits_ask_cluster(struct ag_limits *limits, CUfunction func)
{
    const uint32_t each[3] = {of_function(func, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                              of_function(func, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                              of_function(func, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
    uint32_t cluster = NO_CLUSTER_FITS;
    if (is_portable(each))
        cluster = each[0] | each[1] << CLUSTER_BITS | each[2] << 2 * CLUSTER_BITS;
    else if ((each[0] | each[1] | each[2]) == 0 &&
             of_function(func, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) == 0)
        cluster = 0;
    PUT(limits->cluster, cluster);
}

static bool of_device(uint32_t *limit, CUdevice_attribute attribute, CUdevice device)
{
    int value;
    CUresult result = ag_real.cuDeviceGetAttribute(&value, attribute, device);
    *limit = result == CUDA_SUCCESS && value > 0 ? (uint32_t)value : 0;
    return *limit != 0;
}

static bool ask_device(struct ag_limits *limits)
{
    CUdevice device;
    return ag_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
           of_device(&limits->grid[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, device) &&
           of_device(&limits->grid[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device) &&
           of_device(&limits->grid[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, device) &&
           of_device(&limits->block[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, device) &&
           of_device(&limits->block[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, device) &&
           of_device(&limits->block[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, device);
}

bool ag_limits_ask(struct ag_limits *limits, CUfunction func)
{
    limits->threads =
        ask_device(limits) ? of_function(func, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) : 0;
    ag_limits_ask_cluster(limits, func);
    PUT(limits->launched, 0);
    return ag_limits_ask_shared(limits, func);
}

/* -- Shapes ----------------------------------------------------------------- */

static uint64_t pack(const uint32_t *block)
{
    return block[0] | (uint64_t)block[1] << BLOCK_BITS | (uint64_t)block[2] << 2 * BLOCK_BITS;
}

void ag_limits_grow(const struct ag_limits *limits, uint32_t shared)
{
    const uint32_t step = STEP;
    uint32_t before = atomic_load(&limits->wanted);
    uint32_t enough = (shared + step - 1) / step * step + 1;
    while (before < enough && shared <= INT32_MAX &&
           !atomic_compare_exchange_weak(&((struct ag_limits *)limits)->wanted, &before, enough))
        continue;
}

/* Two threads at once may leave one block where there were two: then less fits than could. */
void ag_limits_launched(const struct ag_limits *limits, const uint32_t block[3])
{
    uint64_t before = GET(limits->launched), now = pack(block);
    if (before != now && before != SEVERAL_BLOCKS)
        PUT(((struct ag_limits *)limits)->launched, before == 0 ? now : SEVERAL_BLOCKS);
}

static bool fits_clusters(const uint32_t *grid, uint32_t cluster)
{
    if (cluster == NO_CLUSTER_FITS)
        return false;
    for (unsigned i = 0; i < 3; i++)
        if (grid[i] % (cluster >> i * CLUSTER_BITS & ((1 << CLUSTER_BITS) - 1)) != 0)
            return false;
    return true;
}

bool ag_shape_fits(const struct ag_limits *limits, const uint32_t grid[3], const uint32_t block[3],
                   uint32_t shared)
{
    uint64_t launched = GET(limits->launched);
    uint32_t cluster = GET(limits->cluster);
    for (unsigned i = 0; i < 3; i++)
        if (grid[i] == 0 || grid[i] > limits->grid[i] || block[i] == 0 ||
            block[i] > limits->block[i])
            return false;
    return (uint64_t)block[0] * block[1] * block[2] <= limits->threads &&
           shared <= GET(limits->shared) &&
           (launched == SEVERAL_BLOCKS || launched == pack(block)) &&
           (cluster == 0 || fits_clusters(grid, cluster));
}
