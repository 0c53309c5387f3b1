/* SPDX-License-Identifier: MIT */
/* The numbers of the policy as constants: see policy.def. */
#ifndef AG_POLICY_H
#define AG_POLICY_H

/* An enum of its own for each, so that one large number does not make all of them long. */
#define AG_POLICY(name, value, unit, why) enum { name = (value) };
#include "trace/policy.def"
#undef AG_POLICY

#endif
