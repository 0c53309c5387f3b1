/* SPDX-License-Identifier: MIT */
/* sim_threads.c: many threads, each with a stream of its own and one in common,
 * do random operations; the results must be those of the order of the calls. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 400, N = 32 };

static CUdeviceptr handed; /* goes round from thread to thread behind an event */
static uint32_t handed_want;
static CUevent turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t next(uint32_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 17;
    return *r ^= *r << 5;
}

static void *thread(void *arg)
{
    uint32_t r = (uint32_t)(uintptr_t)arg * 2654435761u + 1, want = 0, got;
    CUdeviceptr mine;
    CUstream s;
    CUevent e;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&s, r & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    OK(cuEventCreate(&e, 0));
    OK(cuMemAlloc(&mine, 4 * N));
    OK(cuMemsetD32Async(mine, 0, N, s));
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t k = next(&r);
        switch (k % 10) {
        case 0:
            OK(cuMemsetD32Async(mine, k, N, s));
            want = k;
            break;
        case 1:
            pthread_mutex_lock(&lock);
            OK(cuStreamWaitEvent(s, turn, 0));
            OK(launch_mix(handed, N, k, s));
            handed_want = mixed(handed_want, k);
            OK(cuEventRecord(turn, s));
            pthread_mutex_unlock(&lock);
            break;
        case 2:
            OK(cuEventRecord(e, s));
            OK(cuEventSynchronize(e));
            break;
        case 3:
            OK(cuMemcpyDtoHAsync(&got, mine + 4 * (k / 10 % N), 4, s));
            CHECK(got == want);
            break;
        case 4: { /* on this thread's default stream, behind our own */
            OK(cuEventRecord(e, s));
            OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
            OK(launch_mix(mine, N, k, CU_STREAM_PER_THREAD));
            OK(cuEventRecord(e, CU_STREAM_PER_THREAD));
            OK(cuStreamWaitEvent(s, e, 0));
            want = mixed(want, k);
            break;
        }
        case 5: {
            CUstream old = s;
            OK(cuEventRecord(e, s));
            OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
            OK(cuStreamWaitEvent(s, e, 0));
            OK(cuStreamDestroy(old));
            break;
        }
        default:
            OK(launch_mix(mine, N, k, s));
            want = mixed(want, k);
        }
    }
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(&got, mine, 4));
    CHECK(got == want);
    OK(cuMemFree(mine));
    OK(cuStreamDestroy(s));
    OK(cuEventDestroy(e));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    uint32_t got;
    alarm(60);
    start();
    OK(cuEventCreate(&turn, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&handed, 4 * N));
    OK(cuMemsetD32(handed, 0, N));
    OK(cuCtxSynchronize());
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cuEventSynchronize(turn));
    OK(cuMemcpyDtoH(&got, handed, 4));
    CHECK(got == handed_want);
    puts("ok");
    return 0;
}
