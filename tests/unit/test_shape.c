/* SPDX-License-Identifier: MIT */
/* Shapes along each limit of a device and a function: zero, below it, at it, above it. */
#include "graph/shape.h"

#include <pthread.h>

#include "driver/driver.h"
#include "engine/stream/eager.h"
#include "unit/test.h"

/* -- A driver ------------------------------------------------------------------ */

static int device_limit[CU_DEVICE_ATTRIBUTE_MAX], attribute[CU_FUNC_ATTRIBUTE_MAX];
static int unknown = -1; /* the attribute of functions that the driver does not know */

static CUresult get_device(CUdevice *device)
{
    *device = 3;
    return CUDA_SUCCESS;
}

static CUresult get_device_attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    *value = device_limit[which];
    return device == 3 && *value != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_attribute(int *value, CUfunction_attribute which, CUfunction func)
{
    (void)func;
    *value = attribute[which];
    return (int)which == unknown ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

struct ag_driver ag_real = {
    .cuCtxGetDevice = get_device,
    .cuDeviceGetAttribute = get_device_attribute,
    .cuFuncGetAttribute = get_attribute,
};

/* -- A function ---------------------------------------------------------------- */

static const uint32_t most_grid[3] = {0x7fffffff, 65535, 65535}, most_block[3] = {1024, 1024, 64};
enum { THREADS = 768, SHARED = 49152 };

static const uint32_t one[3] = {1, 1, 1};
static struct ag_limits limits;
static bool known;

static void learn(void)
{
    known = ag_limits_ask(&limits, NULL);
}

static void launched(uint32_t x, uint32_t y, uint32_t z)
{
    ag_limits_launched(&limits, (const uint32_t[3]){x, y, z});
}

/* One that has been launched with two blocks. */
static void begin(void)
{
    unknown = -1;
    memset(attribute, 0, sizeof attribute);
    for (int i = 0; i < 3; i++) {
        device_limit[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i] = (int)most_grid[i];
        device_limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i] = (int)most_block[i];
    }
    attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = THREADS;
    attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = SHARED;
    learn();
    launched(1, 1, 1);
    launched(2, 1, 1);
}

static bool block_fits(uint32_t x, uint32_t y, uint32_t z)
{
    return ag_shape_fits(&limits, one, (const uint32_t[3]){x, y, z}, 0);
}

static bool grid_fits(uint32_t x, uint32_t y, uint32_t z)
{
    return ag_shape_fits(&limits, (const uint32_t[3]){x, y, z}, one, 0);
}

/* Along one dimension. */
static bool along(bool (*fits)(uint32_t x, uint32_t y, uint32_t z), unsigned dimension,
                  uint32_t value)
{
    return fits(dimension == 0 ? value : 1, dimension == 1 ? value : 1, dimension == 2 ? value : 1);
}

static bool shared_fits(uint32_t bytes)
{
    return ag_shape_fits(&limits, one, one, bytes);
}

/* -- Tests --------------------------------------------------------------------- */

TEST(each_dimension_of_the_grid)
{
    begin();
    CHECK(known);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(!along(grid_fits, i, 0) && along(grid_fits, i, 1));
        CHECK(along(grid_fits, i, most_grid[i] - 1) && along(grid_fits, i, most_grid[i]));
        CHECK(!along(grid_fits, i, most_grid[i] + 1) && !along(grid_fits, i, UINT32_MAX));
    }
    CHECK(grid_fits(most_grid[0], most_grid[1], most_grid[2]));
}

TEST(each_dimension_of_the_block)
{
    begin();
    limits.threads = UINT32_MAX;
    for (unsigned i = 0; i < 3; i++) {
        CHECK(!along(block_fits, i, 0) && along(block_fits, i, 1));
        CHECK(along(block_fits, i, most_block[i] - 1) && along(block_fits, i, most_block[i]));
        CHECK(!along(block_fits, i, most_block[i] + 1) && !along(block_fits, i, UINT32_MAX));
    }
}

TEST(threads_of_a_block)
{
    begin();
    CHECK(block_fits(THREADS - 1, 1, 1) && block_fits(THREADS, 1, 1));
    CHECK(!block_fits(THREADS + 1, 1, 1));
    CHECK(block_fits(1, THREADS, 1) && !block_fits(1, THREADS + 1, 1));
    CHECK(block_fits(3, 4, 64) && !block_fits(1, 13, 64) && !block_fits(1024, 1024, 64));
    attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    CHECK(!block_fits(1024, 1, 1)); /* as it was learnt */
    learn();
    launched(1, 1, 1);
    launched(32, 1, 1);
    CHECK(block_fits(1024, 1, 1));
}

TEST(dynamic_shared_memory)
{
    begin();
    CHECK(shared_fits(SHARED - 1) && shared_fits(SHARED));
    CHECK(!shared_fits(SHARED + 1) && !shared_fits(UINT32_MAX));
}

TEST(the_limit_of_shared_memory_that_is_set)
{
    begin();
    attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 100000;
    CHECK(ag_limits_ask_shared(&limits, NULL));
    CHECK(shared_fits(100000) && !shared_fits(100001));
    attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 0;
    CHECK(ag_limits_ask_shared(&limits, NULL));
    CHECK(shared_fits(0) && !shared_fits(1));
    unknown = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CHECK(!ag_limits_ask_shared(&limits, NULL));
    CHECK(shared_fits(0) && !shared_fits(1));
}

TEST(blocks_that_have_been_launched)
{
    begin();
    learn();
    CHECK(!block_fits(64, 1, 1)); /* nothing before the first launch */
    launched(64, 1, 1);
    CHECK(block_fits(64, 1, 1) && !block_fits(63, 1, 1) && !block_fits(1, 64, 1));
    CHECK(grid_fits(1, 1, 1) == false);
    launched(64, 1, 1);
    CHECK(!block_fits(1, 64, 1));
    launched(8, 8, 1);
    CHECK(block_fits(64, 1, 1) && block_fits(1, 64, 1) && block_fits(THREADS, 1, 1));
    launched(64, 1, 1);
    CHECK(block_fits(1, 64, 1));
}

TEST(required_clusters)
{
    begin();
    for (int i = 0; i < 3; i++)
        attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i] = i + 1 == 3 ? 1 : i + 2;
    attribute[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = 1;
    ag_limits_ask_cluster(&limits, NULL); /* 2 by 3 by 1 */
    CHECK(grid_fits(2, 3, 1) && grid_fits(4, 9, 5));
    CHECK(!grid_fits(1, 3, 1) && !grid_fits(3, 3, 1) && !grid_fits(2, 2, 1) && !grid_fits(2, 4, 1));
    attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = 0;
    ag_limits_ask_cluster(&limits, NULL); /* all or none are to be set */
    CHECK(!grid_fits(2, 3, 1) && !grid_fits(6, 6, 6));
}

TEST(clusters_of_more_than_eight_blocks)
{
    begin();
    for (int blocks = 7; blocks <= 9; blocks++) {
        attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = blocks;
        attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = 1;
        attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = 1;
        ag_limits_ask_cluster(&limits, NULL);
        CHECK(grid_fits((uint32_t)blocks, 1, 1) == (blocks <= 8));
    }
    attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = 0x40000000;
    attribute[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = 0x40000000;
    ag_limits_ask_cluster(&limits, NULL);
    CHECK(!grid_fits(9, 0x40000000, 1));
}

TEST(a_cluster_that_each_launch_has_to_give)
{
    begin();
    attribute[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = 1;
    ag_limits_ask_cluster(&limits, NULL);
    CHECK(!grid_fits(1, 1, 1) && !grid_fits(8, 8, 8));
    unknown = CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET; /* a driver before 11.8 */
    ag_limits_ask_cluster(&limits, NULL);
    CHECK(grid_fits(1, 1, 1));
}

TEST(what_the_driver_does_not_tell)
{
    begin();
    unknown = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    learn();
    launched(1, 1, 1);
    launched(2, 1, 1);
    CHECK(known && !block_fits(1, 1, 1));
    for (int i = 0; i < 6; i++) {
        begin();
        device_limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i] = 0;
        learn();
        launched(1, 1, 1);
        launched(2, 1, 1);
        CHECK(known && !block_fits(1, 1, 1));
    }
    begin();
    unknown = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    learn();
    CHECK(!known);
}

/* -- Launches that prove a shape --------------------------------------------------- */

_Thread_local struct ag_thread ag_self;

static struct ag_function function;
static struct ag_stream stream;
static struct ag_node first, second;

static void *launch_first(void *unused)
{
    (void)unused;
    ag_eager_is(&stream, &first);
    return NULL;
}

static bool is_proven(void)
{
    return first.taken && first.blacklisted == 0 && function.limits.launched != 0;
}

/* A call of another thread may still be under way when this thread issues an op, and fail. */
TEST(a_launch_is_proven_by_the_next_of_its_thread)
{
    pthread_t thread;
    first.op = (struct ag_op){.kind = AG_OP_KERNEL, .layout = &function.layout};
    first.op.shape[AG_KERNEL_BLOCK] = first.op.shape[AG_KERNEL_BLOCK + 1] = 1;
    first.blacklisted = AG_BLACKLISTED_SHAPE;
    CHECK(pthread_create(&thread, NULL, launch_first, NULL) == 0);
    pthread_join(thread, NULL);
    ag_eager_is(&stream, &second);
    CHECK(!is_proven());
    ag_eager_is(&stream, &first);
    CHECK(!is_proven());
    ag_eager_is(&stream, &second);
    CHECK(is_proven());
}
