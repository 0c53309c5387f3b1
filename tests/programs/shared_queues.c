/* SPDX-License-Identifier: MIT */
/* shared_queues.c: kernels that wait on the device for kernels of another stream, which the program
 * launches right behind them. Where both streams share one of the device's queues, such a program
 * ends only if its launches get there in its own order. (Streams are dealt out to the queues as
 * they are made: so each waits for the one that is made PAIRS streams later, and shares its queue
 * if CUDA_DEVICE_MAX_CONNECTIONS divides PAIRS.)
 *
 *   shared_queues KIND PAIRS STEPS    prints "ok", or "for ever" where no kernel has set a word for
 *                                     20 seconds
 *
 * Kinds:
 *
 *   one         one thread launches all
 *   threads     another thread launches in the streams that are waited for
 *   blocking    the streams are blocking ones
 *   legacy      the stream that waits is the legacy stream
 *   per_thread  it is the thread's default stream
 *   renew       streams are made anew now and then
 *   copies      the word that is waited for is copied
 *   sets        the program itself asks for one queue, as those do that are written in Python
 *
 *   shared_queues pace STREAMS STEPS [BESIDE [RUN [LEGACY]]]
 *
 * Launches a small kernel in each of STREAMS streams, RUN (1) times in a row, and all that STEPS
 * times. BESIDE (0) more streams do nothing. If LEGACY is 1 a kernel comes first in the legacy
 * stream.
 */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { MOST_PAIRS = 32, EVERY = 50, RENEWED = 150, SECONDS = 20, N = 16 };

static unsigned pairs;
static bool copies, two_threads;
static CUstream waiting[MOST_PAIRS], setting[MOST_PAIRS];
static volatile uint32_t *words; /* of pinned memory */
static CUdeviceptr buffer;

/* A word of the pair's, and memory of its own for either stream. */
enum { WORDS = 4 };
static CUdeviceptr word(unsigned pair, unsigned which)
{
    return (CUdeviceptr)(uintptr_t)&words[WORDS * pair + which];
}

static CUdeviceptr own(unsigned pair, unsigned which)
{
    return buffer + 4 * N * (3 * pair + which);
}

static CUresult launch_at(CUfunction f, CUdeviceptr at, uint32_t value, CUstream s)
{
    void *params[] = {&at, &value};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

/* -- The two sides of a step ------------------------------------------------- */

/* Two parts each, which the program issues in turn: the first stream waits for the word that the
   second sets, and then lets that one go on. */
static void first(unsigned p, uint32_t step, bool again)
{
    if (again) {
        OK(launch_at(flag, word(p, 1), step, waiting[p]));
        OK(launch_mix(own(p, 0), N, step, waiting[p]));
        return;
    }
    OK(launch_mix(own(p, 0), N, 1, waiting[p]));
    OK(launch_mix(own(p, 0), N, 2, waiting[p]));
    OK(launch_at(spin, copies ? own(p, 2) : word(p, 0), step, waiting[p]));
}

static void second(unsigned p, uint32_t step, bool again)
{
    if (again) {
        OK(launch_at(spin, word(p, 1), step, setting[p]));
        return;
    }
    OK(launch_mix(own(p, 1), N, 3, setting[p]));
    OK(launch_at(flag, word(p, 0), step, setting[p]));
    if (copies)
        OK(cuMemcpyHtoDAsync(own(p, 2), (const void *)&words[WORDS * p], 4, setting[p]));
}

/* -- The other thread ---------------------------------------------------------- */

static struct {
    unsigned pair;
    uint32_t step;
    bool again, ends;
} task;
static atomic_uint asked, done;

static void *other_thread(void *arg)
{
    (void)arg;
    OK(cuCtxSetCurrent(ctx));
    for (unsigned i = 1;; i++) {
        while (atomic_load(&asked) != i)
            sched_yield();
        if (task.ends)
            return NULL;
        second(task.pair, task.step, task.again);
        atomic_store(&done, i);
    }
}

static void ask(unsigned pair, uint32_t step, bool again)
{
    if (!two_threads) {
        second(pair, step, again);
        return;
    }
    task.pair = pair;
    task.step = step;
    task.again = again;
    unsigned i = atomic_fetch_add(&asked, 1) + 1;
    while (atomic_load(&done) != i)
        sched_yield();
}

/* -- The program ----------------------------------------------------------------- */

/* Grows with each word that is set. */
static uint64_t progress(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WORDS * pairs; i++)
        sum += get_word(&words[i]);
    return sum;
}

static void wait_for(CUstream s)
{
    struct timespec now, since = {0};
    uint64_t last = 0;
    for (CUresult r; (r = cuStreamQuery(s)) != CUDA_SUCCESS; sched_yield()) {
        EXPECT(CUDA_ERROR_NOT_READY, r);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (progress() + 1 != last) {
            last = progress() + 1;
            since = now;
        } else if (now.tv_sec - since.tv_sec > SECONDS) {
            puts("for ever");
            fflush(stdout);
            _exit(1);
        }
    }
}

static void wait_for_all(void)
{
    for (unsigned p = 0; p < pairs; p++) {
        wait_for(waiting[p]);
        wait_for(setting[p]);
    }
}

static void make(const char *kind)
{
    unsigned flags = strcmp(kind, "blocking") ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    for (unsigned p = 0; p < pairs; p++)
        OK(cuStreamCreate(&waiting[p], flags));
    for (unsigned p = 0; p < pairs; p++)
        OK(cuStreamCreate(&setting[p], flags));
    if (!strcmp(kind, "legacy"))
        waiting[0] = CU_STREAM_LEGACY;
    if (!strcmp(kind, "per_thread"))
        waiting[0] = CU_STREAM_PER_THREAD;
}

static void renew(void)
{
    for (unsigned p = 0; p < pairs; p++) {
        OK(cuStreamDestroy(waiting[p]));
        OK(cuStreamDestroy(setting[p]));
    }
    make("renew");
}

static void pace(unsigned streams, unsigned steps, unsigned beside, unsigned run)
{
    CUstream s[2 * MOST_PAIRS], idle;
    CHECK(streams <= 2 * MOST_PAIRS);
    for (unsigned i = 0; i < streams; i++)
        OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < beside; i++)
        OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
    for (unsigned step = 0; step < steps; step++) {
        for (unsigned i = 0; i < streams; i++)
            for (unsigned k = 0; k < run; k++)
                OK(launch_mix(buffer + 4 * N * i, N, k, s[i]));
        if (step % 16 == 15)
            OK(cuCtxSynchronize());
    }
    OK(cuCtxSynchronize());
    puts("ok");
}

static unsigned argument(int argc, char **argv, int i, unsigned otherwise)
{
    return i < argc ? (unsigned)atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4);
    const char *kind = argv[1];
    pairs = argument(argc, argv, 2, 0);
    unsigned steps = argument(argc, argv, 3, 0);
    if (!strcmp(kind, "sets"))
        CHECK(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1) == 0);
    start();
    OK(cuMemHostAlloc((void **)&words, 4 * WORDS * MOST_PAIRS, 0));
    memset((void *)words, 0, 4 * WORDS * MOST_PAIRS);
    OK(cuMemAlloc(&buffer, 4 * N * 3 * MOST_PAIRS));
    OK(cuMemsetD8(buffer, 0, 4 * N * 3 * MOST_PAIRS));
    OK(cuCtxSynchronize());
    if (!strcmp(kind, "pace")) {
        if (argument(argc, argv, 6, 0) != 0)
            OK(launch_mix(buffer, N, 1, CU_STREAM_LEGACY));
        pace(pairs, steps, argument(argc, argv, 4, 0), argument(argc, argv, 5, 1));
        return 0;
    }
    CHECK(pairs <= MOST_PAIRS);
    copies = !strcmp(kind, "copies");
    two_threads = !strcmp(kind, "threads");
    make(kind);
    pthread_t thread;
    if (two_threads)
        CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    for (uint32_t step = 1; step <= steps; step++) {
        for (unsigned p = 0; p < pairs; p++) {
            first(p, step, false);
            ask(p, step, false);
            first(p, step, true);
            ask(p, step, true);
        }
        if (step % EVERY == 0)
            wait_for_all();
        if (step % RENEWED == 0 && !strcmp(kind, "renew"))
            renew();
    }
    wait_for_all();
    if (two_threads) {
        task.ends = true;
        atomic_fetch_add(&asked, 1);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    puts("ok");
    return 0;
}
