/* SPDX-License-Identifier: MIT */
/* Events that the program has destroyed and graphs may still name. */
#include "engine/replay/limbo.h"

#include <pthread.h>

#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/stream/helper.h"

enum { MOST = 256 };

struct destroyed {
    CUevent event;
    struct ag_context *context;
    bool held;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */
static struct destroyed destroyed[MOST];                 /* under the lock */
static _Atomic unsigned count;                           /* of them; writes under the lock */

static bool add(const struct destroyed *one)
{
    pthread_mutex_lock(&lock);
    bool room = count < MOST;
    if (room)
        destroyed[count++] = *one;
    pthread_mutex_unlock(&lock);
    return room;
}

bool ag_limbo_add(CUevent event, struct ag_context *context, bool held)
{
    return add(&(struct destroyed){event, context, held});
}

bool ag_limbo_submitted(CUevent event)
{
    bool here = false;
    if (count == 0)
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && !here; i++)
        if ((here = destroyed[i].event == event))
            destroyed[i].held = false;
    pthread_mutex_unlock(&lock);
    return here;
}

/* Takes the last one out that is not held, of the first `*left`, which become fewer. */
static bool take(unsigned *left, struct destroyed *one)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    *left = *left < count ? *left : count;
    while (!found && *left > 0) {
        *one = destroyed[--*left];
        if ((found = !one->held))
            destroyed[*left] = destroyed[--count];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Whether no graph names the event any more. */
static bool is_free(const struct destroyed *one)
{
    bool all = true;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (__atomic_load_n(&stream->id.context, __ATOMIC_RELAXED) == one->context)
            all &= ag_execs_forget_event(stream, one->event);
    return all;
}

void ag_limbo_settle(void)
{
    struct destroyed one;
    unsigned left = count;
    while (left != 0 && take(&left, &one)) {
        if (!is_free(&one)) {
            (void)add(&one); /* its place is free */
            continue;
        }
        ag_depth++;
        if (ag_helper_destroy_event(one.context, one.event) != CUDA_SUCCESS)
            atomic_fetch_add(&ag_context_errors, 1);
        ag_depth--;
    }
}

void ag_limbo_forget(const struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = count; i-- > 0;)
        if (destroyed[i].context == context)
            destroyed[i] = destroyed[--count];
    pthread_mutex_unlock(&lock);
}
