/* SPDX-License-Identifier: MIT */
/* report_fibers.c SCENARIO: tasks with small stacks of their own, between which threads switch
 * (docs/reports.md has the reports). A task launches in a stream of its own. Prints what came out,
 * which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

enum { TASKS = 12, THREADS = 3, STACK = 16384, GUARD = 4096, TASK_STEPS = 150, WAIT_EVERY = 10 };

struct task {
    ucontext_t context;
    CUstream stream;
    CUdeviceptr at;
    bool ready, done; /* under the queue's lock */
};

static struct task tasks[TASKS];
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static volatile uint32_t left;

/* -- Switching -- */

static _Thread_local ucontext_t *home;
static _Thread_local struct task *current;

/* A task may go on in another thread, so no function may keep where these are. */
static __attribute__((noinline)) struct task *self(void)
{
    __asm__ volatile("" ::: "memory");
    return current;
}

static __attribute__((noinline)) ucontext_t *home_now(void)
{
    __asm__ volatile("" ::: "memory");
    return home;
}

/* Nobody can walk a stack that is being left: swapcontext() says nothing about it. */
static volatile bool switching;

static void switch_to(ucontext_t *from, const ucontext_t *to)
{
    switching = true;
    CHECK(swapcontext(from, to) == 0);
    switching = false;
}

static void give_way(void)
{
    struct task *task = self();
    switch_to(&task->context, home_now());
}

/* Launches, and gives way between any two launches and behind each wait. */
static void work(unsigned id)
{
    struct task *task = self();
    switching = false;
    for (uint32_t step = 0; step < TASK_STEPS; step++) {
        for (uint32_t k = 0; k < BODY; k++) {
            OK(launch_mix(task->at, N - k, k == 3 ? step : k, task->stream));
            if ((step + k + id) % 3 == 0)
                give_way();
        }
        if (step % WAIT_EVERY == WAIT_EVERY - 1) {
            OK(cuStreamSynchronize(task->stream));
            give_way();
        }
    }
    task->done = true;
    give_way();
}

static struct task *next_task(unsigned from)
{
    struct task *found = NULL;
    pthread_mutex_lock(&queue);
    for (unsigned i = 0; i < TASKS && !found; i++) {
        struct task *task = &tasks[(from + i) % TASKS];
        if (task->ready)
            found = task;
    }
    if (found)
        found->ready = false;
    pthread_mutex_unlock(&queue);
    return found;
}

/* Goes on with one task after the other, by chance. */
static void *runs_tasks(void *arg)
{
    ucontext_t here;
    unsigned chance = (unsigned)(uintptr_t)arg;
    OK(cuCtxSetCurrent(ctx));
    home = &here;
    while (get_word(&left) != 0) {
        struct task *task = next_task(chance = chance * 1103515245u + 12345);
        if (!task) {
            sched_yield();
            continue;
        }
        current = task;
        switch_to(&here, &task->context);
        pthread_mutex_lock(&queue);
        if (task->done)
            __atomic_fetch_sub(&left, 1, __ATOMIC_SEQ_CST);
        else
            task->ready = true;
        pthread_mutex_unlock(&queue);
    }
    return NULL;
}

/* What grows out of its stack must not write into another one. */
static void *new_stack(void)
{
    char *at =
        mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at, GUARD, PROT_NONE) == 0);
    return at + GUARD;
}

static void new_task(unsigned id)
{
    struct task *task = &tasks[id];
    task->stream = made(CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc(&task->at, 4 * N));
    OK(cuMemsetD32Async(task->at, id + 1, N, task->stream));
    CHECK(getcontext(&task->context) == 0);
    task->context.uc_stack.ss_sp = new_stack();
    task->context.uc_stack.ss_size = STACK;
    makecontext(&task->context, (void (*)(void))work, 1, id);
    task->ready = true;
}

/* By so many threads, of which this is one. */
static void run_tasks(unsigned threads)
{
    pthread_t thread[THREADS];
    left = TASKS;
    for (unsigned i = 0; i < TASKS; i++)
        new_task(i);
    for (unsigned i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, runs_tasks, (void *)(uintptr_t)(7 * i)) == 0);
    (void)runs_tasks(NULL);
    for (unsigned i = 1; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < TASKS; i++)
        show("task", tasks[i].at);
}

/* -- Scenarios -- */

static void one_thread(void)
{
    run_tasks(1);
}

static void moving(void)
{
    run_tasks(THREADS);
}

static volatile uint32_t walks, found;

/* Walks the stack that the signal came to, on a stack of its own. */
static void walk(int number)
{
    void *frames[64];
    (void)number;
    if (switching)
        return;
    found += backtrace(frames, sizeof frames / sizeof *frames) > 1;
    walks++;
}

/* A profiler looks where the thread is, in calls of the driver, too. */
static timer_t profile(void)
{
    enum { EVERY_NS = 200000 };
    static char handler_stack[1 << 18];
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_handler = walk, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    struct itimerspec every = {.it_interval.tv_nsec = EVERY_NS, .it_value.tv_nsec = EVERY_NS};
    timer_t timer;
    void *frame;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    CHECK(backtrace(&frame, 1) == 1); /* loads what it needs */
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGPROF, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &every, NULL) == 0);
    return timer;
}

static void profiled(void)
{
    timer_t timer = profile();
    loop(NULL, buffer[0]);
    run_tasks(1);
    loop(made(CU_STREAM_NON_BLOCKING), buffer[1]);
    CHECK(timer_delete(timer) == 0);
    printf("walked %d, found %d\n", walks > 5, found > 5);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"one_thread", one_thread}, {"moving", moving}, {"profiled", profiled}, {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
