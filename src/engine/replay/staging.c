/* SPDX-License-Identifier: MIT */
/* Rings of pinned memory, and their places for the bytes of held uploads. */
#include "engine/replay/staging.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "driver/limits.h"
#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/helper.h"
#include "engine/stream/failure.h"
#include "engine/stream/outstanding.h"
#include "graph/node.h"
#include "mutant.h"

enum {
    LINE = 64, /* bytes: places begin at a line of the cache */
    PART = AG_STAGING_PART_KB << 10,
    MOST = AG_STAGING_PARTS / 2 * PART, /* bytes of a sequence: half of the ring, so that the next
                                           one finds places while it runs */
};

_Static_assert(AG_STAGING_PARTS <= 32, "a bit for each part");
_Static_assert((int)AG_UPLOAD_KB <= (int)AG_STAGING_PART_KB, "a place lies in one part");

struct ag_ring {
    struct ag_pinned pinned;
    unsigned part;   /* the part that places are taken from */
    uint32_t used;   /* bytes of that part */
    uint32_t full;   /* bits: parts that no event has been recorded behind yet */
    uint32_t marked; /* bits: parts that have one */
    /* Among the rings that their states have left, under `lock`: */
    struct ag_ring *next;
    unsigned behind; /* the context's `left` by then, if copies from the ring may still run; or 0 */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of ag_context.rings; innermost */

static void clear(struct ag_ring *ring)
{
    ring->part = ring->used = ring->full = ring->marked = 0;
}

static bool is_clear(const struct ag_ring *ring)
{
    return (ring->part | ring->used | ring->full | ring->marked) == 0;
}

/* -- Rings -------------------------------------------------------------------- */

/* One that a state has left, and whose copies have run; or NULL. */
static struct ag_ring *find(struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    struct ag_ring **link = &context->rings, *ring;
    while ((ring = *link) != NULL && !AG_MUTANT(ring_taken_at_once) &&
           !ag_orphans_has_settled(&context->orphans, ring->behind))
        link = &ring->next;
    if (ring != NULL)
        *link = ring->next;
    pthread_mutex_unlock(&lock);
    return ring;
}

static bool reserve(struct ag_context *context, int change)
{
    pthread_mutex_lock(&lock);
    bool able = change < 0 || context->ring_count < AG_STAGINGS;
    if (able)
        context->ring_count += (unsigned)change;
    pthread_mutex_unlock(&lock);
    return able;
}

/* A ring that has never been used; NULL with CUDA_SUCCESS: there are as many as there may be, or no
   memory for it. */
static struct ag_ring *make(struct ag_context *context, CUresult *result)
{
    struct ag_ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL || !reserve(context, 1)) {
        free(ring);
        return NULL;
    }
    *result = ag_helper_pinned(context, &ring->pinned);
    if (*result == CUDA_SUCCESS)
        return ring;
    reserve(context, -1);
    free(ring);
    return NULL;
}

static bool get_ring(struct ag_stream *stream, CUresult *result)
{
    struct ag_staging *staging = &stream->staging;
    if (staging->ring == NULL && (staging->ring = find(stream->id.context)) == NULL)
        staging->ring = make(stream->id.context, result);
    if (staging->ring == NULL && *result != CUDA_ERROR_NOT_READY)
        staging->barred = stream->counters.ops + AG_BAD_OPS.first;
    return staging->ring != NULL;
}

/* Bytes of a place. */
static uint32_t place(size_t bytes)
{
    return (uint32_t)((bytes + LINE - 1) / LINE * LINE);
}

static uint32_t place_of(const struct ag_node *node)
{
    return place(ag_words(&node->op.shape[AG_COPY_BYTES_LOW]));
}

bool ag_staging_prepare(struct ag_stream *stream, struct ag_node *leaf, CUresult *result)
{
    uint32_t bytes = 0;
    for (struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        struct ag_copy_arguments arguments;
        if (!ag_node_is_upload(node) || !ag_node_arguments(node))
            continue;
        bytes += place_of(node);
        if (bytes > MOST || !get_ring(stream, result)) /* other sizes may have come since */
            return false;
        memcpy(&arguments, node->args, sizeof arguments);
        if (arguments.src != 0)
            continue;
        arguments.src = (uint64_t)stream->staging.ring->pinned.memory;
        arguments.src_buffer = stream->staging.ring->pinned.buffer;
        memcpy(node->args, &arguments, sizeof arguments);
        node->version++;
    }
    return true;
}

/* Bytes of places for the uploads of the open sequence. */
static uint32_t *bytes_of(struct ag_stream *stream)
{
    uint64_t began = stream->counters.ops - stream->recorder.cursor->depth;
    if (stream->staging.began != began)
        stream->staging.bytes = 0;
    stream->staging.began = began;
    return &stream->staging.bytes;
}

bool ag_staging_cuts(struct ag_stream *stream, size_t bytes)
{
    return *bytes_of(stream) + place(bytes) > MOST;
}

void ag_staging_count(struct ag_stream *stream, size_t bytes)
{
    *bytes_of(stream) += place(bytes);
}

/* -- Places ------------------------------------------------------------------- */

static bool is_free(struct ag_ring *ring, unsigned part)
{
    if (ring->marked >> part & 1 && ag_query_has_run(ring->pinned.done[part]))
        ring->marked &= ~(1u << part);
    return ((ring->full | ring->marked) >> part & 1) == 0 || AG_MUTANT(place_used_at_once);
}

bool ag_staging_has_room(struct ag_stream *stream, const struct ag_described *call)
{
    size_t bytes = ag_words(&call->op.shape[AG_COPY_BYTES_LOW]);
    struct ag_ring *ring = stream->staging.ring;
    if (ring == NULL)
        return false;
    ag_depth++;
    if (stream->staging.taken == 0 && !is_clear(ring) && !ag_outstanding_in_stream(stream))
        clear(ring);
    bool room =
        ring->used + place(bytes) <= PART || is_free(ring, (ring->part + 1) % AG_STAGING_PARTS);
    ag_depth--;
    return room;
}

void ag_staging_take(struct ag_stream *stream, struct ag_described *call)
{
    struct ag_ring *ring = stream->staging.ring;
    size_t bytes = ag_words(&call->op.shape[AG_COPY_BYTES_LOW]);
    if (ring->used + place(bytes) > PART) {
        ring->full |= 1u << ring->part;
        ring->part = (ring->part + 1) % AG_STAGING_PARTS;
        ring->used = 0;
    }
    unsigned char *to = ring->pinned.memory + (size_t)ring->part * PART + ring->used;
    memcpy(to, call->upload, bytes);
    ring->used += place(bytes);
    stream->staging.taken++;
    call->arguments.copy.src = (uint64_t)(AG_MUTANT(upload_reads_late) ? call->upload : to);
    call->arguments.copy.src_buffer = ring->pinned.buffer;
}

/* Whether an event recorded in the stream holds up nothing else. In the legacy stream it comes
   behind work of other streams; in a queue that streams share, others' work comes behind it. */
static bool may_mark(const struct ag_stream *stream)
{
    return stream->id.kind != AG_STREAM_LEGACY && !atomic_load(&stream->id.context->shares);
}

/* Events take no more places in the stream than a graph has saved: where the program has filled the
   stream a further one would wait. */
void ag_staging_submitted_slow(struct ag_stream *stream, CUstream target, uint32_t less)
{
    struct ag_ring *ring = stream->staging.ring;
    stream->staging.taken = 0;
    if (ring->full == 0 || !may_mark(stream))
        return;
    for (unsigned part = 0; part < AG_STAGING_PARTS && less != 0; part++) {
        if ((ring->full >> part & 1) == 0)
            continue;
        less--;
        CUresult result = ag_real.cuEventRecord(ring->pinned.done[part], target);
        ag_failure_note(stream, result, "marking the end of uploads");
        if (result != CUDA_SUCCESS) /* until the stream is idle */
            return;
        ring->full &= ~(1u << part);
        ring->marked |= 1u << part;
    }
}

/* -- States and contexts that go ------------------------------------------------ */

bool ag_staging_is_used(const struct ag_stream *stream)
{
    return stream->staging.ring != NULL && !is_clear(stream->staging.ring);
}

void ag_staging_leave(struct ag_stream *stream)
{
    struct ag_context *context = stream->id.context;
    struct ag_ring *ring = stream->staging.ring;
    bool used = ag_staging_is_used(stream);
    stream->staging = (struct ag_staging){.ring = NULL};
    if (ring == NULL)
        return;
    pthread_mutex_lock(&lock);
    ring->behind = used ? ag_orphans_mark(&context->orphans) : 0;
    clear(ring);
    ring->next = context->rings;
    context->rings = ring;
    pthread_mutex_unlock(&lock);
}

void ag_staging_forget(struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    while (context->rings != NULL) {
        struct ag_ring *ring = context->rings;
        context->rings = ring->next;
        free(ring);
    }
    context->ring_count = 0;
    pthread_mutex_unlock(&lock);
}
