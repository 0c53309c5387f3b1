/* SPDX-License-Identifier: MIT */
/*
 * read_observers.c SCENARIO: one thread copies a word to pinned memory, and waits. Another thread
 * comes behind the copy meanwhile, each scenario in its own way, and must find the word where the
 * program wants it. What the other thread writes there behind its own wait must stay.
 */
#define _GNU_SOURCE
#include "live.h"

enum { WARM = 600, ROUNDS = 20 };

static CUstream work, beside;
static CUevent event;
static CUdeviceptr word_at;
static volatile uint32_t *pinned, *seen, *gate;
static volatile uint32_t told, over; /* rounds: the copy has been issued; the other has looked */
static bool blocks;                  /* the copy itself waits */

/* Kernels, one that waits until the gate is open for this round, and the copy. */
static void issue(uint32_t value, uint32_t round)
{
    OK(cuMemsetD32Async(word_at, value, 1, work));
    OK(launch_mix(buffer[0], N, 1, work));
    OK(launch_word(spin, gate, round, work));
    set_word(&told, round);
    if (blocks)
        OK(cuMemcpyDtoH((void *)(uintptr_t)pinned, word_at, 4));
    else
        OK(cuMemcpyDtoHAsync((void *)(uintptr_t)pinned, word_at, 4, work));
}

static void step(uint32_t value, uint32_t round)
{
    issue(value, round);
    if (!blocks)
        OK(cuStreamSynchronize(work));
}

/* -- What another thread does behind the copy; it returns what it has found -------------- */

static uint32_t found;

static void look(void *unused)
{
    (void)unused;
    found = *pinned;
}

static void open_gate(uint32_t round)
{
    set_word(gate, round);
}

static uint32_t by_function(uint32_t round)
{
    OK(cuLaunchHostFunc(work, look, NULL));
    open_gate(round);
    OK(cuStreamSynchronize(work));
    return found;
}

/* The word is copied on to `seen`, by a kernel. */
static void copy_on(CUstream stream)
{
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)pinned, to = (CUdeviceptr)(uintptr_t)seen;
    uint32_t one = 1;
    void *args[] = {&to, &from, &one};
    OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static uint32_t by_kernel(uint32_t round)
{
    copy_on(work);
    open_gate(round);
    OK(cuStreamSynchronize(work));
    return *seen;
}

static uint32_t by_copy(uint32_t round)
{
    uint32_t number;
    OK(cuMemcpyHtoDAsync(buffer[1], (const void *)(uintptr_t)pinned, 4, work));
    open_gate(round);
    OK(cuMemcpyDtoHAsync(&number, buffer[1], 4, work));
    OK(cuStreamSynchronize(work));
    return number;
}

/* Another stream comes behind an event. */
static uint32_t by_stream(uint32_t round)
{
    OK(cuEventRecord(event, work));
    OK(cuStreamWaitEvent(beside, event, 0));
    copy_on(beside);
    open_gate(round);
    OK(cuStreamSynchronize(beside));
    return *seen;
}

static uint32_t by_sync_read(uint32_t round)
{
    open_gate(round);
    OK(cuStreamSynchronize(work));
    return *pinned;
}

static uint32_t by_context(uint32_t round)
{
    open_gate(round);
    OK(cuCtxSynchronize());
    return *pinned;
}

static uint32_t by_record(uint32_t round)
{
    OK(cuEventRecord(event, work));
    open_gate(round);
    OK(cuEventSynchronize(event));
    return *pinned;
}

static uint32_t by_question(uint32_t round)
{
    open_gate(round);
    while (cuStreamQuery(work) == CUDA_ERROR_NOT_READY)
        ;
    return *pinned;
}

static uint32_t by_questions(uint32_t round)
{
    OK(cuEventRecord(event, work));
    open_gate(round);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    return *pinned;
}

/* It writes there, and reads it when the first thread has gone on. */
static uint32_t by_writing(uint32_t round)
{
    uint32_t value = by_sync_read(round);
    *pinned = ~value;
    return value;
}

/* -- Both threads -------------------------------------------------------------------- */

static uint32_t (*observe)(uint32_t round);
static uint32_t wrong;

static void *other(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        while (get_word(&told) != round)
            sched_yield();
        usleep(2000); /* the first thread waits by now */
        wrong += observe(round) != round;
        set_word(&over, round);
    }
    return NULL;
}

static void observed(uint32_t (*way)(uint32_t round))
{
    pthread_t thread;
    uint32_t lost = 0;
    work = blocks ? NULL : made(CU_STREAM_NON_BLOCKING);
    beside = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&word_at, 4));
    pinned = host_words(1);
    seen = host_words(1);
    gate = host_words(1);
    observe = way;
    for (uint32_t i = 0; i < WARM; i++)
        step(i, 0);
    told = 0;
    copy_on(beside);
    OK(cuCtxSynchronize());
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        *pinned = 0;
        step(round, round);
        while (get_word(&over) != round)
            sched_yield();
        lost += way == by_writing && *pinned != ~round;
        open_gate(0);
        for (uint32_t i = 0; i < 12; i++) /* the copy is awaited at once again */
            step(i, 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("not found %u, lost %u\n", wrong, lost);
}

#define WAY(name)                                                                                  \
    static void name(void)                                                                         \
    {                                                                                              \
        observed(by_##name);                                                                       \
    }                                                                                              \
    static void name##_blocking(void)                                                              \
    {                                                                                              \
        blocks = true;                                                                             \
        observed(by_##name);                                                                       \
    }

WAY(function)
WAY(kernel)
WAY(copy)
WAY(stream)
WAY(sync_read)
WAY(context)
WAY(record)
WAY(question)
WAY(questions)
WAY(writing)

int main(int argc, char **argv)
{
    run((const struct scenario[]){{"function", function},
                                  {"function_blocking", function_blocking},
                                  {"kernel", kernel},
                                  {"kernel_blocking", kernel_blocking},
                                  {"copy", copy},
                                  {"copy_blocking", copy_blocking},
                                  {"stream", stream},
                                  {"stream_blocking", stream_blocking},
                                  {"sync_read", sync_read},
                                  {"sync_read_blocking", sync_read_blocking},
                                  {"context", context},
                                  {"context_blocking", context_blocking},
                                  {"record", record},
                                  {"record_blocking", record_blocking},
                                  {"question", question},
                                  {"question_blocking", question_blocking},
                                  {"questions", questions},
                                  {"questions_blocking", questions_blocking},
                                  {"writing", writing},
                                  {"writing_blocking", writing_blocking},
                                  {NULL, NULL}},
        argc, argv);
    return 0;
}
