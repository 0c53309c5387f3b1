/* SPDX-License-Identifier: MIT */
/* live_context.c: contexts, devices and modules that begin and end around held
 * work. Prints what came out, which is the same with the library as without it. */
#include "live.h"

/* -- Contexts and devices -- */

static void on_device(CUdevice device, bool primary, unsigned rounds)
{
    CUcontext c, popped;
    CUmodule m;
    CUfunction f, before = mix;
    CUdeviceptr at;
    if (primary) {
        OK(cuDevicePrimaryCtxRetain(&c, device));
        OK(cuCtxPushCurrent(c));
    } else {
        CUdevice saved = dev;
        dev = device;
        OK(create_context(&c));
        dev = saved;
    }
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&f, m, "ag_mix"));
    mix = f;
    OK(cuMemAlloc(&at, 4 * N));
    OK(cuMemsetD32(at, 1, N));
    OK(cuCtxSynchronize());
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < rounds; i++) {
        loop(s, at);
        OK(cuStreamSynchronize(s));
        loop(NULL, at);
        OK(cuCtxSynchronize());
    }
    show(primary ? "primary" : "context", at);
    loop(s, at); /* held when the context goes */
    mix = before;
    OK(cuCtxPopCurrent(&popped));
    if (primary)
        OK(cuDevicePrimaryCtxRelease(device));
    else
        OK(cuCtxDestroy(c));
}

static void contexts(void)
{
    for (unsigned i = 0; i < 6; i++) {
        on_device(0, false, 2);
        loop(NULL, buffer[0]);
    }
}

static void devices(void)
{
    int n;
    OK(cuDeviceGetCount(&n));
    for (int i = 0; i < 3 * n; i++)
        on_device((CUdevice)(i % n), i % n != 0, 2);
    printf("%d devices\n", n);
}

/* Work in two contexts at once, from a thread that goes back and forth. */
static void back_and_forth(void)
{
    CUcontext other, popped;
    CUmodule m;
    CUfunction f[2] = {mix};
    CUdeviceptr at[2] = {buffer[0]};
    OK(create_context(&other));
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&f[1], m, "ag_mix"));
    OK(cuMemAlloc(&at[1], 4 * N));
    OK(cuMemsetD32(at[1], 1, N));
    OK(cuCtxSynchronize());
    CUstream s[2] = {NULL, made(CU_STREAM_DEFAULT)};
    OK(cuCtxPopCurrent(&popped));
    for (uint32_t step = 0; step < STEPS; step++)
        for (unsigned i = 0; i < 2; i++) {
            mix = f[i];
            if (i)
                OK(cuCtxPushCurrent(other));
            body(s[i], at[i], step);
            body(NULL, at[i], step);
            if (step % 16 == 15) /* a context's own work only */
                OK(cuCtxSynchronize());
            if (i)
                OK(cuCtxPopCurrent(&popped));
        }
    mix = f[0];
    OK(cuCtxPushCurrent(other));
    show("other", at[1]);
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxDestroy(other));
}

/* Ops in a stream, the middle ones of them while another context than its own is current, or none:
 * what the driver answers. */
static void current(void)
{
    CUcontext other, popped;
    CUevent event;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    OK(create_context(&other));
    OK(cuCtxPopCurrent(&popped));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 8 * STEPS; step++) {
        unsigned way = step % 8 == 7 ? 1 + step / 8 % 3 : 0;
        CUresult answers[5] = {0};
        OK(cuMemsetD32Async(buffer[1], step, N, s));
        OK(launch_mix(buffer[0], N, 1, s));
        OK(launch_mix(buffer[1], N, 2, s));
        if (way == 1)
            OK(cuCtxPushCurrent(other));
        else if (way != 0)
            OK(cuCtxSetCurrent(way == 2 ? other : NULL));
        answers[0] = launch_mix(buffer[0], N, 3, s);
        answers[1] = cuMemsetD32Async(buffer[2], step, N, s);
        answers[2] = cuMemcpyDtoDAsync(buffer[3], buffer[1], 4 * N, s);
        answers[3] = cuEventRecord(event, s);
        answers[4] = cuStreamWaitEvent(s, event, 0);
        if (way == 1)
            OK(cuCtxPopCurrent(&popped));
        else if (way != 0)
            OK(cuCtxSetCurrent(ctx));
        OK(launch_mix(buffer[3], N, 4, s));
        OK(launch_mix(buffer[2], N, 5, s));
        if (way != 0) {
            for (unsigned i = 0; i < 5; i++)
                printf("%d ", answers[i]);
            printf("way %u\n", way);
        }
    }
    OK(cuStreamSynchronize(s));
    OK(cuCtxDestroy(other));
}

static void reset(void)
{
    for (unsigned round = 0; round < 4; round++) {
        loop(NULL, buffer[0]);
        loop(made(CU_STREAM_NON_BLOCKING), buffer[1]);
        show("before", buffer[0]);
        body(NULL, buffer[0], 1);
        OK(cuDevicePrimaryCtxReset(dev));
        /* All is gone; the context's handle is good again. */
        start();
        for (unsigned i = 0; i < 4; i++) {
            OK(cuMemAlloc(&buffer[i], 4 * N));
            OK(cuMemsetD32(buffer[i], i + 1, N));
        }
        OK(cuCtxSynchronize());
    }
    loop(NULL, buffer[0]);
}

/* -- Modules -- */

/* A kernel of two parameters, and another one of three. */
static const char
    life_of_two[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                    ".visible .entry life(.param .u64 at, .param .u32 k)\n"
                    "{\n  .reg .b32 %r<4>;\n  .reg .b64 %rd<2>;\n"
                    "  ld.param.u64 %rd1, [at];\n  ld.param.u32 %r1, [k];\n"
                    "  ld.global.u32 %r2, [%rd1];\n  mad.lo.s32 %r3, %r2, 31, %r1;\n"
                    "  st.global.u32 [%rd1], %r3;\n  ret;\n}\n",
    life_of_three[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n"
        ".visible .entry life(.param .u32 k, .param .u64 wide, .param .u64 at)\n"
        "{\n  .reg .b32 %r<6>;\n  .reg .b64 %rd<3>;\n"
        "  ld.param.u32 %r1, [k];\n  ld.param.u64 %rd2, [wide];\n  ld.param.u64 %rd1, [at];\n"
        "  cvt.u32.u64 %r4, %rd2;\n  add.s32 %r5, %r1, %r4;\n"
        "  ld.global.u32 %r2, [%rd1];\n  mad.lo.s32 %r3, %r2, 37, %r5;\n"
        "  st.global.u32 [%rd1], %r3;\n  ret;\n}\n";

/* The simulated driver runs this in place of both. */
void agsim_kernel_life(const struct agsim_launch *launch, void **params)
{
    bool two = launch->nparams == 2;
    uint32_t *at = (uint32_t *)*(uint64_t *)params[two ? 0 : 2];
    at[0] = two ? at[0] * 31 + *(uint32_t *)params[1]
                : at[0] * 37 + *(uint32_t *)params[0] + (uint32_t) * (uint64_t *)params[1];
}

/* The handle comes back with other parameters, on the simulated driver. */
static void modules(void)
{
    const char *image[2] = {life_of_two, life_of_three};
    CUfunction last = NULL;
    unsigned same = 0;
    for (unsigned round = 0; round < 12; round++) {
        CUmodule m;
        CUfunction f;
        OK(cuModuleLoadData(&m, image[round % 2]));
        OK(cuModuleGetFunction(&f, m, "life"));
        same += f == last;
        last = f;
        for (uint32_t step = 0; step < STEPS; step++) {
            uint64_t wide = step * 3;
            void *two[] = {&buffer[0], &step}, *three[] = {&step, &wide, &buffer[0]};
            OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, round % 2 ? three : two, NULL));
            OK(launch_mix(buffer[1], N, step, NULL));
        }
        if (round % 3 == 0)
            OK(cuCtxSynchronize());
        OK(cuModuleUnload(m)); /* held launches of it still have to happen */
    }
    CHECK(same > 0);
}

static void attributes(void)
{
    unsigned failures = 0;
    for (unsigned round = 0; round < 10; round++) {
        bool more = round % 2;
        OK(cuFuncSetAttribute(mix, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              more ? 100000 : 0));
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t n = N;
            void *args[] = {&buffer[0], &n, &step};
            failures +=
                cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 90000, NULL, args, NULL) != CUDA_SUCCESS;
            OK(launch_mix(buffer[0], N, 3, NULL));
        }
    }
    printf("%u launches failed\n", failures);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"contexts", contexts},     {"devices", devices}, {"back_and_forth", back_and_forth},
        {"current", current},       {"reset", reset},     {"modules", modules},
        {"attributes", attributes}, {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
