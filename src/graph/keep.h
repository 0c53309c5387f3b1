/* SPDX-License-Identifier: MIT */
/*
 * Keeping the arguments of held kernels whose parameter layout is not known. The driver knows the
 * layout: it copies the arguments into nodes of a graph that is never launched. There is one node
 * for each place in a sequence, and the next sequence uses it again.
 *
 * The stream's lock guards it; the stream's context must be current.
 */
#ifndef AG_GRAPH_KEEP_H
#define AG_GRAPH_KEEP_H

#include <cuda.h>

#include "config/config.h"
#include "trace/tree.h"

struct ag_keep {
    CUgraph graph;
    CUgraphNode place[AG_MOST_LENGTH + 1]; /* by depth */
};

/*
 * Takes the arguments of a launch at the kernel `node`, from the caller's pointers (NULL: the
 * kernel has none). They are valid until arguments are taken for another node of this depth. On an
 * error the node has no arguments.
 */
CUresult ag_keep_store(struct ag_keep *keep, struct ag_node *node, void *const *params);

/* Frees everything; what nodes have is not valid any more. */
CUresult ag_keep_free(struct ag_keep *keep);

#endif
