/* SPDX-License-Identifier: MIT */
/*
 * Which shapes of launches the driver cannot refuse: grid, block and bytes of dynamic shared memory
 * of a launch without attributes.
 *
 * The driver is asked when a function is learnt. It does not tell whether the function's text fixes
 * the block (PTX ISA, ".reqntid"): for a block of 64 it says 1024 threads, and refuses every other
 * block (H100, driver 580). So nothing fits before the first launch, and until the driver has taken
 * two different blocks only the one that it has taken fits.
 *
 * Local memory is a second reason to wait for the first launch. An exec's node that is given a
 * function with local memory earlier waits for running kernels (H100, driver 580).
 */
#ifndef AG_GRAPH_SHAPE_H
#define AG_GRAPH_SHAPE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ag_limits {
    uint32_t grid[3], block[3]; /* of the device, along each dimension */
    uint32_t threads; /* of a block: the function's, which accounts for registers; 0: not known,
                         and nothing fits */
    /* These change while others read them. */
    _Atomic uint32_t shared;   /* bytes of dynamic shared memory that a launch may ask for now */
    _Atomic uint32_t cluster;  /* that each launch has now, packed; 0: none */
    _Atomic uint32_t wanted;   /* 1 above the bytes of dynamic shared memory that any op has had, or
                                  a few more; 0: there was no op */
    _Atomic uint64_t launched; /* the block of the function's launches, packed; 0: there was none */
};

/*
 * Asks the driver for the limits of a function, whose context must be current. Costs 13 questions
 * to cuCtxGetDevice, cuDeviceGetAttribute and cuFuncGetAttribute. These read only, and are for no
 * stream: a capture goes on. The last may load the function (see ag_function_learn()). False: the
 * driver does not tell how much shared memory a launch may have.
 */
bool ag_limits_ask(struct ag_limits *limits, CUfunction func);

/* Asks again for what the program may have set. Without an answer no dynamic shared memory fits. An
   older driver does not know of clusters, and there are none. */
bool ag_limits_ask_shared(struct ag_limits *limits, CUfunction func);
void ag_limits_ask_cluster(struct ag_limits *limits, CUfunction func);

/* An op comes with so much dynamic shared memory; more than INT32_MAX is refused. To be told before
   the limits are looked at: who changes them looks at this behind the change. Of `limits` only an
   atomic word changes. */
void ag_limits_grow(const struct ag_limits *limits, uint32_t shared);

/* Whether that has been told. */
static inline bool ag_limits_know(const struct ag_limits *limits, uint32_t shared)
{
    return __builtin_expect(atomic_load_explicit(&limits->wanted, memory_order_relaxed) > shared,
                            1);
}

/* Whether some op may refer to the function. */
static inline bool ag_limits_wanted(const struct ag_limits *limits)
{
    return atomic_load(&limits->wanted) != 0;
}

/* The driver has taken a launch with this block. Of `limits`, which are the table's of functions,
   only an atomic word changes. */
void ag_limits_launched(const struct ag_limits *limits, const uint32_t block[3]);

/* Whether the driver takes any launch of this shape. */
bool ag_shape_fits(const struct ag_limits *limits, const uint32_t grid[3], const uint32_t block[3],
                   uint32_t shared);

#endif
