/* SPDX-License-Identifier: MIT */
/*
 * The tree of one stream: every sequence of ops that it had, sharing prefixes. The nodes below the
 * root are the heads, with which sequences begin. A node is an op in its place; the path from the
 * root to a node is a sequence, and the node may carry a trace, that is a graph of that whole path.
 *
 * Memory is bounded: when `limit` nodes are in use, those that lead to no trace are dropped.
 * Nothing here is thread-safe: the owner's lock (the stream's) guards it all.
 */
#ifndef AG_TREE_H
#define AG_TREE_H

#include "trace/known.h"

struct ag_trace; /* the owner's; see ag_node.trace */

enum { AG_BLACKLISTED = 1, AG_BLACKLISTED_SHAPE = 2 };

struct ag_node {
    struct ag_op
        op; /* with the free words of the last call here; op.extra is the node's own copy */
    struct ag_node *parent;
    struct ag_node *next; /* the child that was taken last, or NULL: the prediction */
    struct ag_trace *trace;
    uint32_t below; /* traces in the subtree under this node */
    uint32_t
        starved;     /* the stream's `starved` when this hot leaf last found no exec; the owner's */
    uint64_t path;   /* hash of the ops on the path from the root to here */
    uint16_t depth;  /* ops on that path; 0 for the root */
    uint16_t weight; /* the sum of their ag_op_weight() */
    uint8_t blacklisted; /* its call has failed: no trace may contain it for now.
                    AG_BLACKLISTED_SHAPE: because of its shape */
    bool taken;       /* the driver has taken an eager call with its present shape; the owner's */
    bool apart;       /* its records of one event are not always of one event; the owner's */
    bool came;        /* its known sequence has come, and was to get a trace; the recorder's */
    uint8_t failures; /* times that no graph could be made of the path to here; the owner's */
    uint8_t unmade;   /* why no graph could be made (enum ag_why); 0: nobody tried; the owner's */
    uint16_t overdue; /* how often what is held up to here is late, in points; the recorder's */

    /* The arguments of the last time this op was held here; set up by ag_node_arguments(). */
    unsigned char *args;
    void **params;    /* one pointer into args for each field of the layout */
    uint32_t version; /* goes up when args change */

    uint64_t then; /* where there is a trace: the path of the sequence that came behind it */
    uint32_t ends; /* sequences that ended here since the last look, or times in a row of `then` */
    uint16_t ways; /* sequences through here that ended where none had, and led to no trace */

    const struct ag_known *known; /* its place on the way of known sequences; NULL: there is none */

    struct ag_node *bucket; /* next in the same bucket, or in the free list */
};

enum { AG_SLABS = 24 }; /* enough for the most that trace.memory may be */

struct ag_tree {
    struct ag_node root;
    struct ag_node **buckets;
    struct ag_node *slabs[AG_SLABS];
    struct ag_node *fresh; /* the end of the newest slab: nodes that were never used */
    struct ag_node *free;  /* nodes that were */
    uint32_t limit;        /* nodes at most */
    uint32_t used;         /* nodes in the tree */
    uint32_t fresh_count;  /* nodes that were never used */
    uint32_t mask;         /* of the bucket array */
    uint64_t *met;         /* bits: hashes of the paths that have been met; NULL: none */
};

/* A tree that is all zero, or has been cleared. False: no memory. `limit` is in nodes. */
bool ag_tree_init(struct ag_tree *tree, uint32_t limit);

/* Drops every node; the caller has taken the traces away before. Memory for a few of them is kept
   for the next ag_tree_init(): programs make and destroy streams all the time. */
void ag_tree_clear(struct ag_tree *tree);

/* The same, and drops all memory. */
void ag_tree_free(struct ag_tree *tree);

/* The child of `node` with this structure, or NULL. */
struct ag_node *ag_tree_find(struct ag_tree *tree, struct ag_node *node, const struct ag_op *op);

/* The same for a hash, which says what the op is. */
struct ag_node *ag_tree_find_hash(struct ag_tree *tree, struct ag_node *node, uint64_t structure);

/* The place that the child for an op has, or would have, on the way of known sequences; NULL: none.
 */
static inline const struct ag_known *ag_node_leads_to(const struct ag_node *node,
                                                      const struct ag_op *op)
{
    if (__builtin_expect(!ag_known_any, 1) || (node->known == NULL && node->depth != 0))
        return NULL;
    return ag_known_next(node->known, op);
}

/* Adds such a child; NULL when the tree is full or memory has run out. */
struct ag_node *ag_tree_add(struct ag_tree *tree, struct ag_node *node, const struct ag_op *op);

/* The hash of the path that goes on with an op, or ends (0) behind another. */
static inline uint64_t ag_path(uint64_t before, uint64_t structure)
{
    return ag_hash(before, &structure, sizeof structure);
}

/* Whether this path has been met before; marks it as met. The answer "yes" may be wrong: by chance
   for one path in eight once 16,384 have been met, and always without memory. Pruning forgets all
   paths. */
bool ag_tree_met(struct ag_tree *tree, uint64_t path);

/* A question about a node. Two calls with one `data` must get one answer. */
typedef bool ag_is_such(const struct ag_node *node, const void *data);

/* Whether `such` is true of any node. */
bool ag_tree_has(const struct ag_tree *tree, ag_is_such *such, const void *data);

/* The marks of the ops that begin sequences with a trace. */
uint64_t ag_tree_heads(const struct ag_tree *tree);

/* Drops all nodes that neither carry nor lead to a trace. Pointers to those become invalid. */
void ag_tree_prune(struct ag_tree *tree);

/* Drops the nodes of which `such` is true, and all below them; there must be no traces there. */
void ag_tree_drop(struct ag_tree *tree, ag_is_such *such, const void *data);

/* The first node of the sequence that ends here. */
static inline const struct ag_node *ag_node_head(const struct ag_node *leaf)
{
    while (leaf->depth > 1)
        leaf = leaf->parent;
    return leaf;
}

/* Whether the node carries a trace or leads to one. */
static inline bool ag_node_leads(const struct ag_node *node)
{
    return node->trace != NULL || node->below != 0;
}

/* Whether a trace of the path to this node may be made: no call of it has failed of late. */
static inline bool ag_node_is_good(const struct ag_node *node)
{
    while (node->parent != NULL && node->blacklisted == 0)
        node = node->parent;
    return node->parent == NULL;
}

/* No node is AG_BLACKLISTED any more. */
void ag_tree_forgive(struct ag_tree *tree);

/* Gives or takes a node's trace (NULL), keeping the counts of the nodes above. */
void ag_node_set_trace(struct ag_node *node, struct ag_trace *trace);

/* Makes room for the node's arguments. False: no memory. */
bool ag_node_arguments(struct ag_node *node);

/* Takes the free words of a call's shape into the node. A difference, which it returns, raises the
   version. */
static inline bool ag_node_reshape(struct ag_node *node, const struct ag_op *op)
{
    if (memcmp(node->op.shape, op->shape, sizeof op->shape) == 0)
        return false;
    memcpy(node->op.shape, op->shape, sizeof op->shape);
    node->op.token = op->token;
    node->taken = false;
    node->blacklisted &= (uint8_t)~AG_BLACKLISTED_SHAPE;
    node->version++;
    return true;
}

/*
 * Takes the arguments of a call into the node, from pointers to each. What is equal is not
 * written; a difference raises the version.
 */
static inline void ag_node_store(struct ag_node *node, void *const *from)
{
    const struct ag_layout *layout = node->op.layout;
    for (uint32_t i = 0; i < layout->count; i++) {
        unsigned char *to = node->args + layout->field[i].offset;
        switch (layout->field[i].size) {
        case 8:
            if (memcmp(to, from[i], 8) != 0) {
                node->version++; /* first: a fault may come in any of these reads */
                memcpy(to, from[i], 8);
            }
            break;
        case 4:
            if (memcmp(to, from[i], 4) != 0) {
                node->version++;
                memcpy(to, from[i], 4);
            }
            break;
        default:
            if (memcmp(to, from[i], layout->field[i].size) != 0) {
                node->version++;
                memcpy(to, from[i], layout->field[i].size);
            }
        }
    }
}

#endif
