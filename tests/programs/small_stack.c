/* SPDX-License-Identifier: MIT */
/*
 * How much of its stack a program's calls use, and tasks with small stacks of their own:
 *
 *   alone    a thread runs tasks, which give way between calls
 *   tasks    any of three threads goes on with a task
 *   launches | buffers | copies | uploads | reads | pinned | events | forks | turns | words |
 *   per_thread
 *            the deepest use of the stack by any call of a loop
 */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <ucontext.h>

static void *stack_of(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at, page, PROT_NONE) == 0);
    return at + page;
}

static void task_make(ucontext_t *task, size_t bytes, void (*body)(void), ucontext_t *back)
{
    CHECK(getcontext(task) == 0);
    task->uc_stack.ss_sp = stack_of(bytes);
    task->uc_stack.ss_size = bytes;
    task->uc_link = back;
    makecontext(task, body, 0);
}

/* -- Tasks ----------------------------------------------------------------------- */

enum { TASKS = 12, THREADS = 3, SMALL = 16 << 10, STEPS = 150, BODY = 6, WORDS = 64 };

static struct task {
    ucontext_t context;
    CUstream stream;
    CUdeviceptr at;
    bool done, ready;
} tasks[TASKS];
static int left = TASKS;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Of the thread that runs the code now: never to be kept over a switch. */
static __thread ucontext_t *home;
static __thread struct task *running;

static __attribute__((noinline)) struct task *this_task(void)
{
    __asm__ volatile("" ::: "memory");
    return running;
}

static __attribute__((noinline)) ucontext_t *this_home(void)
{
    __asm__ volatile("" ::: "memory");
    return home;
}

static void give_way(void)
{
    CHECK(swapcontext(&this_task()->context, this_home()) == 0);
}

static void task_body(void)
{
    struct task *self = this_task();
    unsigned id = (unsigned)(self - tasks);
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t k = 0; k < BODY; k++) {
            OK(launch_mix(self->at, 32 + k, k == 3 ? i : k, self->stream));
            if ((i + k + id) % 3 == 0)
                give_way();
        }
        if (i % 10 == 9) {
            OK(cuStreamSynchronize(self->stream));
            give_way();
        }
    }
    self->done = true;
    give_way();
}

static struct task *next_task(unsigned from)
{
    struct task *found = NULL;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < TASKS && found == NULL; i++)
        if (tasks[(i + from) % TASKS].ready)
            found = &tasks[(i + from) % TASKS];
    if (found != NULL)
        found->ready = false;
    pthread_mutex_unlock(&lock);
    return found;
}

static bool goes_on(struct task *task)
{
    pthread_mutex_lock(&lock);
    if (task != NULL) {
        left -= task->done;
        task->ready = !task->done;
    }
    bool some = left != 0;
    pthread_mutex_unlock(&lock);
    return some;
}

static void *work(void *number)
{
    ucontext_t mine;
    unsigned random = (unsigned)(uintptr_t)number;
    struct task *task = NULL;
    OK(cuCtxSetCurrent(ctx));
    home = &mine;
    while (goes_on(task)) {
        task = next_task(random);
        random = random * 1103515245 + 12345;
        if (task == NULL) {
            sched_yield();
            continue;
        }
        running = task;
        CHECK(swapcontext(&mine, &task->context) == 0);
    }
    return NULL;
}

static void show(CUdeviceptr at)
{
    uint32_t host[WORDS], sum = 0;
    OK(cuMemcpyDtoH(host, at, sizeof host));
    for (unsigned i = 0; i < WORDS; i++)
        sum = sum * 31 + host[i];
    printf("%08x\n", sum);
}

static void tasks_run(unsigned threads)
{
    pthread_t thread[THREADS];
    for (unsigned i = 0; i < TASKS; i++) {
        OK(cuStreamCreate(&tasks[i].stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&tasks[i].at, WORDS * 4));
        OK(cuMemsetD32Async(tasks[i].at, i + 1, WORDS, tasks[i].stream));
        task_make(&tasks[i].context, SMALL, task_body, NULL);
        tasks[i].ready = true;
    }
    for (uintptr_t i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(i * 7 + 1)) == 0);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < TASKS; i++)
        show(tasks[i].at);
}

/* -- The deepest call -------------------------------------------------------------- */

/* A call is made on a painted stack. ABOVE: what the switch itself may use. */
enum { LARGE = 128 << 10, PAINTED = 48 << 10, ABOVE = 512, PAINT = 0xa5, ROUNDS = 300 };

static const char *way;
static CUstream stream, other;
static CUdeviceptr at, target;
static CUevent event, joined;
static unsigned char *painted, *pinned;
static size_t deepest;

static __attribute__((noinline)) void paint(void)
{
    unsigned char *here = __builtin_frame_address(0);
    painted = here - ABOVE - PAINTED;
    for (volatile unsigned char *to = painted; to < here - ABOVE; to++)
        *to = PAINT;
}

static __attribute__((noinline)) void look(void)
{
    const unsigned char *here = __builtin_frame_address(0), *from = painted;
    while (from < here && *from == PAINT)
        from++;
    size_t used = (size_t)(here - from);
    deepest = used > deepest ? used : deepest;
}

#define DEEP(call)                                                                                 \
    do {                                                                                           \
        paint();                                                                                   \
        OK(call);                                                                                  \
        look();                                                                                    \
    } while (0)

static void launches(unsigned count, uint32_t k)
{
    for (uint32_t i = 0; i < count; i++)
        DEEP(launch_mix(at, 32, i == 2 ? k : i, stream));
}

/* A launch with its arguments in one buffer. */
static CUresult launch_buffer(uint32_t k)
{
    struct {
        CUdeviceptr at;
        uint32_t n, k;
    } arguments = {at, 32, k};
    size_t size = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(mix, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra);
}

static bool is(const char *name)
{
    return strcmp(way, name) == 0;
}

static void round_of(uint32_t k)
{
    unsigned char bytes[64] = {(unsigned char)k};
    launches(4, k);
    if (is("buffers"))
        DEEP(launch_buffer(k));
    if (is("copies"))
        DEEP(cuMemcpyDtoDAsync(target, at, 64, stream));
    if (is("copies"))
        DEEP(cuMemsetD32Async(target + 64, k, 16, stream));
    if (is("uploads"))
        DEEP(cuMemcpyHtoDAsync(target, bytes, sizeof bytes, stream));
    if (is("reads"))
        DEEP(cuMemcpyDtoH(bytes, at, sizeof bytes));
    if (is("pinned"))
        DEEP(cuMemcpyDtoHAsync(pinned, at, 64, stream));
    if (is("events")) {
        DEEP(cuEventRecord(event, stream));
        DEEP(cuStreamWaitEvent(other, event, 0));
        DEEP(launch_mix(target, 32, k, other));
    }
    if (is("forks")) {
        DEEP(cuEventRecord(event, stream));
        DEEP(cuStreamWaitEvent(other, event, 0));
        DEEP(launch_mix(target, 32, k, other));
        DEEP(cuMemsetD32Async(target + 64, k, 16, other));
        DEEP(cuEventRecord(joined, other));
        DEEP(cuStreamWaitEvent(stream, joined, 0));
        DEEP(launch_mix(at, 32, k, stream));
    }
    if (is("words"))
        DEEP(cuStreamWriteValue32(stream, target, k, 0));
    if (is("turns")) /* what is held is left, in ways that come back and in others */
        launches(k * 2654435761u >> 28, k);
    if (is("turns") && k % 7 == 0)
        DEEP(launch_mix(target, 33 + k % 64, k, stream));
    if (k % 4 == 3 || is("pinned"))
        DEEP(cuStreamSynchronize(stream));
}

static void rounds(void)
{
    for (uint32_t k = 0; k < ROUNDS; k++)
        round_of(k);
    DEEP(cuCtxSynchronize());
}

static void measure(void)
{
    ucontext_t here, task;
    void *memory;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    if (is("per_thread"))
        stream = CU_STREAM_PER_THREAD;
    if (is("reads"))
        stream = CU_STREAM_LEGACY;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&at, WORDS * 4));
    OK(cuMemAlloc(&target, 4096));
    OK(cuMemHostAlloc(&memory, 64, 0));
    pinned = memory;
    OK(cuMemsetD32(at, 1, WORDS));
    OK(cuMemsetD32(target, 1, 1024));
    OK(cuCtxSynchronize());
    task_make(&task, LARGE, rounds, &here);
    CHECK(swapcontext(&here, &task) == 0);
    show(at);
    show(target);
    printf("deepest %zu\n", deepest);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    way = argv[1];
    start();
    if (is("alone") || is("tasks"))
        tasks_run(is("alone") ? 1 : THREADS);
    else
        measure();
    return 0;
}
