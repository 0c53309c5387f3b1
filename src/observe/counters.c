/* SPDX-License-Identifier: MIT */
/* Names of the flush reasons. */
#include "observe/counters.h"

const char *const ag_reason_names[AG_REASON_COUNT] = {
#define X(id, name, help) [AG_REASON_##id] = name,
    AG_REASONS(X)
#undef X
};
