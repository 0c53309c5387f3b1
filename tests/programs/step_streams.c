/* SPDX-License-Identifier: MIT */
/*
 * step_streams.c KIND STEPS: streams that are made in each step, wait for what they have done, and
 * are destroyed. "one": one; "kinds": a blocking and a nonblocking one, whose work is not the same;
 * "crowd": twelve, each with work of its own; "priorities": of two priorities in turn, and a launch
 * that asks for one; "modules": the kernel's module is loaded anew every 20 steps; "contexts": in
 * two contexts in turn; "many": 4,200 that live at a time; "threads": each by a thread of its own;
 * "last": one, and then one that stays and has other work.
 */
#include "sim_test.h"

#include <pthread.h>

enum { N = 32, BODY = 8, BUFFERS = 12 };

static CUdeviceptr buffer[BUFFERS];
static int step;

static CUstream made_with(unsigned flags, int priority)
{
    CUstream s;
    OK(cuStreamCreateWithPriority(&s, flags, priority));
    return s;
}

static void body(CUstream s, int which, int length)
{
    for (int i = 0; i < length; i++)
        OK(launch_mix(buffer[which], N, (uint32_t)(i == 1 ? step : i), s));
}

static void gone(CUstream s)
{
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
}

static void one(void)
{
    CUstream s = made_with(CU_STREAM_NON_BLOCKING, 0);
    body(s, 0, BODY);
    gone(s);
}

static void kinds(void)
{
    CUstream s[2] = {made_with(CU_STREAM_DEFAULT, 0), made_with(CU_STREAM_NON_BLOCKING, 0)};
    body(s[0], 0, BODY);
    body(s[1], 1, 2 * BODY);
    gone(s[1]);
    gone(s[0]);
}

static void crowd(void)
{
    CUstream s[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        s[i] = made_with(CU_STREAM_NON_BLOCKING, 0);
    for (int i = 0; i < BUFFERS; i++)
        body(s[i], i, BODY + i);
    for (int i = 0; i < BUFFERS; i++)
        gone(s[i]);
}

static void priorities(void)
{
    CUstream s = made_with(CU_STREAM_NON_BLOCKING, step % 2 ? -2 : -1);
    uint32_t n = N, k = 5;
    void *args[] = {&buffer[0], &n, &k};
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = -1}};
    CUlaunchConfig config = one_block(N, &attr, 1, s);
    for (int round = 0; round < 12; round++) {
        body(s, 0, BODY);
        OK(cuLaunchKernelEx(&config, mix, args, NULL));
        OK(cuStreamSynchronize(s));
    }
    gone(s);
}

static void modules(void)
{
    if (step % 20 == 19) {
        OK(cuModuleUnload(mod));
        OK(cuModuleLoadData(&mod, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&mix, mod, "ag_mix"));
    }
    one();
}

static void contexts(void)
{
    static struct {
        CUcontext ctx;
        CUfunction mix;
        CUdeviceptr buffer;
    } other;
    CUcontext popped;
    if (other.ctx == NULL) {
        CUmodule m;
        OK(create_context(&other.ctx));
        OK(cuModuleLoadData(&m, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&other.mix, m, "ag_mix"));
        OK(cuMemAlloc(&other.buffer, 4 * N));
        OK(cuMemsetD32(other.buffer, 1, N));
        OK(cuCtxSynchronize());
        OK(cuCtxPopCurrent(&popped));
    }
    one();
    CUfunction function = mix;
    CUdeviceptr first = buffer[0];
    OK(cuCtxPushCurrent(other.ctx));
    mix = other.mix;
    buffer[0] = other.buffer;
    one();
    OK(cuCtxPopCurrent(&popped));
    mix = function;
    buffer[0] = first;
    if (step % 50 == 49) { /* with what its streams have learnt */
        OK(cuCtxDestroy(other.ctx));
        other.ctx = NULL;
    }
}

/* More than the library has states for. */
static void many(void)
{
    enum { MANY = 4200 };
    static CUstream s[MANY];
    for (int i = 0; i < MANY; i++) {
        s[i] = made_with(CU_STREAM_NON_BLOCKING, 0);
        body(s[i], i % BUFFERS, 2);
        OK(cuStreamSynchronize(s[i]));
    }
    for (int i = 0; i < MANY; i++)
        gone(s[i]);
}

static void *thread(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    one();
    return arg;
}

static void threads(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, thread, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

static void last(void)
{
    static CUstream s;
    if (step < 100) {
        one();
        return;
    }
    if (s == NULL)
        s = made_with(CU_STREAM_DEFAULT, 0);
    body(s, 1, BODY + 2);
    OK(cuStreamSynchronize(s));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"one", one},         {"kinds", kinds},       {"crowd", crowd}, {"priorities", priorities},
        {"modules", modules}, {"contexts", contexts}, {"many", many},   {"threads", threads},
        {"last", last}};
    unsigned i = 0;
    uint32_t host[N], sum = 0;
    CHECK(argc == 3);
    while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, argv[1]) != 0)
        i++;
    CHECK(i < sizeof all / sizeof all[0]);
    start();
    for (int b = 0; b < BUFFERS; b++) {
        OK(cuMemAlloc(&buffer[b], sizeof host));
        OK(cuMemsetD32(buffer[b], (unsigned)b + 1, N));
    }
    OK(cuCtxSynchronize());
    for (step = 0; step < atoi(argv[2]); step++)
        all[i].run();
    for (int b = 0; b < BUFFERS; b++) {
        OK(cuMemcpyDtoH(host, buffer[b], sizeof host));
        for (int k = 0; k < N; k++)
            sum = sum * 31 + host[k];
    }
    printf("%08x\n", sum);
    return 0;
}
