/* SPDX-License-Identifier: MIT */
/*
 * live_sandbox SCENARIO: warms up, then lets the kernel kill the process for every system call but
 * those that it makes itself from then on, and works. Prints a checksum, and how many launches were
 * of graphs.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "autograph.h"
#include "sim_test.h"

/* Memory, locks, output, the end; time where there is no vDSO; and the simulated driver yields. */
static const unsigned allowed[] = {
    SYS_futex,       SYS_mmap,          SYS_munmap,       SYS_brk,
    SYS_mremap,      SYS_write,         SYS_exit_group,   SYS_getpid,
    SYS_sched_yield, SYS_clock_gettime, SYS_rt_sigreturn, SYS_restart_syscall,
};
enum { ALLOWED = sizeof allowed / sizeof allowed[0], WORDS = 64, STEPS = 300, BODY = 8 };

static void forbid_the_rest(void)
{
    struct sock_filter filter[ALLOWED + 3];
    unsigned n = 0;
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < ALLOWED; i++)
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], ALLOWED - i, 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static struct work {
    CUstream stream;
    CUdeviceptr words;
} work[2];

static void step(const struct work *w, unsigned number)
{
    for (unsigned k = 0; k < BODY; k++)
        OK(launch_mix(w->words, WORDS, k == 3 ? number : k, w->stream));
}

static uint32_t sum(const struct work *w)
{
    uint32_t words[WORDS], total = 0;
    OK(cuStreamSynchronize(w->stream));
    OK(cuMemcpyDtoH(words, w->words, sizeof words));
    for (int i = 0; i < WORDS; i++)
        total = total * 31 + words[i];
    return total;
}

/* The simulated driver makes a thread for each stream that is busy at a time: here all three are.
 */
static void warm_up(void)
{
    CUstream stream[] = {work[0].stream, work[1].stream, CU_STREAM_LEGACY};
    volatile uint32_t *word = host_words(4);
    for (int i = 0; i < 3; i++) {
        OK(launch_word(flag, word + 1 + i, 1, stream[i]));
        OK(launch_word(spin, word, 1, stream[i]));
    }
    for (int i = 0; i < 3; i++)
        while (get_word(word + 1 + i) != 1)
            sched_yield();
    set_word(word, 1);
    OK(cuCtxSynchronize());
}

/* -- Scenarios --------------------------------------------------------------- */

static void steps(void)
{
    for (unsigned i = 0; i < STEPS; i++) {
        step(&work[i % 2], i);
        if (i % 5 == 0)
            OK(cuCtxSynchronize());
    }
}

/* The host waits for a word that held work writes, and makes no call. */
static void spins(void)
{
    volatile uint32_t *word = host_words(1);
    for (unsigned i = 1; i < STEPS / 4; i++) {
        step(&work[0], i);
        OK(launch_word(flag, word, i, work[0].stream));
        while (get_word(word) != i)
            continue;
    }
}

static _Atomic unsigned turn;
static _Atomic bool ready;
static pthread_mutex_t ends = PTHREAD_MUTEX_INITIALIZER;
static CUevent done;

/* The other thread, which was there before: it waits for what this one has launched. */
static void *other(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    atomic_store(&ready, true);
    for (unsigned i = 1; i <= STEPS; i++) {
        while (atomic_load(&turn) != 2 * i - 1)
            continue;
        OK(cuStreamWaitEvent(work[1].stream, done, 0));
        step(&work[1], i);
        if (i % 7 == 0)
            OK(cuCtxSynchronize());
        atomic_store(&turn, 2 * i);
    }
    pthread_mutex_lock(&ends); /* for ever: to end takes other system calls */
    return unused;
}

static void threads(void)
{
    for (unsigned i = 1; i <= STEPS; i++) {
        step(&work[0], i);
        OK(cuEventRecord(done, work[0].stream));
        atomic_store(&turn, 2 * i - 1);
        while (atomic_load(&turn) != 2 * i)
            continue;
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"steps", steps}, {"spins", spins}, {"threads", threads}};

int main(int argc, char **argv)
{
    struct autograph_statistics statistics = {.size = sizeof statistics};
    void (*run)(void) = NULL;
    pthread_t thread;
    CHECK(argc == 2);
    for (unsigned i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(argv[1], scenarios[i].name) == 0)
            run = scenarios[i].run;
    CHECK(run != NULL);
    CHECK(mallopt(M_ARENA_MAX, 1) == 1); /* threads of the driver would make theirs at any time */
    alarm(60);
    start();
    OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 2; i++) {
        OK(cuStreamCreate(&work[i].stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&work[i].words, 4 * WORDS));
        OK(cuMemsetD32Async(work[i].words, i, WORDS, work[i].stream));
    }
    warm_up();
    (void)autograph_get_statistics(&statistics); /* looks the function up */
    pthread_mutex_lock(&ends);
    if (run == threads)
        CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    while (run == threads && !atomic_load(&ready))
        continue;
    setvbuf(stdout, NULL, _IOFBF, 4096); /* it would ask what its output is */
    printf("begins\n");
    fflush(stdout);
    forbid_the_rest();
    run();
    uint32_t first = sum(&work[0]), second = sum(&work[1]);
    (void)autograph_get_statistics(&statistics);
    printf("%08x %08x\n%d\n", first, second, (int)statistics.replays);
    fflush(stdout);
    return 0;
}
