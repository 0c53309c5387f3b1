/* SPDX-License-Identifier: MIT */
/* How long what is known of a kernel stays valid. */
#include <stdlib.h>

#include "config/config.h"
#include "driver/driver.h"
#include "graph/function.h"
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

struct ag_driver ag_real = {.cuFuncGetParamInfo = parameters};

static const CUcontext ctx = (CUcontext)16;
static const CUfunction mix = (CUfunction)32;

static const struct ag_function *learnt(void)
{
    ag_function_learn(mix, ctx);
    return ag_function_find(mix, ctx);
}

static int is_intact(const struct ag_function *function)
{
    return function->func == mix && function->layout.count == 2 && function->layout.size == 12 &&
           function->layout.field[1].offset == 8;
}

TEST(is_asked_for_anew)
{
    CHECK(is_intact(learnt()));
    uint32_t since = ag_functions_retire();
    CHECK(ag_function_find(mix, ctx) == NULL);
    const struct ag_function *again = learnt();
    ag_functions_sweep(since);
    CHECK(ag_function_find(mix, ctx) == again);
}

/* Streams have been reset for the first of two threads, and go on, but not yet for the second. */
TEST(stays_for_the_thread_that_comes_second)
{
    ag_functions_sweep(ag_functions_retire()); /* nothing is known */
    uint32_t first = ag_functions_retire();
    const struct ag_function *between = learnt();
    uint32_t second = ag_functions_retire();
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
    ag_functions_sweep(ag_functions_retire());
    CHECK(ag_function_copy(mix, ctx) == NULL);
    CHECK(is_intact(copy));
    free(copy);
}
