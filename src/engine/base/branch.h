/* SPDX-License-Identifier: MIT */
/* Hints for the few paths that each op takes. */
#ifndef AG_BRANCH_H
#define AG_BRANCH_H

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Of what each held op goes through: as calls these were 19 of a launch's 352 instructions. */
#define INLINE inline __attribute__((always_inline))

#endif
