/* SPDX-License-Identifier: MIT */
/*
 * live_order.c SCENARIO: what comes behind held ops, and must not come before them. A host function
 * tells what it has found.
 */
#include "live.h"

static volatile uint32_t *word; /* that a held kernel sets to the step's number */
static pthread_barrier_t turn;
static _Atomic unsigned wrong;

static void CUDA_CB expects(void *step)
{
    wrong += get_word(word) != (uint32_t)(uintptr_t)step;
}

static void CUDA_CB expects_slowly(void *step)
{
    usleep(2000);
    expects(step);
}

/* A step after the loop is replayed, now and then. */
static bool differs(uint32_t step)
{
    return step > STEPS / 2 && step % 4 == 0;
}

static void *owner(void *arg)
{
    const CUstream own = CU_STREAM_PER_THREAD;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(cuLaunchHostFunc(own, expects_slowly, (void *)(uintptr_t)(step - 1)));
        OK(launch_mix(buffer[0], N, step, own));
        OK(launch_word(flag, word, step, own));
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn); /* what is held has been submitted by another thread */
        OK(launch_mix(buffer[0], N, 3, own));
        OK(cuStreamSynchronize(own));
    }
    return arg;
}

/* A relay comes behind what its owner has submitted. */
static void relayed(void)
{
    pthread_t thread;
    word = host_words(1);
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, owner, NULL) == 0);
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUdeviceptr at;
        pthread_barrier_wait(&turn);
        if (differs(step)) {
            OK(cuMemAlloc(&at, 64));
            OK(cuMemFree(at));
        }
        pthread_barrier_wait(&turn);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

/* The origin, and then the branch, of a step that forks and joins. */
static void fork_and_join(CUstream origin, CUstream branch, uint32_t step, bool between)
{
    static CUevent fork, join;
    if (fork == NULL) {
        word = host_words(3);
        OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    }
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(fork, origin));
    OK(cuStreamWaitEvent(branch, fork, 0));
    OK(launch_mix(buffer[1], N, step, branch));
    OK(launch_word(flag, word, step, branch));
    OK(launch_mix(buffer[0], N, 1, origin));
    if (between)
        OK(cuLaunchHostFunc(branch, expects, (void *)(uintptr_t)step));
    OK(launch_mix(buffer[1], N, 2, branch));
    OK(cuEventRecord(join, branch));
    OK(cuStreamWaitEvent(origin, join, 0));
    OK(launch_mix(buffer[0], N, 3, origin));
}

/* A call in a branch's stream comes behind the branch, which its origin holds. */
static void branch(void)
{
    CUstream origin = made(CU_STREAM_NON_BLOCKING), branch = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++) {
        fork_and_join(origin, branch, step, differs(step));
        OK(cuStreamSynchronize(origin));
    }
}

/* The kernels of each stream have its priority. */
static void priorities(void)
{
    CUstream origin = made(CU_STREAM_NON_BLOCKING), branch;
    OK(cuStreamCreateWithPriority(&branch, CU_STREAM_NON_BLOCKING, -1));
    for (uint32_t step = 1; step <= STEPS; step++) {
        fork_and_join(origin, branch, step, false);
        OK(cuStreamSynchronize(origin));
    }
}

/* A blocking stream comes behind the legacy stream, and the stream from which it forks does not. */
static void kinds(void)
{
    CUstream origin = made(CU_STREAM_NON_BLOCKING), branch = made(CU_STREAM_DEFAULT);
    fork_and_join(origin, branch, 0, false);
    OK(cuStreamSynchronize(origin));
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_word(spin, word + 1, step, NULL));
        fork_and_join(origin, branch, step, false);
        usleep(1000);
        expects((void *)(uintptr_t)(step - 1));
        set_word(word + 1, step);
        OK(cuStreamSynchronize(origin));
    }
}

/* A record in a step that forks is mostly overwritten by the next one, and needs no node of a
   graph. Now and then it is that of another event, for which a third stream waits. */
static void records(void)
{
    CUstream origin = made(CU_STREAM_NON_BLOCKING), branch = made(CU_STREAM_NON_BLOCKING);
    CUstream third = made(CU_STREAM_NON_BLOCKING);
    CUevent event, other;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(other, origin));
    fork_and_join(origin, branch, 0, false);
    OK(cuStreamSynchronize(origin));
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_word(spin, word + 1, step, origin));
        OK(cuEventRecord(differs(step) ? other : event, origin));
        fork_and_join(origin, branch, step, false);
        OK(cuEventRecord(event, origin));
        OK(launch_mix(buffer[0], N, 4, origin));
        if (differs(step)) {
            OK(cuStreamWaitEvent(third, other, 0));
            OK(launch_word(flag, word + 2, step, third));
        }
        usleep(1000);
        wrong += get_word(word + 2) == step;
        set_word(word + 1, step);
        OK(cuStreamSynchronize(origin));
        OK(cuStreamSynchronize(third));
    }
}

/* An op that cannot be held comes behind those that are: a copy of many bytes. */
static void eager(void)
{
    static uint32_t bytes[1024];
    CUdeviceptr at;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc(&at, sizeof bytes));
    OK(cuMemsetD32(at, 1, sizeof bytes / 4));
    OK(cuCtxSynchronize());
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(at, N, step, s));
        OK(launch_mix(at, N, 1, s));
        if (differs(step)) {
            bytes[0] = step;
            OK(cuMemcpyHtoDAsync(at, bytes, sizeof bytes, s));
        }
        OK(launch_mix(at, N, 2, s));
        OK(launch_mix(at, N, 3, s));
        OK(cuStreamSynchronize(s));
        if (differs(step))
            show("eager", at);
    }
}

/* Memory that is freed behind held kernels goes to nobody before they have run. */
static void freed(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), t = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUdeviceptr x, y;
        uint32_t found[N];
        OK(cuMemAllocAsync(&x, 4 * N, s));
        OK(launch_mix(buffer[0], N, step, s));
        OK(launch_mix(x, N, 1, s));
        OK(cuMemFreeAsync(x, s));
        OK(cuMemAllocAsync(&y, 4 * N, t));
        OK(cuMemsetD32Async(y, step, N, t));
        OK(launch_mix(buffer[0], N, 2, s));
        OK(cuStreamSynchronize(t));
        OK(cuStreamSynchronize(s));
        OK(cuMemcpyDtoH(found, y, sizeof found));
        wrong += found[0] != step;
        OK(cuMemFreeAsync(y, t));
        OK(cuStreamSynchronize(t));
    }
}

/* A held wait is for the record before it. The next one comes behind a kernel that waits for the
   stream. */
static void again(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), t = made(CU_STREAM_NON_BLOCKING);
    CUevent event;
    alarm(20);
    word = host_words(1);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(buffer[1], N, step, t));
        OK(cuEventRecord(event, t));
        OK(cuStreamWaitEvent(s, event, 0));
        OK(launch_mix(buffer[0], N, step, s));
        OK(launch_word(flag, word, step, s));
        OK(launch_word(spin, word, step, t));
        OK(cuEventRecord(event, t));
        OK(launch_mix(buffer[0], N, 2, s));
        OK(cuStreamSynchronize(s));
        OK(cuStreamSynchronize(t));
    }
}

/* The host waits for an event that is recorded among held ops. */
static void event(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent event;
    word = host_words(1);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(buffer[0], N, step, s));
        OK(launch_word(flag, word, step, s));
        OK(cuEventRecord(event, s));
        if (differs(step)) {
            OK(cuEventSynchronize(event));
            expects((void *)(uintptr_t)step);
        }
        OK(launch_mix(buffer[0], N, 2, s));
        OK(cuStreamSynchronize(s));
    }
}

/* The host waits for a stream in which a kernel waits for another stream of the thread. */
static void other(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), t = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(buffer[0], N, step, s));
        OK(launch_word(flag, word, step, s));
        if (differs(step)) {
            OK(launch_word(spin, word, step, t));
            OK(cuStreamSynchronize(t));
        }
        OK(launch_mix(buffer[0], N, 2, s));
        OK(cuStreamSynchronize(s));
    }
}

static void upload(CUdeviceptr at, uint32_t value, CUstream s)
{
    OK(cuMemcpyHtoDAsync(at, &value, sizeof value, s));
    OK(launch_mix(at, N, value, s));
}

/* Bytes that a stream has taken with it are copied, whatever the next stream uploads. */
static void ring(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++) {
        upload(buffer[0], step, s);
        upload(buffer[0], step + 1, s);
        OK(cuStreamSynchronize(s));
    }
    OK(cuLaunchHostFunc(s, until_released, (void *)1));
    upload(buffer[0], 77, s);
    upload(buffer[0], 78, s);
    OK(cuStreamDestroy(s));
    s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < 4; i++)
            upload(buffer[1], step + i, s);
        OK(cuStreamSynchronize(s));
    }
    set_word(&released, 1);
    OK(cuCtxSynchronize());
}

/* A record in a stream of another context than the event's is refused at once. */
static void contexts(void)
{
    CUcontext there;
    CUmodule module;
    CUdeviceptr at;
    CUevent here, event;
    OK(cuEventCreate(&here, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(here, NULL));
    OK(create_context(&there));
    OK(cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix, module, "ag_mix"));
    OK(cuMemAlloc(&at, 4 * N));
    OK(cuMemsetD32(at, 1, N));
    OK(cuCtxSynchronize());
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(at, N, step, s));
        if (cuEventRecord(differs(step) ? here : event, s) != CUDA_SUCCESS)
            printf("refused in step %u\n", step);
        OK(launch_mix(at, N, 2, s));
        OK(cuStreamSynchronize(s));
    }
    show("contexts", at);
    OK(cuCtxSetCurrent(ctx));
}

/* Fails if the argument is not 0. */
static void breaks(const struct agsim_launch *launch, void **params)
{
    (void)launch;
    if (*(uint32_t *)params[0] != 0)
        agsim_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A read-back tells of the error of a kernel before it. There are read-backs after some hundred
   copies. */
static void failing(void)
{
    static const size_t sizes[] = {4};
    CUmodule module;
    CUfunction fails;
    CUstream s = NULL;
    volatile uint32_t *to = host_words(1);
    OK(cuModuleLoadData(&module, agsim_register_kernel("breaks", 1, sizes, breaks)));
    OK(cuModuleGetFunction(&fails, module, "breaks"));
    for (uint32_t step = 1; step <= 600; step++) {
        uint32_t last = step == 600;
        void *args[] = {&last};
        OK(launch_mix(buffer[0], N, step, s));
        OK(cuLaunchKernel(fails, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        CUresult result = cuMemcpyDtoH((void *)to, buffer[0], 4);
        CHECK(last || result == CUDA_SUCCESS);
        if (last)
            printf("the copy ends with %d\n", (int)result);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"relayed", relayed}, {"branch", branch},   {"priorities", priorities},
        {"kinds", kinds},     {"records", records}, {"eager", eager},
        {"freed", freed},     {"again", again},     {"event", event},
        {"other", other},     {"ring", ring},       {"contexts", contexts},
        {"failing", failing}, {NULL, NULL}};
    run(all, argc, argv);
    printf("%u wrong\n", wrong);
    show_all(argv[1]);
    return 0;
}
