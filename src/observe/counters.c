/* SPDX-License-Identifier: MIT */
/* Names of the reasons for flushes and refusals. */
#include "observe/counters.h"

const char *const ag_reason_names[AG_REASON_COUNT] = {
#define X(id, name, help) [AG_REASON_##id] = name,
    AG_REASONS(X)
#undef X
};

const char *const ag_refusal_names[AG_REFUSAL_COUNT] = {
#define X(name) name,
    AG_REFUSALS(X)
#undef X
};
