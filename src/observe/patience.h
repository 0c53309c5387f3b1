/* SPDX-License-Identifier: MIT */
/*
 * Waits that end after some time whatever the program's clock says: a preloaded library may have it
 * stand still, go back or run at another speed. So no clock is asked. The time that was slept is
 * counted, as the kernel's own clock measures it.
 *
 * A wait keeps what it has slept so far, ns, which is 0 when it begins. A sleep that a signal ends
 * does not count, and is followed by a short one.
 */
#ifndef AG_PATIENCE_H
#define AG_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Sleeps for a moment: an eighth of the time that was slept so far, so that a long wait looks less
   often. False: `most` ns have been slept, and there was no further sleep. */
bool ag_patience_lasts(uint64_t *slept, uint64_t most);

/* Likewise; sleeps until the word, a futex, is not `value` any more or the whole time is over. */
bool ag_patience_awaits(uint64_t *slept, uint64_t most, _Atomic uint32_t *word, uint32_t value);

#endif
