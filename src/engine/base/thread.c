/* SPDX-License-Identifier: MIT */
/* What the engine keeps for each thread, and the end of threads. */
#include "engine/base/thread.h"

#include <pthread.h>

#include "engine/hot.h"

_Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

void (*ag_thread_first)(void), (*ag_thread_ends)(void);

static pthread_key_t key;
static pthread_once_t begun = PTHREAD_ONCE_INIT;
static bool key_made;

static void ends(void *self)
{
    (void)self;
    if (!ag_engine_on) /* in a forked child locks may be taken for ever */
        return;
    ag_self.watched = false; /* unless something else that ends now makes another */
    ag_thread_ends();
}

static void begin(void)
{
    key_made = pthread_key_create(&key, ends) == 0;
    ag_thread_first();
}

bool ag_thread_watch(void)
{
    pthread_once(&begun, begin);
    if (!ag_self.watched)
        ag_self.watched = key_made && pthread_setspecific(key, &ag_self) == 0;
    return ag_self.watched;
}
