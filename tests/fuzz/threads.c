/* SPDX-License-Identifier: MIT */
/* Threads, which do what others ask of them, and wait for one another. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* Does what is asked of the thread until *done. Wants the world's lock. */
static void serve(struct thread *t, const bool *done)
{
    struct world *w = t->world;
    while (!*done) {
        if (t->job == NULL) {
            pthread_cond_wait(&t->wake, &w->lock);
            continue;
        }
        void (*job)(struct thread *, const void *) = t->job;
        const void *of = t->job_of;
        t->job = NULL;
        pthread_mutex_unlock(&w->lock);
        job(t, of);
        pthread_mutex_lock(&w->lock);
    }
}

/* A thread of the system that does what a thread of the program does, until it quits. */
struct life {
    struct life *before;
    struct thread *thread;
    pthread_t id;
    bool quit, joined;
};

static void *live(void *arg)
{
    const struct life *life = arg;
    pthread_mutex_lock(&life->thread->world->lock);
    serve(life->thread, &life->quit);
    pthread_mutex_unlock(&life->thread->world->lock);
    return NULL;
}

void thread_start(struct thread *t)
{
    struct life *life = calloc(1, sizeof *life);
    if (life == NULL)
        abort();
    *life = (struct life){.before = t->life, .thread = t};
    t->life = life;
    t->current = NULL; /* nothing is current in a new thread */
    if (pthread_create(&life->id, NULL, live, life) != 0)
        abort();
}

static void life_quits(struct thread *t)
{
    pthread_mutex_lock(&t->world->lock);
    t->life->quit = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->world->lock);
}

static void life_joins(struct life *life)
{
    if (!life->joined)
        pthread_join(life->id, NULL);
    life->joined = true;
}

void thread_stop(struct thread *t)
{
    life_quits(t);
    for (struct life *life = t->life, *before; life != NULL; life = before) {
        before = life->before;
        life_joins(life);
        free(life);
    }
}

bool thread_is_busy(struct thread *t)
{
    pthread_mutex_lock(&t->world->lock);
    bool busy = t->busy > 0;
    pthread_mutex_unlock(&t->world->lock);
    return busy;
}

void thread_renew(struct thread *t, bool waits)
{
    life_quits(t);
    if (waits)
        life_joins(t->life);
    thread_start(t);
}

static void called(struct thread *t, const void *of)
{
    struct call *call = (struct call *)(uintptr_t)of;
    int depth = t->depth, trip[MOST_DEPTH];
    bool par = t->par;
    memcpy(trip, t->trip, sizeof trip);
    t->depth = call->depth;
    memcpy(t->trip, call->trip, sizeof trip);
    t->par = call->par;
    call->job(t, call->of);
    t->par = par;
    t->depth = depth;
    memcpy(t->trip, trip, sizeof trip);
    pthread_mutex_lock(&t->world->lock);
    call->done = true;
    pthread_cond_signal(&call->caller->wake);
    pthread_mutex_unlock(&t->world->lock);
}

void thread_begin(struct thread *caller, struct call *call, int index)
{
    struct world *w = caller->world;
    struct thread *t = &w->thread[index];
    call->caller = caller;
    call->index = index;
    call->done = false;
    call->depth = caller->depth;
    memcpy(call->trip, caller->trip, sizeof call->trip);
    pthread_mutex_lock(&w->lock);
    t->busy++;
    t->job = called;
    t->job_of = call;
    pthread_cond_broadcast(&t->wake); /* one that has quit may wait there, too */
    pthread_mutex_unlock(&w->lock);
}

void thread_end(struct thread *caller, struct call *call)
{
    struct world *w = caller->world;
    pthread_mutex_lock(&w->lock);
    serve(caller, &call->done);
    w->thread[call->index].busy--;
    pthread_mutex_unlock(&w->lock);
}

void thread_call(struct thread *caller, int index, void (*job)(struct thread *, const void *),
                 const void *of)
{
    if (index == caller->index) {
        job(caller, of);
        return;
    }
    struct call call = {.job = job, .of = of, .par = caller->par};
    thread_begin(caller, &call, index);
    thread_end(caller, &call);
}
