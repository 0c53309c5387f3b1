/* SPDX-License-Identifier: MIT */
/* The tree of traces: nodes in slabs, children found through one hash table. */
#include "trace/tree.h"

#include <stdlib.h>

/* Most streams see few ops: the tree starts small, and each slab doubles the number of nodes. */
enum { FIRST_NODES = 32, FIRST_BUCKETS = 64 };

/* Bits for paths that have been met: eight for each node that a tree has by default. */
enum { MET_BITS = 1 << 17 };

static struct ag_node **bucket_of(struct ag_tree *tree, const struct ag_node *parent,
                                  uint64_t token)
{
    uint64_t hash = (token ^ ((uintptr_t)parent >> 4)) * 0x9e3779b97f4a7c15u;
    return &tree->buckets[(hash >> 32) & tree->mask];
}

bool ag_tree_init(struct ag_tree *tree, uint32_t limit)
{
    size_t bytes = FIRST_BUCKETS * sizeof *tree->buckets;
    tree->limit = limit;
    tree->mask = FIRST_BUCKETS - 1;
    tree->fresh = tree->slabs[0];
    tree->fresh_count = tree->slabs[0] != NULL ? FIRST_NODES : 0;
    if (tree->buckets != NULL)
        memset(tree->buckets, 0, bytes);
    else
        tree->buckets = calloc(1, bytes);
    return tree->buckets != NULL;
}

/* Twice the buckets; nothing happens without memory for them. */
static void more_buckets(struct ag_tree *tree)
{
    uint32_t count = tree->mask + 1;
    struct ag_node **old = tree->buckets, **new = calloc(2 * (size_t)count, sizeof *new);
    if (new == NULL)
        return;
    tree->buckets = new;
    tree->mask = 2 * count - 1;
    for (uint32_t i = 0; i < count; i++)
        for (struct ag_node *node = old[i], *next; node != NULL; node = next) {
            next = node->bucket;
            struct ag_node **bucket = bucket_of(tree, node->parent, node->op.structure);
            node->bucket = *bucket;
            *bucket = node;
        }
    free(old);
}

static void node_release(struct ag_node *node)
{
    free((void *)node->op.extra);
    free(node->args);
    free(node->params);
    node->op.extra = NULL;
    node->args = NULL;
    node->params = NULL;
}

static uint32_t slab_size(unsigned i)
{
    return i == 0 ? FIRST_NODES : (uint32_t)FIRST_NODES << (i - 1);
}

void ag_tree_clear(struct ag_tree *tree)
{
    struct ag_tree kept = {0};
    /* By slabs, since a stream that is destroyed soon has fewer nodes than buckets. */
    for (unsigned i = 0; i < AG_SLABS && tree->slabs[i] != NULL; i++) {
        struct ag_node *end = tree->slabs[i] + slab_size(i);
        if (end == tree->fresh + tree->fresh_count)
            end = tree->fresh;
        for (struct ag_node *node = tree->slabs[i]; node != end; node++)
            node_release(node);
        if (i == 0)
            kept.slabs[0] = tree->slabs[0];
        else
            free(tree->slabs[i]);
    }
    if (tree->mask == FIRST_BUCKETS - 1)
        kept.buckets = tree->buckets;
    else
        free(tree->buckets);
    free(tree->met);
    *tree = kept;
}

void ag_tree_free(struct ag_tree *tree)
{
    ag_tree_clear(tree);
    free(tree->slabs[0]);
    free(tree->buckets); /* NOLINT(clang-analyzer-unix.Malloc): what was freed before is not here */
    memset(tree, 0, sizeof *tree);
}

struct ag_node *ag_tree_find(struct ag_tree *tree, struct ag_node *parent, const struct ag_op *op)
{
    struct ag_node *node = *bucket_of(tree, parent, op->structure);
    while (node != NULL && !(node->parent == parent && ag_op_is_like(&node->op, op)))
        node = node->bucket;
    return node;
}

struct ag_node *ag_tree_find_hash(struct ag_tree *tree, struct ag_node *parent, uint64_t structure)
{
    struct ag_node *node = *bucket_of(tree, parent, structure);
    while (node != NULL && !(node->parent == parent && node->op.structure == structure))
        node = node->bucket;
    return node;
}

static struct ag_node *node_take(struct ag_tree *tree)
{
    struct ag_node *node = tree->free;
    if (node != NULL) {
        tree->free = node->bucket;
        return node;
    }
    if (tree->fresh_count == 0) {
        unsigned i = 0;
        while (tree->slabs[i] != NULL)
            i++;
        uint32_t size = slab_size(i);
        tree->slabs[i] = malloc(size * sizeof *node);
        if (tree->slabs[i] == NULL)
            return NULL;
        tree->fresh = tree->slabs[i];
        tree->fresh_count = size;
    }
    tree->fresh_count--;
    return tree->fresh++;
}

struct ag_node *ag_tree_add(struct ag_tree *tree, struct ag_node *parent, const struct ag_op *op)
{
    if (tree->used == tree->limit)
        return NULL;
    void *extra = NULL;
    if (op->extra_size != 0) {
        extra = malloc(op->extra_size);
        if (extra == NULL)
            return NULL;
        memcpy(extra, op->extra, op->extra_size);
    }
    struct ag_node *node = node_take(tree);
    if (node == NULL) {
        free(extra);
        return NULL;
    }
    memset(node, 0, sizeof *node);
    node->op = *op;
    node->op.extra = extra;
    node->parent = parent;
    node->path = ag_path(parent->path, op->structure);
    node->depth = parent->depth + 1;
    node->weight = (uint16_t)(parent->weight + ag_op_weight(op));
    node->known = ag_node_leads_to(parent, op);
    if (tree->used > tree->mask)
        more_buckets(tree);
    struct ag_node **bucket = bucket_of(tree, parent, op->structure);
    node->bucket = *bucket;
    *bucket = node;
    tree->used++;
    return node;
}

bool ag_tree_met(struct ag_tree *tree, uint64_t path)
{
    if (tree->met == NULL && (tree->met = calloc(MET_BITS / 64, sizeof *tree->met)) == NULL)
        return true;
    uint64_t *word = &tree->met[path / 64 % (MET_BITS / 64)], bit = (uint64_t)1 << path % 64;
    bool met = (*word & bit) != 0;
    *word |= bit;
    return met;
}

bool ag_tree_has(const struct ag_tree *tree, ag_is_such *such, const void *data)
{
    for (uint32_t i = 0; tree->used != 0 && i <= tree->mask; i++)
        for (const struct ag_node *node = tree->buckets[i]; node != NULL; node = node->bucket)
            if (such(node, data))
                return true;
    return false;
}

uint64_t ag_tree_heads(const struct ag_tree *tree)
{
    uint64_t heads = 0;
    if (tree->root.below == 0)
        return 0;
    for (uint32_t i = 0; i <= tree->mask; i++)
        for (const struct ag_node *node = tree->buckets[i]; node != NULL; node = node->bucket)
            if (node->depth == 1 && ag_node_leads(node))
                heads |= ag_op_mark(&node->op);
    return heads;
}

void ag_tree_forgive(struct ag_tree *tree)
{
    for (uint32_t i = 0; i <= tree->mask; i++)
        for (struct ag_node *node = tree->buckets[i]; node != NULL; node = node->bucket)
            node->blacklisted &= (uint8_t)~AG_BLACKLISTED;
}

/* Drops the nodes that are dead, and so is all below them. */
static void drop(struct ag_tree *tree, ag_is_such *is_dead, const void *data)
{
    struct ag_node *dead = NULL;
    for (uint32_t i = 0; i <= tree->mask; i++)
        for (struct ag_node **link = &tree->buckets[i], *node; (node = *link) != NULL;) {
            if (!is_dead(node, data)) {
                link = &node->bucket;
                continue;
            }
            *link = node->bucket;
            node->bucket = dead;
            dead = node;
        }
    /* A dead node's parent may live and predict it; its memory stays valid until reused. */
    for (struct ag_node *node = dead; node != NULL; node = node->bucket)
        if (node->parent->next == node)
            node->parent->next = NULL;
    while (dead != NULL) {
        struct ag_node *node = dead;
        dead = node->bucket;
        node_release(node);
        node->bucket = tree->free;
        tree->free = node;
        tree->used--;
    }
}

static bool leads_nowhere(const struct ag_node *node, const void *data)
{
    (void)data;
    return !ag_node_leads(node);
}

void ag_tree_prune(struct ag_tree *tree)
{
    if (tree->met != NULL)
        memset(tree->met, 0, MET_BITS / 8);
    drop(tree, leads_nowhere, NULL);
}

struct question {
    ag_is_such *such;
    const void *data;
};

static bool comes_behind(const struct ag_node *node, const void *data)
{
    const struct question *question = data;
    while (node->parent != NULL && !question->such(node, question->data))
        node = node->parent;
    return node->parent != NULL;
}

void ag_tree_drop(struct ag_tree *tree, ag_is_such *such, const void *data)
{
    drop(tree, comes_behind, &(struct question){such, data});
}

void ag_node_set_trace(struct ag_node *node, struct ag_trace *trace)
{
    int change = (trace != NULL) - (node->trace != NULL);
    node->trace = trace;
    for (struct ag_node *above = node->parent; above != NULL; above = above->parent)
        above->below += (uint32_t)change;
}

bool ag_node_arguments(struct ag_node *node)
{
    const struct ag_layout *layout = node->op.layout;
    if (node->params != NULL)
        return true;
    node->args = calloc(1, layout->size + 1);
    node->params = calloc(layout->count + 1, sizeof *node->params);
    if (node->args == NULL || node->params == NULL) {
        free(node->args);
        free(node->params);
        node->args = NULL;
        node->params = NULL;
        return false;
    }
    for (uint32_t i = 0; i < layout->count; i++)
        node->params[i] = node->args + layout->field[i].offset;
    return true;
}
