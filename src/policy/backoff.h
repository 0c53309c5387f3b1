/* SPDX-License-Identifier: MIT */
/*
 * Back-off: what did not pay is left out for a while, and for longer each further time. No decision
 * is for ever: each back-off has a longest while.
 *
 * Zero is a back-off that has not begun. Two threads that ask one at the same time may count as
 * one.
 */
#ifndef AG_BACKOFF_H
#define AG_BACKOFF_H

#include <stdatomic.h>
#include <stdint.h>

#include "policy/policy.h"

struct ag_backoff {
    _Atomic uint32_t last; /* how long the last while was; 0: there has been none */
};

/* How long the next while is: by a row of policy.def. */
static inline uint32_t ag_backoff_next(struct ag_backoff *backoff, struct ag_growth row)
{
    uint32_t last = atomic_load_explicit(&backoff->last, memory_order_relaxed);
    uint32_t next = last == 0                       ? row.first
                    : last <= row.most / row.factor ? last * row.factor
                                                    : row.most;
    atomic_store_explicit(&backoff->last, next, memory_order_relaxed);
    return next;
}

/* It has paid: the next while is a first one. */
static inline void ag_backoff_reset(struct ag_backoff *backoff)
{
    atomic_store_explicit(&backoff->last, 0, memory_order_relaxed);
}

#endif
