/* SPDX-License-Identifier: MIT */
/* How long what is known of a kernel stays valid, and what becomes of its settings. */
#include <stdlib.h>

#include "config/config.h"
#include "driver/driver.h"
#include "graph/node.h"
#include "graph/setting.h"
#include "graph/words.h"
#include "unit/test.h"

struct ag_options ag_opt;

/* Two parameters, of 8 and of 4 bytes. */
static CUresult parameters(CUfunction func, size_t index, size_t *offset, size_t *size)
{
    (void)func;
    if (index > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = 8 - 4 * index;
    return CUDA_SUCCESS;
}

static CUresult no_kernel(CUfunction *func, CUkernel kernel)
{
    (void)func, (void)kernel;
    return CUDA_ERROR_INVALID_HANDLE;
}

static int limit = 49152, carveout = -1;

static int *value_of(CUfunction_attribute attribute)
{
    static int other;
    return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES      ? &limit
           : attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? &carveout
                                                                             : &other;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction func)
{
    (void)func;
    *value = *value_of(attribute);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction func, CUfunction_attribute attribute, int value)
{
    (void)func;
    *value_of(attribute) = value;
    return CUDA_SUCCESS;
}

static CUresult get_cache(CUfunc_cache *cache)
{
    *cache = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

static int caches_set;

static CUresult set_cache(CUfunction func, CUfunc_cache cache)
{
    (void)func, (void)cache;
    caches_set++;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static CUcontext current = (CUcontext)16;

static CUresult get_current(CUcontext *to)
{
    *to = current;
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext to)
{
    current = to;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *from)
{
    *from = current;
    current = NULL;
    return CUDA_SUCCESS;
}

static CUresult get_device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *value = 1024;
    return CUDA_SUCCESS;
}

struct ag_driver ag_real = {
    .cuFuncGetParamInfo = parameters,
    .cuKernelGetFunction = no_kernel,
    .cuFuncGetAttribute = get_attribute,
    .cuFuncSetAttribute = set_attribute,
    .cuFuncSetCacheConfig = set_cache,
    .cuCtxGetCacheConfig = get_cache,
    .cuCtxGetDevice = get_device,
    .cuCtxGetCurrent = get_current,
    .cuCtxPushCurrent_v2 = push_current,
    .cuCtxPopCurrent_v2 = pop_current,
    .cuDeviceGetAttribute = get_device_attribute,
};

static const CUcontext ctx = (CUcontext)16;
static const CUfunction mix = (CUfunction)32;

static const struct ag_function *learnt(void)
{
    ag_function_learn(mix, ctx);
    return ag_function_find(mix, ctx);
}

static uint32_t retire(void)
{
    return ag_functions_retire(&(struct ag_functions){.of = AG_FUNCTIONS_OF_CONTEXT, .owner = ctx});
}

static int is_intact(const struct ag_function *function)
{
    return function->func == mix && function->layout.count == 2 && function->layout.size == 12 &&
           function->layout.field[1].offset == 8;
}

TEST(is_asked_for_anew)
{
    CHECK(is_intact(learnt()));
    uint32_t since = retire();
    CHECK(ag_function_find(mix, ctx) == NULL);
    const struct ag_function *again = learnt();
    ag_functions_sweep(since);
    CHECK(ag_function_find(mix, ctx) == again);
}

/* Streams have been reset for the first of two threads, and go on, but not yet for the second. */
TEST(stays_for_the_thread_that_comes_second)
{
    ag_functions_sweep(retire()); /* nothing is known */
    uint32_t first = retire();
    const struct ag_function *between = learnt();
    uint32_t second = retire();
    ag_functions_sweep(first);
    CHECK(is_intact(between));
    const struct ag_function *last = learnt();
    CHECK(last != between); /* as it would be if that had been freed */
    ag_functions_sweep(second);
    CHECK(is_intact(last));
}

TEST(a_copy_stays)
{
    CHECK(learnt() != NULL);
    struct ag_function *copy = ag_function_copy(mix, ctx);
    CHECK(copy != NULL);
    ag_functions_sweep(retire());
    CHECK(ag_function_copy(mix, ctx) == NULL);
    CHECK(is_intact(copy));
    free(copy);
}

TEST(what_is_of_another_owner_stays)
{
    const struct ag_function *function = learnt();
    CHECK(ag_functions_retire(
              &(struct ag_functions){.of = AG_FUNCTIONS_OF_CONTEXT, .owner = &limit}) == 0);
    CHECK(ag_function_find(mix, ctx) == function);
    CHECK(!ag_function_is_retired(&function->layout, 0));
    uint32_t retired = retire();
    CHECK(ag_function_is_retired(&function->layout, retired));
    CHECK(!ag_function_is_retired(&function->layout, retired - 1)); /* not yet by then */
    ag_functions_sweep(retired);
}

/* The program sets something; whether ops of the function have to go before. */
static bool sets(int attribute, int value)
{
    struct ag_setter setter = {.handle = mix, .attribute = attribute, .value = value};
    if (ag_setter_repeats(&setter, ctx))
        return false;
    uint32_t retired = ag_setter_prepare(&setter);
    ag_functions_sweep(retired);
    ag_setter_begin();
    if (attribute != AG_SETTING_CACHE)
        (void)set_attribute(mix, (CUfunction_attribute)attribute, value);
    uint32_t late = ag_setter_end(&setter, CUDA_SUCCESS);
    return retired != 0 || late != 0;
}

static const int LIMIT = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
static const int CARVEOUT = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;

/* The number of the settings of a launch, -1: it may not be held. */
static int number(uint32_t shared)
{
    uint32_t number;
    return ag_setting_number(learnt(), shared, true, &number) ? (int)number : -1;
}

TEST(settings_before_the_first_launch_and_higher_limits_cost_nothing)
{
    CHECK(learnt() != NULL);
    CHECK(!sets(CARVEOUT, 25) && !sets(AG_SETTING_CACHE, CU_FUNC_CACHE_PREFER_L1));
    CHECK(number(49152) == 0 && number(49153) == -1);
    CHECK(!sets(LIMIT, 65536));
    CHECK(number(65536) == 0 && number(65537) == -1);
    CHECK(!sets(LIMIT, 65536) && !sets(CARVEOUT, 25));
    ag_functions_sweep(retire());
}

TEST(a_limit_that_suits_all_ops_costs_nothing)
{
    CHECK(!sets(LIMIT, 65536));
    CHECK(number(1000) == 0 && number(20000) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(!sets(LIMIT, i % 2 ? 65536 : 20000) && number(20000) == 0);
    CHECK(!sets(LIMIT, 20000) && number(20001) == -1);
    CHECK(sets(LIMIT, 19999));
    CHECK(number(20000) == -1 && number(19999) == 1);
    ag_functions_sweep(retire());
}

TEST(a_cache_configuration_that_is_set_again_costs_nothing)
{
    struct ag_setter setter = {
        .handle = mix, .attribute = AG_SETTING_CACHE, .value = CU_FUNC_CACHE_PREFER_L1};
    CHECK(!ag_setter_repeats(&setter, ctx)); /* it is not known */
    CHECK(learnt() != NULL && !ag_setter_repeats(&setter, ctx));
    CHECK(!sets(AG_SETTING_CACHE, CU_FUNC_CACHE_PREFER_L1) && number(0) == 0);
    CHECK(ag_setter_repeats(&setter, ctx));
    setter.value = CU_FUNC_CACHE_PREFER_SHARED;
    CHECK(!ag_setter_repeats(&setter, ctx));
    CHECK(sets(AG_SETTING_CACHE, CU_FUNC_CACHE_PREFER_SHARED));
    CHECK(number(0) == 2 && !ag_setter_repeats(&setter, ctx)); /* the driver may set more with it */
    ag_functions_sweep(retire());
}

TEST(settings_that_change_are_counted)
{
    limit = 49152;
    carveout = -1;
    CHECK(number(3000) == 0);
    CHECK(sets(LIMIT, 2000)); /* an op has had more */
    CHECK(number(1000) == 1 && number(3000) == -1);
    CHECK(!sets(LIMIT, 4000));
    CHECK(number(3000) == 1); /* a limit makes no other op */
    CHECK(!sets(CARVEOUT, 50));
    CHECK(number(1000) == 2);
    CHECK(!sets(CARVEOUT, -1));
    CHECK(number(1000) == 1);
    for (int i = 0; i < AG_MOST_SETTINGS; i++)
        (void)sets(CARVEOUT, i);
    CHECK(number(1000) == -1); /* one too many */
    CHECK(!sets(CARVEOUT, 3));
    CHECK(number(1000) > 1);
    ag_functions_sweep(retire());
}

TEST(limits_are_those_that_are_set)
{
    limit = 49152;
    CHECK(number(1000) == 0 && learnt()->limits.shared == 49152 && learnt()->limits.cluster == 0);
    CHECK(!sets(LIMIT, 60000));
    CHECK(learnt()->limits.shared == 60000);
    (void)sets(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2); /* the driver sets all three */
    CHECK(learnt()->limits.cluster == 0x020202);
    (void)sets(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 0);
    CHECK(learnt()->limits.cluster == 0 && learnt()->limits.shared == 60000);
    ag_functions_sweep(retire());
}

TEST(a_moment_gives_an_op_its_settings)
{
    limit = 49152;
    carveout = -1;
    CHECK(number(3000) == 0);
    CHECK(sets(LIMIT, 2000));
    struct ag_op op = {.layout = &learnt()->layout, .kind = AG_OP_KERNEL};
    op.shape[AG_KERNEL_SHARED] = 1500;
    op.shape[AG_KERNEL_FLAGS] = (uint32_t)number(1500) << AG_KERNEL_SETTING;
    struct ag_moment moment;
    ag_moment_open(&moment, &op, false);
    CHECK(moment.function == NULL && ag_moment_close(&moment));
    CHECK(!sets(CARVEOUT, 75) && !sets(LIMIT, 1024));
    int before = caches_set;
    ag_moment_open(&moment, &op, false);
    CHECK(carveout == -1 && limit == 1500 && caches_set == before);
    CHECK(ag_moment_close(&moment));
    CHECK(ag_setting_errors == 0);
    CHECK(carveout == 75 && limit == 1024 && caches_set == before);
    ag_functions_sweep(retire());
}

/* Whoever wants to set something meanwhile waits, and goes on. */
TEST(a_moment_that_lasts_is_ended)
{
    limit = 49152;
    carveout = -1;
    CHECK(number(3000) == 0 && sets(LIMIT, 2000));
    struct ag_op op = {.layout = &learnt()->layout, .kind = AG_OP_KERNEL};
    op.shape[AG_KERNEL_SHARED] = 1500;
    op.shape[AG_KERNEL_FLAGS] = (uint32_t)number(1500) << AG_KERNEL_SETTING;
    struct ag_moment moment, other;
    CHECK(!sets(CARVEOUT, 75));
    ag_moment_open(&moment, &op, false);
    CHECK(carveout == -1);
    struct ag_setter same = {.handle = mix, .attribute = CARVEOUT, .value = -1};
    CHECK(!ag_setter_repeats(&same, ctx)); /* it is the moment's */
    current = NULL;                        /* as another thread may have it */
    (void)sets(CARVEOUT, 50);
    CHECK(carveout == 50 && current == NULL);
    CHECK(!ag_moment_close(&moment) && carveout == 50);
    current = ctx;
    ag_moment_open(&moment, &op, false);
    ag_moment_open(&other, &op, false);
    CHECK(carveout == -1 && !ag_moment_close(&moment));
    CHECK(carveout == -1 && ag_moment_close(&other) && carveout == 50);
    CHECK(ag_setting_errors == 0);
    ag_functions_sweep(retire());
}

/* Nothing has to be set, but a setter would come in between. */
TEST(a_setter_waits_for_a_moment_that_is_sure)
{
    limit = 49152;
    carveout = -1;
    CHECK(number(3000) == 0 && sets(LIMIT, 2000));
    struct ag_op op = {.layout = &learnt()->layout, .kind = AG_OP_KERNEL};
    op.shape[AG_KERNEL_SHARED] = 1500;
    op.shape[AG_KERNEL_FLAGS] = (uint32_t)number(1500) << AG_KERNEL_SETTING;
    struct ag_moment moment;
    ag_moment_open(&moment, &op, true);
    CHECK(moment.function != NULL && ag_moment_close(&moment));
    ag_moment_open(&moment, &op, true);
    (void)sets(CARVEOUT, 50);
    CHECK(!ag_moment_close(&moment) && carveout == 50);
    ag_functions_sweep(retire());
}
