/* SPDX-License-Identifier: MIT */
/* Events that the program has destroyed and graphs may still name. */
#include "engine/replay/limbo.h"

#include <pthread.h>

#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/stream/aside.h"

enum { MOST = 256 };

struct late {
    CUevent event;
    struct ag_context *context;
    bool held;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */
static struct late late[MOST];                           /* under the lock */
static _Atomic unsigned count;                           /* of them; writes under the lock */

static bool add(const struct late *one)
{
    pthread_mutex_lock(&lock);
    bool room = count < MOST;
    if (room)
        late[count++] = *one;
    pthread_mutex_unlock(&lock);
    return room;
}

bool ag_limbo_add(CUevent event, struct ag_context *context, bool held)
{
    return add(&(struct late){event, context, held});
}

bool ag_limbo_submitted(CUevent event)
{
    bool here = false;
    if (count == 0)
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && !here; i++)
        if ((here = late[i].event == event))
            late[i].held = false;
    pthread_mutex_unlock(&lock);
    return here;
}

/* Takes the last one out that is not held, of the first `*left`, which become fewer. */
static bool take(unsigned *left, struct late *one)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    *left = *left < count ? *left : count;
    while (!found && *left > 0) {
        *one = late[--*left];
        if ((found = !one->held))
            late[*left] = late[--count];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Whether no graph names the event any more. */
static bool is_free(const struct late *one)
{
    bool all = true;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (__atomic_load_n(&stream->id.context, __ATOMIC_RELAXED) == one->context)
            all &= ag_execs_forget_event(stream, one->event);
    return all;
}

void ag_limbo_settle(void)
{
    struct late one;
    unsigned left = count;
    while (left != 0 && take(&left, &one)) {
        if (!is_free(&one)) {
            (void)add(&one); /* its place is free */
            continue;
        }
        ag_depth++;
        if (ag_aside_destroy_event(one.context, one.event) != CUDA_SUCCESS)
            atomic_fetch_add(&ag_context_errors, 1);
        ag_depth--;
    }
}

void ag_limbo_forget(const struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = count; i-- > 0;)
        if (late[i].context == context)
            late[i] = late[--count];
    pthread_mutex_unlock(&lock);
}
