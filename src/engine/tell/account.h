/* SPDX-License-Identifier: MIT */
/*
 * What the engine keeps for the exit report and the profile beyond its counters, while somebody
 * wants one: what cut sequences, and what each trace was made of. Those that tell are called
 * through AG_ACCOUNT() only.
 *
 * The functions at the end gather the accounts of all streams.
 */
#ifndef AG_ENGINE_ACCOUNT_H
#define AG_ENGINE_ACCOUNT_H

#include "engine/stream/stream.h"
#include "observe/account.h"

/* A trial of the context is over; `lost`: its traces were slower. Told in any case. */
void ag_account_trial(const struct ag_context *context, const struct ag_trial *trial, bool lost);

/* Whether a report or a profile is wanted; constant once CUDA is initialised. */
extern bool ag_accounting;

#define AG_ACCOUNT(call)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(ag_accounting, 0))                                                    \
            call;                                                                                  \
    } while (0)

/* All want the stream's lock. */

/* The stream's sequence ends, for a reason and by the call under way. So many ops of the sequence
   are not replayed for that; `why`: why they were not held (AG_WHY_HELD: they were). */
void ag_account_cut(struct ag_stream *stream, enum ag_reason reason, enum ag_why why, uint64_t ops);

/* The op under way, which can be in no graph, ends the open sequence, if there is one. */
void ag_account_alone(struct ag_stream *stream, enum ag_why why, bool open);

/* The op under way is not held, though its kind can be. */
void ag_account_eager(struct ag_stream *stream, enum ag_why why);

/* A trace was made. */
void ag_account_trace(struct ag_stream *stream, struct ag_trace *trace);

/* The trace has been replayed in the stream, which set the arguments of so many nodes. */
void ag_account_replay(struct ag_stream *stream, const struct ag_trace *trace, uint64_t patches);

/* It is known now why so many of the ops that no graph had were eager. Returns how many of them
   were counted as such. In any case, with the stream's lock. */
static inline uint64_t ag_account_moves(struct ag_stream *stream, enum ag_why why, uint64_t ops)
{
    uint64_t *eager = stream->counters.eager;
    ops = ops < eager[AG_WHY_NOVEL] ? ops : eager[AG_WHY_NOVEL];
    eager[AG_WHY_NOVEL] -= ops;
    eager[why] += ops;
    return ops;
}

/* -- All streams; no lock may be held ------------------------------------------ */

/* Adds up the counters of all streams, living and gone, and counts those that live. Never waits for
   a thread that waits for the GPU: if another thread has a stream's lock, takes the numbers of the
   last look. */
void ag_account_peek(struct ag_counters *sum, uint64_t *streams);

/* What the engine has for the report, to be given back with ag_account_free(). `exact`: takes the
   lock of each stream; streams whose threads wait for the GPU are missing. Else takes none: numbers
   may be some ops apart, and the program is not disturbed. */
void ag_account_gather(struct ag_account *account, bool exact);
void ag_account_free(struct ag_account *account);

#endif
