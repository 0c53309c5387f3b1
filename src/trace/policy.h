/* SPDX-License-Identifier: MIT */
/* The numbers of the policy as constants: see policy.def. */
#ifndef AG_POLICY_H
#define AG_POLICY_H

#define AG_POLICY(name, value, unit, why) name = (value),
enum {
#include "trace/policy.def"
};
#undef AG_POLICY

#endif
