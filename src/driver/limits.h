/* SPDX-License-Identifier: MIT */
/* What the driver and devices allow, as constants: see limits.def. */
#ifndef AG_LIMITS_H
#define AG_LIMITS_H

#define AG_LIMIT(name, value, unit, why) enum { name = (value) };
#include "driver/limits.def"
#undef AG_LIMIT

#endif
