/* SPDX-License-Identifier: MIT */
/*
 * Variants: traces of the same ops, whose execs have other arguments.
 *
 * To set the arguments of a graph's nodes costs more than to launch the graph. The same arguments
 * may come back at a fixed distance: pointers swap, or an iteration is cut into pieces of the same
 * kernels. Then there is a trace for each set of arguments, which is launched as it is.
 *
 * The variants of a leaf are a ring; the leaf carries the one that was replayed last. All functions
 * want the lock of the stream that they belong to.
 */
#ifndef AG_GRAPH_VARIANT_H
#define AG_GRAPH_VARIANT_H

#include "graph/trace.h"

/* The trace of the ring whose exec has the present arguments. If there is none, the trace that was
   used longest ago: the right one where arguments come back in turn. */
struct ag_trace *ag_variant_choose(struct ag_trace *trace);

/* The trace is about to get other arguments for `changed` of its nodes. */
void ag_variant_observe(struct ag_trace *trace, uint32_t changed);

/* Whether one more trace of these ops would save setting arguments. */
bool ag_variant_wanted(const struct ag_trace *trace);

/* Puts a new trace of the same leaf behind `trace`. */
void ag_variant_join(struct ag_trace *trace, struct ag_trace *fresh);

/* One more trace could not be made: it is wanted again once arguments have come back anew. */
void ag_variant_refused(struct ag_trace *trace);

/* Takes a trace from its ring. Returns a trace that is left in the ring, or NULL. */
struct ag_trace *ag_variant_leave(struct ag_trace *trace);

#endif
