/* SPDX-License-Identifier: MIT */
/*
 * Known sequences: those that an earlier run of the program has replayed, as its profile says.
 *
 * A key is what an op is in every process: its kind, the name of its kernel, the number of bytes of
 * its arguments. No address is in it. Known sequences that begin alike share a way, like those of
 * the tree. Each node of the tree whose path is on such a way refers to its place there.
 *
 * To be known makes a sequence hot the first time that it ends, and nothing else. What its trace is
 * made of are the ops that have come. So a wrong profile costs graphs that nobody launches.
 *
 * The table is filled before there is a first stream. Then only `met` changes.
 */
#ifndef AG_KNOWN_H
#define AG_KNOWN_H

#include <stdatomic.h>

#include "trace/op.h"

/* A place on the way of known sequences. */
struct ag_known {
    uint64_t way;  /* hash of the keys up to here; 0: the place is free */
    uint16_t make; /* ops of the trace that is made here: the ops up to here, or more equal rounds
                      of them; 0: none is */
    uint16_t most; /* ops of the longest known sequence that comes by here */
    bool ends;     /* a known sequence ends here */
    bool goes_on;  /* so does one that goes on behind, and whose replays had more ops */
    bool lost;     /* the sequence that ends here was faster without graphs */
    _Atomic bool met; /* it has come in this run */
};

/* There are known sequences. Constant once there is a stream. */
extern bool ag_known_any;

/* The key of an op; 0: it has none, since its kernel has no name. */
uint64_t ag_known_key(const struct ag_op *op);

/* Makes room for known sequences of so many ops in all, and forgets others. False: no memory. */
bool ag_known_begin(uint32_t ops);

/* A sequence is known; more important ones, whose replays had more ops, come first. `lost`: it was
   faster without graphs. Returns its end; NULL: there is no room. */
const struct ag_known *ag_known_add(const uint64_t *keys, uint32_t length, bool lost);

/* The place of the op behind another place (NULL: at a head). NULL: no known sequence has it. */
const struct ag_known *ag_known_next(const struct ag_known *before, const struct ag_op *op);

/* The known sequence has come. */
static inline void ag_known_meet(const struct ag_known *known)
{
    atomic_store_explicit(&((struct ag_known *)known)->met, true, memory_order_relaxed);
}

#endif
