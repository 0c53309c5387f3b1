/* SPDX-License-Identifier: MIT */
/* live_life.c: what begins and ends around held work: processes, threads,
 * streams, captures. Prints what came out, which is the same
 * with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

/* -- Processes -- */

static void children(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (unsigned round = 0; round < 8; round++) {
        int status;
        loop(s, buffer[0]);
        fflush(stdout);
        pid_t child = fork(); /* with held work */
        CHECK(child >= 0);
        if (child == 0) {
            CUdevice d;
            switch (round % 4) {
            case 0: /* no CUDA; ends as programs do */
                printf("child\n");
                exit(3);
            case 1: /* another program with CUDA; the library is loaded into it */
                execl("/proc/self/exe", "live_life", "simple", NULL);
                _exit(99);
            case 2: /* no CUDA; nothing of the parent's is torn down */
                _exit(5);
            default: /* CUDA does not work here, and says so */
                printf("in the child: %d %d\n", cuDeviceGet(&d, 0), launch_mix(buffer[0], N, 1, s));
                fflush(stdout);
                _exit(4);
            }
        }
        body(s, buffer[0], 1);
        CHECK(waitpid(child, &status, 0) == child);
        printf("%d\n", status);
    }
    OK(cuStreamSynchronize(s));
}

/* The thread that forks; in the child its function returns, which ends the child. */
static void *forks(void *arg)
{
    CUstream s = CU_STREAM_PER_THREAD;
    unsigned hung = 0;
    OK(cuCtxSetCurrent(ctx));
    loop(s, buffer[0]);
    OK(cuStreamSynchronize(s));
    for (uint32_t step = 0; step < 10; step++) {
        for (uint32_t i = 0; i < BODY - 1; i++)
            OK(launch_mix(buffer[0], N, i == 2 ? step : i, s));
        usleep(1000); /* the watchdog is at work on what is held */
        pid_t child = fork(), ended = 0;
        if (child == 0) {
            alarm(0);
            return arg;
        }
        for (unsigned i = 0; i < 5000 && ended == 0; i++) {
            ended = waitpid(child, NULL, WNOHANG);
            usleep(10000);
        }
        if (ended == 0) {
            hung++;
            CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        }
        OK(cuStreamSynchronize(s));
    }
    printf("%u children hung\n", hung);
    return arg;
}

static void children_of_a_thread(void)
{
    pthread_t thread;
    fflush(stdout);
    CHECK(pthread_create(&thread, NULL, forks, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void simple(void)
{
    loop(NULL, buffer[0]);
}

/* The work may be cut off, as it may without the library; the process must end. */
static void leaves_by_exit(void)
{
    loop(NULL, buffer[0]);
    loop(made(CU_STREAM_NON_BLOCKING), buffer[1]);
    printf("leaves\n");
    exit(7);
}

static void leaves_by_return(void)
{
    loop(NULL, buffer[0]);
    loop(CU_STREAM_PER_THREAD, buffer[1]);
    printf("leaves\n");
}

static void leaves_at_once(void)
{
    loop(NULL, buffer[0]);
    printf("leaves\n");
    fflush(stdout);
    _exit(8);
}

static void *launches_for_ever(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    CUstream s = arg ? CU_STREAM_PER_THREAD : made(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0;; i++)
        if (launch_mix(buffer[arg != NULL], N, i % 3, s) != CUDA_SUCCESS)
            return NULL; /* the driver is going away */
}

static void leaves_others_behind(void)
{
    pthread_t t;
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&t, NULL, launches_for_ever, (void *)i) == 0);
    loop(NULL, buffer[2]);
    usleep(20000);
    printf("leaves\n");
    exit(9);
}

static void *ends_main_thread(void *arg)
{
    CHECK(pthread_join(*(pthread_t *)arg, NULL) == 0);
    OK(cuCtxSetCurrent(ctx));
    OK(cuCtxSynchronize());
    show("after the main thread", buffer[1]);
    exit(0); /* the driver's threads go on, so the process would */
}

static void main_thread_exits(void)
{
    static pthread_t self;
    pthread_t t;
    self = pthread_self();
    CHECK(pthread_create(&t, NULL, ends_main_thread, &self) == 0);
    loop(CU_STREAM_PER_THREAD, buffer[1]);
    pthread_exit(NULL);
}

/* -- Threads -- */

static volatile uint32_t *word;

static void *thread_with_work(void *arg)
{
    uint32_t step = (uint32_t)(uintptr_t)arg;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t i = 0; i < 20; i++) {
        body(CU_STREAM_PER_THREAD, buffer[0], i);
        OK(launch_word(flag, word, step, CU_STREAM_PER_THREAD));
    }
    return NULL; /* some is held now */
}

static void threads(void)
{
    word = host_words(1);
    for (uintptr_t step = 1; step <= 20; step++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, thread_with_work, (void *)step) == 0);
        CHECK(pthread_join(t, NULL) == 0);
        while (get_word(word) != step)
            sched_yield();
        OK(cuCtxSynchronize());
    }
}

/* Two threads take turns on one stream. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t turn;

static void *one_of_two(void *arg)
{
    CUstream s = *(CUstream *)arg;
    OK(cuCtxSetCurrent(ctx));
    for (;;) {
        pthread_mutex_lock(&turn_lock);
        uint32_t mine = turn++;
        if (mine < 2 * STEPS)
            body(s, buffer[0], mine / 2);
        pthread_mutex_unlock(&turn_lock);
        if (mine >= 2 * STEPS)
            return NULL;
        sched_yield();
    }
}

static void shared_stream(void)
{
    CUstream s = made(CU_STREAM_DEFAULT);
    pthread_t t[2];
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, one_of_two, &s) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    OK(cuStreamSynchronize(s));
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_tick}; /* no SA_RESTART */
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (unsigned round = 0; round < 40 || ticks < 20; round++) {
        CUstream s = round % 2 ? NULL : made(CU_STREAM_NON_BLOCKING);
        for (unsigned i = 0; i < 5; i++)
            body(s, buffer[1], i);
        OK(cuStreamSynchronize(s));
        if (s)
            OK(cuStreamDestroy(s));
        OK(cuMemsetD32(buffer[1], 5, N)); /* the number of rounds does not show */
        OK(cuCtxSynchronize());
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    loop(NULL, buffer[0]);
}

/* -- Streams -- */

static void streams(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        CUstream s = made(step % 3 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        for (unsigned i = 0; i < 10; i++)
            body(s, buffer[step % 4], step);
        OK(cuStreamDestroy(s)); /* what it holds still has to happen */
        OK(cuCtxSynchronize());
    }
}

/* What one stream still has to do when it is destroyed waits for the next one's work. */
static void streams_behind(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING), next = made(CU_STREAM_NON_BLOCKING);
        if (step > STEPS / 2)
            OK(cuLaunchHostFunc(s, until_released, (void *)(uintptr_t)step));
        body(s, buffer[0], step);
        OK(cuStreamDestroy(s));
        body(next, buffer[1], step);
        OK(cuStreamSynchronize(next));
        OK(cuStreamDestroy(next));
        set_word(&released, step);
        OK(cuCtxSynchronize());
    }
    show("second", buffer[1]);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* A stream is destroyed when it takes no more work: what it does waits for what follows. */
static void streams_full(void)
{
    enum { DEPTH = 1024 }; /* of the simulated driver's queue; about that of driver 580 */
    for (uint32_t step = 1; step < STEPS; step++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        body(s, buffer[0], step);
        if (step % 16 == 15) {
            OK(cuStreamSynchronize(s));
            OK(cuLaunchHostFunc(s, until_released, (void *)(uintptr_t)step));
            for (int i = 1; i < DEPTH; i++)
                OK(cuLaunchHostFunc(s, nothing, NULL));
        }
        OK(cuStreamDestroy(s));
        set_word(&released, step);
        OK(cuCtxSynchronize());
    }
}

/* -- Callbacks -- */

static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static unsigned requests;

static void host_function(void *arg)
{
    pthread_mutex_lock(&turn_lock);
    requests += (unsigned)(uintptr_t)arg;
    pthread_cond_signal(&asked);
    pthread_mutex_unlock(&turn_lock);
}

/* The callback lets another thread launch. */
static void *on_request(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    (void)arg;
    for (unsigned served = 0; served < STEPS; served++) {
        pthread_mutex_lock(&turn_lock);
        while (requests == served)
            pthread_cond_wait(&asked, &turn_lock);
        pthread_mutex_unlock(&turn_lock);
        body(s, buffer[2], served);
    }
    OK(cuStreamSynchronize(s));
    return NULL;
}

static void callbacks(void)
{
    pthread_t t;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_create(&t, NULL, on_request, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, buffer[0], step);
        OK(cuLaunchHostFunc(s, host_function, (void *)1));
    }
    CHECK(pthread_join(t, NULL) == 0);
    OK(cuStreamSynchronize(s));
}

static volatile uint32_t stage;
static CUresult from_callback[3];

static void calls_driver(void *arg)
{
    uint32_t step = (uint32_t)(uintptr_t)arg;
    while (get_word(&stage) != 2 * step + 1)
        sched_yield();
    from_callback[0] = cuMemcpyDtoDAsync(buffer[1], buffer[2], 4, NULL); /* the driver refuses */
    from_callback[1] = launch_mix(buffer[1], N, 1, NULL);
    from_callback[2] = cuCtxSynchronize();
    set_word(&stage, 2 * step + 2);
}

/* Calls in a host function, where the driver permits none, while another thread holds work. */
static void forbidden(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    loop(s, buffer[0]);
    for (uint32_t step = 0; step < STEPS; step++) {
        OK(cuLaunchHostFunc(other, calls_driver, (void *)(uintptr_t)step));
        body(s, buffer[0], step);
        set_word(&stage, 2 * step + 1);
        while (get_word(&stage) != 2 * step + 2)
            sched_yield();
        body(s, buffer[0], step);
    }
    printf("%d %d %d\n", from_callback[0], from_callback[1], from_callback[2]);
}

/* -- Capture -- */

static volatile uint32_t stop;

static void *launches_meanwhile(void *arg)
{
    uint32_t step = 0;
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    (void)arg;
    do {
        body(s, buffer[3], step++ % 3);
        if (step % 4 == 0)
            sched_yield();
    } while (!get_word(&stop));
    return NULL;
}

static void captures(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUstream s = made(CU_STREAM_NON_BLOCKING), joined = made(CU_STREAM_NON_BLOCKING);
    CUevent fork_event, join_event;
    pthread_t t;
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    CHECK(pthread_create(&t, NULL, launches_meanwhile, NULL) == 0);
    for (unsigned round = 0; round < 12; round++) {
        CUgraph graph;
        CUgraphExec exec;
        size_t nodes = 0;
        loop(s, buffer[0]);
        loop(joined, buffer[1]);
        OK(cuStreamBeginCapture(s, modes[round % 3]));
        body(s, buffer[0], round);
        OK(cuEventRecord(fork_event, s));
        OK(cuStreamWaitEvent(joined, fork_event, 0));
        body(joined, buffer[1], round);
        OK(cuEventRecord(join_event, joined));
        body(s, buffer[0], 1);
        OK(cuStreamWaitEvent(s, join_event, 0));
        if (round % 4 == 3) { /* a mistake: the capture is lost */
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
            EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &graph));
            continue;
        }
        OK(cuStreamEndCapture(s, &graph));
        OK(cuGraphGetNodes(graph, NULL, &nodes));
        printf("%zu nodes\n", nodes);
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (unsigned i = 0; i < 4; i++) {
            OK(cuStreamSynchronize(joined));
            OK(cuGraphLaunch(exec, s));
            body(s, buffer[0], i);
            OK(cuStreamSynchronize(s));
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
    set_word(&stop, 1);
    CHECK(pthread_join(t, NULL) == 0);
    OK(cuCtxSynchronize());
    OK(cuMemsetD32(buffer[3], 0, N)); /* the other thread's rounds do not show */
}

/* -- A library that launches -- */

void plugin(CUfunction f, CUdeviceptr at, uint32_t step); /* live_plugin.c */

static void plugins(void)
{
    const char *path = getenv("LIVE_PLUGIN");
    CHECK(path);
    for (uint32_t step = 0; step < 8; step++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(handle);
        __typeof__(plugin) *launch = (__typeof__(plugin) *)dlsym(handle, "plugin");
        CHECK(launch);
        for (unsigned i = 0; i < STEPS; i++)
            launch(mix, buffer[0], i);
        CHECK(dlclose(handle) == 0); /* with work of it held */
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"children", children},
                                          {"children_of_a_thread", children_of_a_thread},
                                          {"simple", simple},
                                          {"leaves_by_exit", leaves_by_exit},
                                          {"leaves_by_return", leaves_by_return},
                                          {"leaves_at_once", leaves_at_once},
                                          {"leaves_others_behind", leaves_others_behind},
                                          {"main_thread_exits", main_thread_exits},
                                          {"threads", threads},
                                          {"shared_stream", shared_stream},
                                          {"signals", signals},
                                          {"streams", streams},
                                          {"streams_behind", streams_behind},
                                          {"streams_full", streams_full},
                                          {"callbacks", callbacks},
                                          {"forbidden", forbidden},
                                          {"captures", captures},
                                          {"plugins", plugins},
                                          {NULL, NULL}};
    run(all, argc, argv);
    if (!strncmp(argv[1], "leaves", 6))
        return 6;
    show_all(argv[1]);
    return 0;
}
