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

/* How long one thread waits for another, ns. The other thread may wait until its stream takes more
   work, and the stream may take no more before the caller goes on. What the thread has not
   submitted by then, it could not have launched without the library either. */
enum {
    /* A call waits so long for a thread that submits, if the call can do without; for a call of
       helper.c, which takes 20 to 300 us; and a report for a stream's lock. */
    AG_PATIENCE_NS = 20000000,
    /* A capture waits so long for who makes a graph, a thread that is alone for its own, and a
       thread for a flush that it has asked for. */
    AG_PATIENCE_LONG_NS = 1000000000
};

/* Sleeps for a moment: an eighth of the time that was slept so far, so that a long wait looks less
   often. False: `most` ns have been slept, and there was no further sleep. */
bool ag_patience_lasts(uint64_t *slept, uint64_t most);

/* Likewise; sleeps until the word, a futex, is not `value` any more or the whole time is over. */
bool ag_patience_awaits(uint64_t *slept, uint64_t most, _Atomic uint32_t *word, uint32_t value);

#endif
