/* SPDX-License-Identifier: MIT */
/* A step of a trace: an op with its graph node, and what the exec has been given. */
#ifndef AG_GRAPH_STEP_H
#define AG_GRAPH_STEP_H

#include "graph/node.h"

struct ag_step {
    struct ag_node *node;
    CUgraphNode graph_node; /* NULL: an edge stands for it, or nobody can ask for it */
    CUfunction func;
    bool early;       /* it need not wait for the end of the step before it */
    bool nodeless;    /* it needs no node */
    uint8_t record;   /* of a record: the place, plus 1, of the record before; 0: it is the first */
    uint8_t own;      /* of a record for which nobody can ask: the number, plus 1, of the library's
                         event that its node records instead of the program's; else 0 */
    uint32_t version; /* the node's `version` whose arguments the exec has */
    uint32_t source_version;        /* the node's `version` whose arguments the source graph has */
    unsigned char *args;            /* the arguments that the exec has */
    uint32_t shape[AG_SHAPE_WORDS]; /* of the op that the exec has */
};

/* Whether the exec has the arguments of the op as it was held last. */
static inline bool ag_step_is_current(struct ag_step *step)
{
    const struct ag_node *node = step->node;
    if (step->version == node->version || step->graph_node == NULL)
        return true;
    if (memcmp(step->args, node->args, node->op.layout->size) != 0 ||
        memcmp(step->shape, node->op.shape, sizeof step->shape) != 0)
        return false;
    step->version = node->version;
    return true;
}

#endif
