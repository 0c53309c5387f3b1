/* SPDX-License-Identifier: MIT */
/* The numbers of the policy as constants: see policy.def. */
#ifndef AG_POLICY_H
#define AG_POLICY_H

#include <stdint.h>

/* How long something is left out for: at first, and at most. Each time it is `factor` times as long
   (backoff.h). */
struct ag_growth {
    uint32_t first, factor, most;
};

/* An enum of its own for each, so that one large number does not make all of them long. */
#define AG_POLICY(name, value, unit, why) enum { name = (value) };
#define AG_BACKOFF(name, first, factor, most, unit, why)                                           \
    enum { name##_FIRST = (first) };                                                               \
    static const struct ag_growth name = {first, factor, most};
#include "policy/policy.def"
#undef AG_POLICY
#undef AG_BACKOFF

/* A counter of these bits must hold what it is counted to. */
#define AG_HOLDS(type, member, most)                                                               \
    _Static_assert((most) <= (__typeof__(((type *)0)->member))-1, #member " holds " #most)

#endif
