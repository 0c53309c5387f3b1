/* SPDX-License-Identifier: MIT */
/*
 * latches.c SCENARIO: something unrelated happens, and then the usual loop comes: kernels, and a
 * few bytes that are read back in each step. What is read is printed as a hash, and so is each code
 * that differs from success.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>
#include <time.h>

#include "sim_test.h"

enum { STEPS = 1200, N = 64, WORDS = 1 << 12 };

static CUdeviceptr data, other_data;
static volatile uint32_t *word; /* kernels wait for it */
static uint32_t *pinned;
static CUstream side;
static uint32_t hash;

static void take(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = hash * 31 + ((const unsigned char *)bytes)[i];
}

static void told(const char *what, CUresult result)
{
    if (result != CUDA_SUCCESS)
        printf("%s: %d\n", what, (int)result);
}

/* -- The usual loop ------------------------------------------------------------ */

static void kernels(uint32_t step)
{
    for (uint32_t k = 0; k < 3; k++)
        OK(launch_mix(data, N, k == 1 ? step : k, side));
}

static void loop(uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t number = 0;
        kernels(step);
        told("copy", cuMemcpyDtoHAsync(&number, data, sizeof number, side));
        take(&number, sizeof number);
    }
}

static void pinned_loop(uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++) {
        pinned[0] = 0;
        kernels(step);
        told("copy", cuMemcpyDtoHAsync(pinned, data, 8, side));
        told("wait", cuStreamSynchronize(side));
        take(pinned, 8);
    }
}

static void usual(void)
{
    loop(STEPS);
}

static void usual_pinned(void)
{
    pinned_loop(STEPS);
}

/* Copies that are uploads, for longer than a stream that got no memory for them waits. */
static void uploads(void)
{
    for (uint32_t step = 0; step < (1 << 14) / 4 + STEPS; step++) {
        uint32_t words[2] = {step, step + 1};
        kernels(step);
        told("upload", cuMemcpyHtoDAsync(data, words, sizeof words, side));
        if (step % 4 == 3)
            OK(cuStreamSynchronize(side));
    }
    loop(1);
}

/* -- What comes before ----------------------------------------------------------- */

static void join(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, arg) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A thread uses its default stream once; *arg says whether it waits. */
static void *worker(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    OK(launch_mix(other_data, N, 1, CU_STREAM_PER_THREAD));
    if (arg != NULL)
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void worker_waits(void)
{
    join(worker, &hash);
    usual();
}

/* The program's own wait for the context says that its work is done. */
static void worker_ends(void)
{
    join(worker, NULL);
    usual();
    OK(cuCtxSynchronize());
    usual();
}

/* So does a copy in the legacy stream, which comes behind it. */
static void worker_ends_legacy(void)
{
    uint32_t number;
    join(worker, NULL);
    OK(cuMemcpyDtoH(&number, other_data, sizeof number));
    take(&number, sizeof number);
    usual();
}

/* A thread launches in a stream that the first one has made. */
static void *helper(void *stream)
{
    OK(cuCtxSetCurrent(ctx));
    OK(launch_mix(other_data, N, 1, stream));
    return NULL;
}

static void thread_ends(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(launch_mix(other_data, N, 1, stream));
    join(helper, stream);
    usual();
}

/* A stream is destroyed while its kernel waits, which goes on later. */
static void stream_destroyed(void)
{
    loop(STEPS / 4); /* the kernel for read-backs is loaded */
    for (unsigned i = 0; i < 3; i++) {
        CUstream stream;
        set_word(word, 0);
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(launch_word(spin, word, 1, stream));
        OK(cuStreamDestroy(stream));
        loop(STEPS / 2);
        set_word(word, 1);
        loop(STEPS);
    }
}

/* A stream is destroyed that has no room for one op more. */
static void stream_full(void)
{
    enum { ROOM = 1023 };
    static unsigned char bytes[WORDS * 2];
    CUstream stream;
    set_word(word, 0);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(launch_word(spin, word, 1, stream));
    while (cuStreamQuery(stream) == CUDA_SUCCESS)
        continue;
    for (unsigned i = 0; i < ROOM; i++)
        OK(cuMemcpyHtoDAsync(other_data, bytes, sizeof bytes, stream));
    OK(cuStreamDestroy(stream));
    set_word(word, 1);
    OK(cuCtxSynchronize());
    usual();
}

/* Many streams of one op each, which cannot be held. */
static void streams(bool waits, bool destroys)
{
    static unsigned char bytes[WORDS * 2];
    for (unsigned i = 0; i < 600; i++) {
        CUstream stream;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemcpyHtoDAsync(other_data, bytes, sizeof bytes, stream));
        if (waits)
            OK(cuStreamSynchronize(stream));
        if (destroys)
            OK(cuStreamDestroy(stream));
    }
}

static void streams_waited(void)
{
    streams(true, true);
    usual();
}

static void streams_stay(void)
{
    streams(true, true); /* so that further ones are young */
    streams(false, false);
    usual();
}

static void streams_left(void)
{
    streams(false, true);
    OK(cuCtxSynchronize());
    usual();
}

/* A capture that begins and ends, one that ends as it must not, and one whose stream goes. */
static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    for (unsigned i = 0; i < 3; i++) {
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(launch_mix(other_data, N, 1, stream));
        if (i == 1)
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
        if (i == 0) {
            OK(cuStreamEndCapture(stream, &graph));
            OK(cuGraphDestroy(graph));
        } else if (i == 1) {
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
        }
        OK(cuStreamDestroy(stream));
        if (i == 2) /* while it captures it cannot be asked for its work */
            OK(cuCtxSynchronize());
        loop(STEPS / 2);
    }
}

/* The stack of kernels becomes larger, and smaller. */
static void resized(void)
{
    size_t bytes;
    loop(STEPS / 4);
    OK(cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
    for (unsigned i = 0; i < 3; i++) {
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes << (i + 1) % 2));
        loop(STEPS / 2);
    }
}

/* -- Waits that are left ---------------------------------------------------------- */

static sigjmp_buf away;
static volatile sig_atomic_t waits; /* 0: not; else how often a signal has come meanwhile, and 1 */

/* By the fourth signal the thread has come from its call to where that waits. */
static void leave(int signal)
{
    waits += signal == SIGALRM && waits != 0;
    if (waits > 4)
        siglongjmp(away, 1);
}

/* Runs `wait`, which a signal handler leaves, while a kernel waits for *word. */
static void left(void (*wait)(void))
{
    const struct itimerval soon = {{.tv_usec = 50000}, {.tv_usec = 50000}};
    waits = 0;
    set_word(word, 0);
    signal(SIGALRM, leave);
    kernels(1);
    OK(launch_word(spin, word, 1, side));
    OK(setitimer(ITIMER_REAL, &soon, NULL) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    if (sigsetjmp(away, 1) == 0) {
        wait();
        CHECK(0);
    }
    alarm(140); /* and no signal sooner */
    signal(SIGALRM, SIG_DFL);
    set_word(word, 1);
}

static void wait_pinned(void)
{
    pinned[0] = pinned[1] = 0;
    OK(cuMemcpyDtoHAsync(pinned, data, 8, side));
    waits = 1;
    OK(cuStreamSynchronize(side));
}

static uint32_t *own; /* what a wait that is left would have brought */

static void wait_pageable(void)
{
    waits = 1;
    OK(cuMemcpyDtoHAsync(own, data, 8, side));
}

/* The kernels of `left` are held as those of the loop are, with the copy. */
static void warm_left(bool to_pinned)
{
    set_word(word, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        kernels(1);
        OK(launch_word(spin, word, 1, side));
        if (to_pinned)
            wait_pinned();
        else
            wait_pageable();
    }
}

static void jump(void)
{
    warm_left(true);
    for (unsigned i = 0; i < 3; i++) {
        left(wait_pinned);
        while (cuStreamQuery(side) == CUDA_ERROR_NOT_READY)
            usleep(100);
        pinned[0] = pinned[1] = 77; /* the program has its memory for something else */
        OK(cuStreamSynchronize(side));
        take(pinned, 8);
        kernels(2);
        OK(cuStreamSynchronize(side));
        take(pinned, 8);
        usual_pinned();
    }
}

static void jump_pageable(void)
{
    own = calloc(2, sizeof *own);
    warm_left(false);
    for (unsigned i = 0; i < 3; i++) {
        left(wait_pageable);
        OK(cuCtxSynchronize());
        own[0] = own[1] = 77;
        usual();
        take(own, 8);
    }
}

static void *waiter(void *to_pinned)
{
    OK(cuCtxSetCurrent(ctx));
    warm_left(to_pinned != NULL);
    set_word(word, 0);
    kernels(1);
    OK(launch_word(spin, word, 1, side));
    set_word(word + 1, 1);
    if (to_pinned != NULL)
        wait_pinned();
    else
        wait_pageable();
    return NULL;
}

/* The thread that waits is cancelled. */
static void cancel(void *to_pinned)
{
    for (unsigned i = 0; i < 3; i++) {
        const struct timespec some = {.tv_nsec = 200000000};
        pthread_t thread;
        void *result;
        set_word(word + 1, 0);
        CHECK(pthread_create(&thread, NULL, waiter, to_pinned) == 0);
        while (get_word(word + 1) == 0)
            usleep(1000);
        nanosleep(&some, NULL);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        set_word(word, 1);
        OK(cuCtxSynchronize());
        usual();
    }
}

static void cancelled(void)
{
    cancel(&hash);
}

static void cancelled_pageable(void)
{
    own = calloc(2, sizeof *own);
    cancel(NULL);
}

/* -- Threads beside the one that reads --------------------------------------------- */

static pthread_barrier_t both;

/* Two threads launch while the first is on its way to its wait (AGSIM_SYNC_US): one makes it known
   that there are several, the other one launches in the stream that reads back. Their kernels wait
   for what the first does when it has read. */
static void *behind(void *stream)
{
    OK(cuCtxSetCurrent(ctx));
    pthread_barrier_wait(&both);
    while (get_word(word + 1) == 0)
        continue;
    usleep(stream == side ? 1500 : 300);
    OK(launch_word(spin, word, 1, stream));
    return NULL;
}

static void beside(void *(*first)(void *), CUstream stream)
{
    pthread_t thread[2];
    uint32_t number;
    loop(STEPS / 2);
    CHECK(pthread_barrier_init(&both, NULL, 3) == 0);
    CHECK(pthread_create(&thread[0], NULL, first, stream) == 0);
    CHECK(pthread_create(&thread[1], NULL, behind, side) == 0);
    pthread_barrier_wait(&both);
    kernels(1);
    set_word(word + 1, 1);
    OK(cuMemcpyDtoHAsync(&number, data, sizeof number, side));
    take(&number, sizeof number);
    set_word(word, 1);
    set_word(word + 1, 2);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(cuCtxSynchronize());
    loop(STEPS / 2);
}

static void third(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    beside(behind, stream);
}

/* Has issued work, which is done, and lives on. */
static void *worked(void *unused)
{
    CUstream stream;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(launch_mix(other_data, N, 1, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    pthread_barrier_wait(&both);
    while (get_word(word + 1) != 2)
        usleep(1000);
    return unused;
}

/* It is known before that there are several. Who launches in the stream does not wait then. */
static void third_known(void)
{
    beside(worked, NULL);
}

/* A launch of another thread waits for room in its stream, while this one comes to make graphs. */
static void *fill(void *stream)
{
    static unsigned char bytes[WORDS * 2]; /* too many for an upload */
    OK(cuCtxSetCurrent(ctx));
    OK(launch_word(spin, word, 1, stream));
    for (unsigned i = 0; i < 1200; i++) {
        set_word(word + 1, i);
        OK(i % 2 ? launch_mix(other_data, N, i, stream)
                 : cuMemcpyHtoDAsync(other_data, bytes, sizeof bytes, stream));
    }
    OK(cuStreamSynchronize(stream));
    return NULL;
}

static void launch_waits(void)
{
    pthread_t thread;
    CUstream stream;
    uint32_t seen;
    set_word(word, 0);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(pthread_create(&thread, NULL, fill, stream) == 0);
    do {
        seen = get_word(word + 1);
        usleep(50000);
    } while (seen == 0 || seen != get_word(word + 1));
    for (uint32_t step = 0; step < STEPS; step++) {
        kernels(step);
        OK(cuStreamSynchronize(side));
    }
    set_word(word, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    loop(STEPS);
}

/* A thread waits in vain for a read-back to end: it is behind a kernel that runs on until the
   thread has launched. Later nothing is in the way. */
static void *launcher(void *stream)
{
    OK(cuCtxSetCurrent(ctx));
    pthread_barrier_wait(&both);
    usleep(20000);
    OK(launch_mix(other_data, N, 1, stream));
    OK(cuStreamSynchronize(stream));
    set_word(word, 1);
    return NULL;
}

static void vain(void)
{
    pthread_t thread;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own = calloc(2, sizeof *own);
    warm_left(false);
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, launcher, stream) == 0);
    set_word(word, 0);
    kernels(1);
    OK(launch_word(spin, word, 1, side));
    pthread_barrier_wait(&both);
    wait_pageable();
    take(own, 8);
    CHECK(pthread_join(thread, NULL) == 0);
    loop(3 * STEPS);
}

/* -- Contexts whose hosts wait by blocking ------------------------------------------ */

static void *idle(void *stream)
{
    OK(cuCtxSetCurrent(ctx));
    OK(launch_mix(other_data, N, 1, stream));
    OK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return NULL;
}

/* Two threads issue work, so that events are waited for; one gives its stream back. */
static void blocking(void)
{
    pthread_t thread;
    CUstream stream;
    OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, idle, stream) == 0);
    pthread_barrier_wait(&both);
    OK(launch_mix(other_data, N, 1, stream));
    OK(cuStreamSynchronize(stream));
    usual();
    pthread_barrier_wait(&both);
    CHECK(pthread_join(thread, NULL) == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} table[] = {{"usual", usual},
             {"usual_pinned", usual_pinned},
             {"uploads", uploads},
             {"worker_waits", worker_waits},
             {"worker_ends", worker_ends},
             {"worker_ends_legacy", worker_ends_legacy},
             {"thread_ends", thread_ends},
             {"stream_destroyed", stream_destroyed},
             {"stream_full", stream_full},
             {"streams_waited", streams_waited},
             {"streams_stay", streams_stay},
             {"streams_left", streams_left},
             {"captured", captured},
             {"resized", resized},
             {"launch_waits", launch_waits},
             {"jump", jump},
             {"jump_pageable", jump_pageable},
             {"cancelled", cancelled},
             {"cancelled_pageable", cancelled_pageable},
             {"third", third},
             {"third_known", third_known},
             {"vain", vain},
             {"blocking", blocking}};

int main(int argc, char **argv)
{
    alarm(140);
    start();
    OK(cuMemAlloc(&data, WORDS * 4));
    OK(cuMemAlloc(&other_data, WORDS * 4));
    OK(cuMemsetD32(data, 1, WORDS));
    OK(cuMemsetD32(other_data, 1, WORDS));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    word = host_words(2);
    pinned = (uint32_t *)(uintptr_t)host_words(N);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
        if (argc == 2 && strcmp(argv[1], table[i].name) == 0) {
            table[i].run();
            printf("%s %08x\n", argv[1], hash);
            return 0;
        }
    fprintf(stderr, "usage: latches SCENARIO\n");
    return 2;
}
