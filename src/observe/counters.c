/* SPDX-License-Identifier: MIT */
/* Names of the reasons for flushes and refusals. */
#include "observe/counters.h"

const char *const ag_reason_names[AG_REASON_COUNT] = {
#define AG_REASON(id, word, help) [AG_REASON_##id] = word,
#include "observe/reasons.def"
};

const char *const ag_why_names[AG_WHY_COUNT] = {
#define AG_WHY(id, word, help) [AG_WHY_##id] = word,
#include "observe/reasons.def"
};

const char *const ag_refusal_names[AG_REFUSAL_COUNT] = {
#define X(name) name,
    AG_REFUSALS(X)
#undef X
};
