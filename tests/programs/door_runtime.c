/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime that answers each launch with its own number, RUNTIME, if all arguments arrived;
 * and, with CALLS, a library that calls it. With both it is a library with a runtime of its own.
 */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

struct dim3 {
    unsigned x, y, z;
};

#define GRID(name)                                                                                 \
    int name(const void *kernel, struct dim3 grid, struct dim3 block, void **params,               \
             size_t shared, void *stream)
#define CONFIG(name) int name(const void *config, const void *kernel, void **params)

GRID(cudaLaunchKernel);
GRID(cudaLaunchKernel_ptsz);
GRID(__cudaLaunchKernel);
GRID(__cudaLaunchKernel_ptsz);
GRID(cudaLaunchCooperativeKernel);
GRID(cudaLaunchCooperativeKernel_ptsz);
CONFIG(cudaLaunchKernelExC);
CONFIG(cudaLaunchKernelExC_ptsz);

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     void *stream);
int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);
/* The latter by another name, which nobody stands in front of; and how often the former was called.
 */
int runtime_pop(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);
int runtime_pushes(long unused);

#ifdef RUNTIME
#define DEFINE_GRID(name, number)                                                                  \
    GRID(name)                                                                                     \
    {                                                                                              \
        return kernel == (void *)1 && grid.x == 2 && grid.y == 3 && grid.z == 4 && block.x == 5 && \
                       block.y == 6 && block.z == 7 && params == (void **)8 && shared == 9 &&      \
                       stream == (void *)10                                                        \
                   ? RUNTIME * 10 + number                                                         \
                   : -1;                                                                           \
    }
#define DEFINE_CONFIG(name, number)                                                                \
    CONFIG(name)                                                                                   \
    {                                                                                              \
        return config == (void *)1 && kernel == (void *)2 && params == (void **)3                  \
                   ? RUNTIME * 10 + number                                                         \
                   : -1;                                                                           \
    }
DEFINE_GRID(cudaLaunchKernel, 0)
DEFINE_GRID(cudaLaunchKernel_ptsz, 1)
DEFINE_GRID(__cudaLaunchKernel, 2)
DEFINE_GRID(__cudaLaunchKernel_ptsz, 3)
DEFINE_GRID(cudaLaunchCooperativeKernel, 4)
DEFINE_GRID(cudaLaunchCooperativeKernel_ptsz, 5)
DEFINE_CONFIG(cudaLaunchKernelExC, 6)
DEFINE_CONFIG(cudaLaunchKernelExC_ptsz, 7)

int cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME == 12 ? 12000 : 13000 + RUNTIME;
    return 0;
}

static _Thread_local struct {
    struct dim3 grid, block;
    size_t shared;
    void *stream;
} stack[4096];
static _Thread_local volatile unsigned count;
static volatile int pushes;

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     void *stream)
{
    pushes++;
    if (count == sizeof stack / sizeof *stack)
        return 2;
    unsigned i = count++; /* a signal handler may push, too */
    stack[i].grid = grid;
    stack[i].block = block;
    stack[i].shared = shared;
    stack[i].stream = stream;
    return 0;
}

int runtime_pop(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    if (count == 0)
        return 52;
    *grid = stack[count - 1].grid;
    *block = stack[count - 1].block;
    *shared = stack[count - 1].shared;
    memcpy(stream, &stack[count - 1].stream, sizeof(void *));
    count--;
    return 0;
}

int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    return runtime_pop(grid, block, shared, stream);
}

int runtime_pushes(long unused)
{
    (void)unused;
    return pushes;
}
#endif

#ifdef CALLS
#define CALL_GRID(name)                                                                            \
    name((void *)1, (struct dim3){2, 3, 4}, (struct dim3){5, 6, 7}, (void **)8, 9, (void *)10)
#define CALL_CONFIG(name) name((void *)1, (void *)2, (void **)3)

/* Calls each function from one place; the number of the runtime, if all answers are right. */
static int launch_all(void)
{
    volatile int number[] = {
        CALL_GRID(cudaLaunchKernel),
        CALL_GRID(cudaLaunchKernel_ptsz),
        CALL_GRID(__cudaLaunchKernel),
        CALL_GRID(__cudaLaunchKernel_ptsz),
        CALL_GRID(cudaLaunchCooperativeKernel),
        CALL_GRID(cudaLaunchCooperativeKernel_ptsz),
        CALL_CONFIG(cudaLaunchKernelExC),
        CALL_CONFIG(cudaLaunchKernelExC_ptsz),
    };
    for (int i = 1; i < 8; i++)
        if (number[i] != number[0] + i)
            return -1;
    return number[0] / 10;
}

int launch(void)
{
    int first = launch_all();
    for (int i = 0; i < 100; i++)
        if (launch_all() != first)
            return -1;
    return first;
}

/* -- Configurations ---------------------------------------------------------- */

/* Which are all different. */
static __attribute__((noinline)) int push(unsigned n)
{
    volatile unsigned error = __cudaPushCallConfiguration(
        (struct dim3){n, n + 1, n + 2}, (struct dim3){n + 3, n + 4, n + 5}, n + 6,
        (void *)(size_t)(n + 7)); /* not a jump: each call comes from here */
    return (int)error;
}

/* The number of the one that is popped; negative if there is none, or not all of it is right. */
static __attribute__((noinline)) int pop(int past)
{
    struct dim3 grid = {0}, block = {0};
    size_t shared = 0;
    void *stream = NULL;
    int error = past ? runtime_pop(&grid, &block, &shared, &stream)
                     : __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
    unsigned n = grid.x;
    if (error)
        return -error;
    return grid.y == n + 1 && grid.z == n + 2 && block.x == n + 3 && block.y == n + 4 &&
                   block.z == n + 5 && shared == n + 6 && stream == (void *)(size_t)(n + 7)
               ? (int)n
               : -1;
}

/*
 * Does what the hexadecimal digits of the script say, from the last one on: 1 and 2 push, each at a
 * place of its own; 3 pops, 4 does so in the runtime itself. A hash of all answers.
 */
int configure(long script)
{
    static unsigned pushed;
    unsigned hash = 1;
    for (unsigned long rest = (unsigned long)script; rest; rest >>= 4) {
        int answer = 0;
        switch (rest & 15) {
        case 1:
            answer = push(++pushed);
            break;
        case 2: {
            unsigned n = ++pushed;
            answer = (int)__cudaPushCallConfiguration((struct dim3){n, n + 1, n + 2},
                                                      (struct dim3){n + 3, n + 4, n + 5}, n + 6,
                                                      (void *)(size_t)(n + 7));
            break;
        }
        case 3:
            answer = pop(0);
            break;
        case 4:
            answer = pop(1);
            break;
        }
        hash = hash * 31 + (unsigned)answer;
    }
    return (int)(hash & 0x7fffffff);
}

static volatile unsigned wrong, handled;

static void on_signal(int number)
{
    (void)number;
    wrong += push(1000000) != 0;
    wrong += pop(0) != 1000000;
    handled++;
}

/* Pushes and pops while a signal handler does so, too, until that has done it so often; how often
   an answer was wrong. */
int configure_with_signals(long often)
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    struct itimerval soon = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (unsigned n = 0; handled < (unsigned long)often; n = (n + 1) % 1000) {
        wrong += push(n) != 0;
        wrong += push(n + 1) != 0;
        wrong += pop(0) != (int)n + 1;
        wrong += pop(0) != (int)n;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    return (int)wrong;
}
#endif
