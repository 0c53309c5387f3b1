/* SPDX-License-Identifier: MIT */
/*
 * Keeping the arguments of held kernels whose parameter layout is not known: the driver, which
 * knows it, copies them into the nodes of a graph that is never launched. One node for each place
 * in a sequence, used again by the next one.
 *
 * The stream's lock guards it; the stream's context must be current.
 */
#ifndef AG_GRAPH_KEEP_H
#define AG_GRAPH_KEEP_H

#include <cuda.h>

#include "trace/tree.h"

struct ag_keep {
    CUgraph graph;
    CUgraphNode place[128 + 1]; /* by depth */
};

/*
 * Takes the arguments of a launch at the kernel `node`, from the caller's pointers (NULL: none).
 * They are valid until the next ones at the same depth are taken. On an error the node has none.
 */
CUresult ag_keep_store(struct ag_keep *keep, struct ag_node *node, void *const *params);

/* Frees everything; what nodes have is not valid any more. */
CUresult ag_keep_free(struct ag_keep *keep);

#endif
