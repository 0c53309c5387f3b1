/* SPDX-License-Identifier: MIT */
/* Making and clearing away what a program runs in, and what is left in the end: the result. */
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static void trace(const struct thread *t, const char *what, uint64_t value)
{
    flockfile(stderr);
    fprintf(stderr, "thread %d: %s: %llx", t->index, what, (unsigned long long)value);
    if (t->statement != NULL) {
        fprintf(stderr, " in ");
        statement_print(stderr, t->statement);
    }
    fprintf(stderr, "\n");
    funlockfile(stderr);
}

void note(struct thread *t, CUresult result, const char *what)
{
    t->hash = hash_mix(t->hash, result);
    if (t->world->trace)
        trace(t, what, result);
}

void must_succeed(struct thread *t, CUresult result, const char *what)
{
    note(t, result, what);
    if (result != CUDA_SUCCESS && captures(t) == 0 && !t->may_fail)
        t->world->errors++;
}

void look(struct thread *t, const uint32_t *words, int count)
{
    for (int i = 0; i < count; i++)
        t->hash = hash_mix(t->hash, words[i]);
    if (t->world->trace)
        trace(t, "memory", t->hash);
}

void world_enter(struct thread *t, const struct context *context)
{
    if (t->current == context && t->generation == context->generation)
        return;
    MUST(t, api[t->world->route][0].cuCtxSetCurrent(context->handle));
    t->current = context;
    t->generation = context->generation;
}

void lane_enter(struct thread *t, const struct lane *l)
{
    const struct world *w = t->world;
    bool handle = l->kind == LANE_BLOCKING || l->kind == LANE_NONBLOCKING;
    world_enter(t, l->context);
    if (t->away == 0 || !handle || captures(t) != 0 || w->gpu)
        return;
    bool none = t->away > w->ncontexts;
    MUST(t, api[w->route][0].cuCtxSetCurrent(none ? NULL : w->context[t->away - 1].handle));
    t->current = NULL; /* unknown */
}

/* -- Lanes ---------------------------------------------------------------- */

void stream_make(struct thread *t, struct lane *l)
{
    const struct api *call = &api[t->world->route][0];
    bool per_thread = l->turned;
    if (l->kind == LANE_LEGACY) {
        l->stream = l->turned ? CU_STREAM_LEGACY : NULL;
    } else if (l->kind == LANE_PER_THREAD) {
        l->stream = l->turned ? CU_STREAM_PER_THREAD : NULL;
        per_thread = !l->turned;
    } else if (l->share != NULL) {
        l->stream = l->share->stream;
    } else {
        unsigned flags = l->kind == LANE_NONBLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
        MUST(t, call->cuStreamCreateWithPriority(&l->stream, flags, l->priority));
    }
    l->api = &api[t->world->route][per_thread];
    l->sync = &api[t->world->route][per_thread && l->kind == LANE_PER_THREAD];
}

void own_load(struct thread *t, struct lane *l, int variant)
{
    const struct api *call = l->api;
    l->variant = variant;
    MUST(t, call->cuModuleLoadData(&l->own_module, kernel_variant[variant]));
    MUST(t, call->cuModuleGetFunction(&l->own, l->own_module, "fz_own"));
}

static void lane_make(struct thread *t, struct lane *l)
{
    enum { BYTES = BUFFER_WORDS * sizeof(uint32_t) };
    uint32_t words[4 * BUFFER_WORDS];
    world_enter(t, l->context);
    access_free(t, l); /* it has outlived the context */
    stream_make(t, l);
    const struct api *call = l->api;
    MUST(t, call->cuMemAlloc(&l->state, 3 * BYTES));
    l->a = l->state + BYTES;
    l->b = l->a + BYTES;
    MUST(t, call->cuMemAlloc(&l->spare, BYTES));
    MUST(t, call->cuMemAlloc(&l->slots, (size_t)SLOTS * BYTES));
    MUST(t, call->cuMemAlloc(&l->large, (size_t)LARGE_WORDS * 4));
    MUST(t, call->cuMemHostAlloc((void **)&l->pinned, PINNED_AREAS * BYTES,
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (l->pinned == NULL) {
        fprintf(stderr, "fuzz: the context is broken, by what ran before\n");
        _exit(3);
    }
    MUST(t, call->cuMemHostGetDevicePointer(&l->mapped, l->pinned, 0));
    for (int i = 0; i < 4 * BUFFER_WORDS; i++)
        words[i] = (uint32_t)(l->index * 1000 + i) * 2654435761u;
    MUST(t, call->cuMemcpyHtoD(l->state, words, 3 * BYTES));
    MUST(t, call->cuMemcpyHtoD(l->spare, words, BYTES));
    memset(l->pinned, 0, PINNED_AREAS * BYTES);
    memcpy(l->pinned, words, BYTES);
    MUST(t, call->cuEventCreate(&l->event[0], CU_EVENT_DISABLE_TIMING));
    MUST(t, call->cuEventCreate(&l->event[1], CU_EVENT_DEFAULT));
    for (int i = 0; i < 2; i++)
        MUST(t, call->cuEventCreate(&l->stamp[i], CU_EVENT_DEFAULT));
    MUST(t, call->cuEventCreate(&l->watched, CU_EVENT_DISABLE_TIMING));
    MUST(t, call->cuEventCreate(&l->left, CU_EVENT_DISABLE_TIMING));
    MUST(t, call->cuMemAlloc(&l->seen, 2 * BYTES));
    MUST(t, l->sync->cuMemsetD32(l->seen, 1, 2 * BUFFER_WORDS));
    fork_make(t, l);
    own_load(t, l, 0);
    l->temp = 0;
    l->slots_used = 0;
    l->flag = 0;
    l->device = 0;
    l->ticket = l->gate = l->full = 0;
    l->watches = 0;
    l->capturing = false;
    l->exec = NULL;
}

/* The stream is idle. */
static void lane_free(struct thread *t, struct lane *l)
{
    const struct api *call = l->api;
    if (l->exec != NULL)
        MUST(t, call->cuGraphExecDestroy(l->exec));
    MUST(t, call->cuEventDestroy(l->event[0]));
    MUST(t, call->cuEventDestroy(l->event[1]));
    for (int i = 0; i < 2; i++)
        MUST(t, call->cuEventDestroy(l->stamp[i]));
    MUST(t, call->cuEventDestroy(l->watched));
    MUST(t, call->cuEventDestroy(l->left));
    MUST(t, call->cuMemFree(l->seen));
    fork_free(t, l);
    MUST(t, call->cuModuleUnload(l->own_module));
    if ((l->kind == LANE_BLOCKING || l->kind == LANE_NONBLOCKING) && l->share == NULL)
        MUST(t, call->cuStreamDestroy(l->stream));
    access_free(t, l);
    MUST(t, call->cuMemFree(l->state));
    MUST(t, call->cuMemFree(l->spare));
    MUST(t, call->cuMemFree(l->slots));
    MUST(t, call->cuMemFree(l->large));
    MUST(t, call->cuMemFreeHost(l->pinned));
}

/* What the lane's work has left becomes part of the result. Its stream is idle. */
static void lane_look(struct thread *t, struct lane *l)
{
    uint32_t words[4 * BUFFER_WORDS];
    MUST(t, l->sync->cuMemcpyDtoH(words, l->state, 3 * BUFFER_WORDS * sizeof *words));
    MUST(t,
         l->sync->cuMemcpyDtoH(words + 3 * BUFFER_WORDS, l->spare, BUFFER_WORDS * sizeof *words));
    look(t, words, 4 * BUFFER_WORDS);
    access_look(t, l);
    look(t, l->pinned, PINNED_WORDS * BUFFER_WORDS);
}

/* -- Contexts ------------------------------------------------------------- */

/* On a GPU contexts are slow to make, and live on for the programs that follow. */
static CUcontext kept[MOST_CONTEXTS];

/* As many read-backs in a used context as it takes until they are part of graphs. */
static void read_often(struct thread *t, const struct api *call)
{
    enum { TIMES = 260 };
    CUdeviceptr word;
    uint32_t value;
    MUST(t, call->cuMemAlloc(&word, sizeof value));
    MUST(t, call->cuMemsetD32Async(word, 0, 1, NULL));
    for (int i = 0; i < TIMES; i++)
        MUST(t, call->cuMemcpyDtoH(&value, word, sizeof value));
    MUST(t, call->cuMemFree(word));
}

static void context_make(struct thread *t, struct context *c)
{
    struct world *w = t->world;
    const struct api *call = &api[w->route][0];
    CUcontext *keep = &kept[c - w->context];
    if (w->gpu && *keep != NULL)
        c->handle = *keep;
    else if (c->primary)
        MUST(t, call->cuDevicePrimaryCtxRetain(&c->handle, c->device));
    else
        MUST(t, call->cuCtxCreate(&c->handle, NULL, 0, c->device));
    if (w->gpu)
        *keep = c->handle;
    c->live = true;
    c->generation++;
    world_enter(t, c);
    MUST(t, call->cuModuleLoadData(&c->module, kernel_module));
    for (int i = 0; i < KERNEL_LAYOUTS; i++)
        MUST(t, call->cuModuleGetFunction(&c->function[i], c->module, kernel_names[i]));
    MUST(t, call->cuModuleLoadData(&c->words, kernel_words));
    MUST(t, call->cuModuleGetFunction(&c->wait, c->words, "fz_wait"));
    MUST(t, call->cuModuleGetFunction(&c->set, c->words, "fz_set"));
    MUST(t, call->cuModuleGetFunction(&c->fork, c->words, "fz_fork"));
    if (c->primary)
        read_often(t, call);
}

static void unload(struct thread *t, struct context *c)
{
    MUST(t, api[t->world->route][0].cuModuleUnload(c->module));
    MUST(t, api[t->world->route][0].cuModuleUnload(c->words));
}

static void context_end(struct thread *t, struct context *c)
{
    const struct api *call = &api[t->world->route][0];
    if (c->primary) {
        MUST(t, call->cuDevicePrimaryCtxRelease(c->device));
    } else {
        MUST(t, call->cuCtxDestroy(c->handle));
    }
    c->live = false;
    t->current = NULL;
}

static void context_free(struct thread *t, struct context *c)
{
    if (t->world->gpu || c->primary) /* the context may live on */
        unload(t, c);
    if (!t->world->gpu)
        context_end(t, c);
}

CUdeviceptr word_address(const struct lane *l, int word)
{
    return l->mapped + (PINNED_WORDS * BUFFER_WORDS + (CUdeviceptr)word) * 4;
}

CUresult word_launch(struct lane *l, CUfunction what, CUdeviceptr word, uint32_t value)
{
    void *params[] = {&word, &value};
    return l->api->cuLaunchKernel(what, 1, 1, 1, 1, 1, 1, 0, l->stream, params, NULL);
}

/* Kernels that wait for others are loaded before: loading waits for them. */
static void words_load(struct thread *t, struct lane *l)
{
    MUST(t, word_launch(l, l->context->set, word_address(l, WORD_DEVICE), 0));
    MUST(t, word_launch(l, l->context->wait, word_address(l, WORD_DEVICE), 0));
    CUdeviceptr dst = l->state;
    uint32_t none = 0;
    void *params[] = {&dst, &dst, &none, &none};
    MUST(t, l->api->cuLaunchKernel(l->context->fork, 1, 1, 1, 1, 1, 1, 0, l->stream, params, NULL));
}

static void context_fill(struct thread *t, struct context *c)
{
    struct world *w = t->world;
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
        if (l->context == c)
            lane_make(t, l);
    world_enter(t, c);
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
        if (l->context == c)
            words_load(t, l);
    MUST(t, api[w->route][0].cuCtxSynchronize());
}

static void context_look(struct thread *t, const struct context *c)
{
    struct world *w = t->world;
    world_enter(t, c);
    MUST(t, api[w->route][0].cuCtxSynchronize());
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
        if (l->context == c)
            lane_look(t, l);
}

void context_reset(struct thread *t, int index, int how)
{
    struct world *w = t->world;
    struct context *c = &w->context[index];
    if (w->gpu || index >= w->ncontexts)
        return;
    for (int i = 0; i < w->ncontexts; i++) /* their work may still read memory of this one */
        if (i != index) {
            world_enter(t, &w->context[i]);
            MUST(t, api[w->route][0].cuCtxSynchronize());
        }
    world_enter(t, c);
    if (how == 0)
        context_look(t, c);
    if (c->primary) /* releasing it twice would be another program's affair */
        for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
            if (l->context == c && l->exec != NULL)
                MUST(t, l->api->cuGraphExecDestroy(l->exec));
    if (c->primary && how == 2) /* what was retained is still to be released */
        MUST(t, api[w->route][0].cuDevicePrimaryCtxReset(c->device));
    else if (c->primary)
        unload(t, c);
    context_end(t, c);
    context_make(t, c);
    context_fill(t, c);
}

/* -- The whole ------------------------------------------------------------ */

static bool wrong(const char *what)
{
    fprintf(stderr, "fuzz: %s\n", what);
    return false;
}

static bool has(const struct statement *list, enum statement_kind kind)
{
    for (; list != NULL; list = list->next)
        if (list->kind == kind || has(list->body, kind))
            return true;
    return false;
}

/* Reads the statements that say what there is. */
static bool declare(struct world *w, const struct statement **program)
{
    const struct statement *s = *program;
    if (s == NULL || s->kind != S_PROGRAM)
        return wrong("a program begins with `program`");
    bool primary = s->mode & 1;
    w->par_captures = s->mode & 2;
    w->nthreads = s->threads < 1 ? 1 : s->threads;
    w->route = s->how & 1;
    if (w->nthreads > MOST_THREADS)
        return wrong("too many threads");
    int devices = 0;
    if (api[w->route][0].cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < 1)
        return wrong("no device");
    for (s = s->next; s != NULL && s->kind == S_CONTEXT; s = s->next) {
        if (w->ncontexts == MOST_CONTEXTS)
            return wrong("too many contexts");
        w->context[w->ncontexts] =
            (struct context){.device = s->n % devices, .primary = primary && w->ncontexts == 0};
        w->ncontexts++;
    }
    for (; s != NULL && s->kind == S_LANE; s = s->next) {
        struct lane *l = &w->lane[w->nlanes], *share = s->mode > 0 ? &w->lane[s->mode - 1] : NULL;
        if (w->nlanes == MOST_LANES || s->n >= w->ncontexts || s->thread >= w->nthreads ||
            s->how >= LANE_KINDS || s->mode > w->nlanes)
            return wrong("a lane that cannot be");
        *l = (struct lane){.index = w->nlanes++,
                           .kind = s->how,
                           .context = &w->context[s->n],
                           .thread = s->thread,
                           .turned = s->more,
                           .priority = s->k};
        if (share != NULL && share->kind == l->kind && share->share == NULL &&
            share->context == l->context &&
            (l->kind == LANE_BLOCKING || l->kind == LANE_NONBLOCKING)) {
            l->share = share;
            share->shared = true;
        }
    }
    *program = s;
    w->fills = has(s, S_FILL);
    return w->nlanes > 0 || wrong("no lane");
}

static void main_job(struct thread *t, const void *program)
{
    struct world *w = t->world;
    const struct api *call = &api[w->route][0];
    MUST(t, call->cuLibraryLoadData(&w->library, kernel_module, NULL, NULL, 0, NULL, NULL, 0));
    for (int i = 0; i < KERNEL_LAYOUTS; i++)
        MUST(t, call->cuLibraryGetKernel(&w->kernel[i], w->library, kernel_names[i]));
    for (int i = 0; i < w->ncontexts; i++)
        context_make(t, &w->context[i]);
    for (int i = 0; i < w->ncontexts; i++)
        context_fill(t, &w->context[i]);
    run(t, program);
    t->statement = NULL;
    for (int i = 0; i < w->ncontexts; i++)
        context_look(t, &w->context[i]);
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++) {
        world_enter(t, l->context);
        lane_free(t, l);
        lane_free_records(l);
    }
    MUST(t, call->cuLibraryUnload(w->library));
    for (int i = 0; i < w->ncontexts; i++)
        context_free(t, &w->context[i]);
}

bool world_run(const struct statement *program, bool gpu, bool trace, struct outcome *outcome)
{
    struct world *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    w->gpu = gpu;
    w->trace = trace;
    kernel_attributes = 0;
    bool declared = declare(w, &program);
    if (declared) {
        pthread_mutex_init(&w->lock, NULL);
        pthread_cond_init(&w->turned, NULL);
        for (struct thread *t = w->thread; t <= w->thread + w->nthreads; t++) {
            *t = (struct thread){.world = w, .index = (int)(t - w->thread)};
            pthread_cond_init(&t->wake, NULL);
            thread_start(t);
        }
        gates_begin(w);
        struct thread caller = {.world = w, .index = -1};
        pthread_cond_init(&caller.wake, NULL);
        thread_call(&caller, 0, main_job, program);
        gates_end(w);
        for (struct thread *t = w->thread; t <= w->thread + w->nthreads; t++) {
            thread_stop(t);
            outcome->hash = hash_mix(outcome->hash, t->hash);
        }
        outcome->hash = hash_mix(outcome->hash, kernel_attributes);
        outcome->ops = w->ops;
        outcome->errors = w->errors;
    }
    free(w);
    return declared;
}
