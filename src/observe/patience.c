/* SPDX-License-Identifier: MIT */
/* Waits that end without a clock: see patience.h. */
#include "observe/patience.h"

#include "observe/futex.h"

enum { LOOK_NS = 20000 }; /* the shortest sleep: what others do takes as long */
enum { PART = 8 };        /* of the time that was slept: the next sleep is one */
enum { NS_PER_S = 1000000000 };

/* How long a sleep took, if it came to its end. */
static uint64_t nap(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    enum ag_woken woken = ag_futex(word, FUTEX_WAIT_PRIVATE, value, &time);
    if (woken == AG_WOKEN_BY_SIGNAL && ns > LOOK_NS)
        return nap(word, value, LOOK_NS);
    return woken == AG_WOKEN_BY_TIME ? ns : 0;
}

bool ag_patience_lasts(uint64_t *slept, uint64_t most)
{
    _Atomic uint32_t nobody = 0;
    uint64_t ns = *slept / PART;
    if (*slept >= most)
        return false;
    *slept += nap(&nobody, 0, ns > LOOK_NS ? ns : LOOK_NS);
    return true;
}

bool ag_patience_awaits(uint64_t *slept, uint64_t most, _Atomic uint32_t *word, uint32_t value)
{
    if (*slept >= most)
        return false;
    *slept += nap(word, value, most - *slept);
    return true;
}
