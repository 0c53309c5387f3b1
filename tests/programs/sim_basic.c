/* SPDX-License-Identifier: MIT */
/* sim_basic.c: kernels, copies, memsets, streams and events do what they say. */
#include "sim_test.h"

enum { N = 256 };

static void kernels(void)
{
    CUdeviceptr a, b;
    CUfunction f;
    uint32_t host[N];
    OK(cuMemAlloc(&a, sizeof host));
    OK(cuMemAlloc(&b, sizeof host));
    OK(cuMemsetD32(a, 7, N));
    for (uint32_t k = 0; k < 100; k++)
        OK(launch_mix(a, N, k, 0));
    uint32_t n = N;
    void *copy_args[] = {&b, &a, &n};
    OK(cuLaunchKernel(word_copy, 2, 1, 1, N / 2, 1, 1, 0, 0, copy_args, NULL));
    OK(cuMemcpyDtoH(host, b, sizeof host));
    uint32_t want = 7;
    for (uint32_t k = 0; k < 100; k++)
        want = mixed(want, k);
    for (unsigned i = 0; i < N; i++)
        CHECK(host[i] == want);

    /* The arguments of a packed buffer. */
    struct {
        CUdeviceptr buf;
        uint32_t n, k;
    } packed = {a, N, 5};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, 0, NULL, extra));
    OK(cuMemcpyDtoH(host, a, sizeof host));
    CHECK(host[N - 1] == mixed(want, 5));

    /* Floats, a struct by value, parameters of all sizes. */
    float one = 1, two = 2, factor = 3;
    OK(cuMemcpyHtoD(a, &one, 4));
    OK(cuMemcpyHtoD(b, &two, 4));
    n = 1;
    void *axpy_args[] = {&a, &b, &factor, &n};
    OK(cuModuleGetFunction(&f, mod, "ag_axpy"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, axpy_args, NULL));
    OK(cuMemcpyDtoH(&one, a, 4));
    CHECK(one == 7);

    uint32_t words[128], sum = 0;
    for (unsigned i = 0; i < 128; i++)
        sum = sum * 31 + (words[i] = i * i + 1);
    void *struct_args[] = {words, &a};
    OK(cuModuleGetFunction(&f, mod, "ag_struct"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, struct_args, NULL));
    OK(cuMemcpyDtoH(host, a, 4));
    CHECK(host[0] == sum);

    uint8_t p1 = 200, p5 = 100, p9 = 255;
    uint16_t p2 = 60000, p7 = 3;
    uint32_t p3 = 4000000000u, p8 = 9;
    uint64_t p4 = 1ull << 60, p6 = 12345678901234567ull, h = 0, got;
    void *many[] = {&a, &p1, &p2, &p3, &p4, &p5, &p6, &p7, &p8, &p9};
    OK(cuModuleGetFunction(&f, mod, "ag_many"));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, many, NULL));
    OK(cuMemcpyDtoH(&got, a, 8));
    const uint64_t values[] = {p1, p2, p3, p4, p5, p6, p7, p8, p9};
    for (unsigned i = 0; i < 9; i++)
        h = h * 31 + values[i];
    CHECK(got == h);
    const size_t offsets[] = {0, 8, 10, 12, 16, 24, 32, 40, 44, 48};
    for (unsigned i = 0; i < 10; i++) {
        size_t offset, bytes;
        OK(cuFuncGetParamInfo(f, i, &offset, &bytes));
        CHECK(offset == offsets[i]);
    }
    size_t none;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 10, &none, NULL));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

static void copies(void)
{
    CUdeviceptr a, b;
    CUstream s;
    uint32_t *pinned, pageable[N], back[N];
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocHost((void **)&pinned, sizeof pageable));
    OK(cuMemAlloc(&a, sizeof pageable));
    OK(cuMemAlloc(&b, sizeof pageable));
    for (unsigned i = 0; i < N; i++)
        pinned[i] = i;
    OK(cuMemcpyHtoDAsync(a, pinned, sizeof pageable, s));
    OK(cuMemcpyDtoDAsync(b, a, sizeof pageable, s));
    OK(launch_mix(b, N, 1, s));
    /* A pageable destination is complete when the call returns. */
    OK(cuMemcpyDtoHAsync(back, b, sizeof pageable, s));
    for (unsigned i = 0; i < N; i++)
        CHECK(back[i] == mixed(i, 1));
    /* A pageable source may be changed as soon as the call has returned. */
    for (unsigned i = 0; i < N; i++)
        pageable[i] = i + 1000;
    OK(cuMemcpyHtoDAsync(a, pageable, sizeof pageable, s));
    memset(pageable, 0, sizeof pageable);
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, a, sizeof pageable, s));
    OK(cuStreamSynchronize(s));
    CHECK(pinned[0] == 1000 && pinned[N - 1] == N + 999);

    /* A rectangle, and memsets of all widths. */
    CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = a,
                       .srcPitch = 64,
                       .srcXInBytes = 8,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = b,
                       .dstPitch = 32,
                       .WidthInBytes = 16,
                       .Height = 4};
    OK(cuMemcpy2DAsync(&r, s));
    OK(cuMemsetD8Async(b + 16, 0xab, 16, s));
    OK(cuMemsetD16Async(b + 48, 0x1234, 8, s));
    OK(cuMemsetD2D32Async(b + 512, 32, 99, 2, 3, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(back, b, sizeof back));
    for (unsigned y = 0; y < 4; y++)
        for (unsigned x = 0; x < 4; x++)
            CHECK(back[y * 8 + x] == 1000 + (y + 1) * 16 + x + 2);
    CHECK(back[4] == 0xabababab && back[12] == 0x12341234);
    CHECK(back[128] == 99 && back[129] == 99 && back[136] == 99 && back[144] == 99);
    CHECK(back[130] != 99);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(a, b, (size_t)1 << 40, s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(a + 2, 0, 1, s));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuStreamDestroy(s));
}

static void events(void)
{
    CUstream s, t;
    CUevent e, f;
    volatile uint32_t *w = host_words(4);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&f, CU_EVENT_DEFAULT));
    OK(cuEventQuery(e)); /* never recorded: complete */
    OK(cuEventSynchronize(e));
    OK(launch_word(spin, &w[0], 1, s));
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(launch_word(flag, &w[1], 5, t));
    OK(cuEventRecord(f, t));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
    float ms;
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, e, f));
    usleep(2000);
    CHECK(get_word(&w[1]) == 0);
    set_word(&w[0], 1);
    OK(cuEventSynchronize(f));
    CHECK(get_word(&w[1]) == 5);
    OK(cuEventQuery(e));
    OK(cuStreamQuery(s));
    OK(cuEventElapsedTime(&ms, e, f));
    CHECK(ms >= 0);
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
    OK(cuEventDestroy(e));
    OK(cuEventDestroy(f));
    OK(cuMemFreeHost((void *)w));
}

static void host_function(void *p)
{
    set_word(p, get_word(p) + 1);
}

static void callback(CUstream s, CUresult r, void *p)
{
    (void)s;
    set_word(p, r == CUDA_SUCCESS ? get_word(p) * 10 : 0);
}

static void hosts(void)
{
    CUstream s;
    uint32_t value = 0;
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    for (unsigned i = 0; i < 3; i++) {
        OK(cuLaunchHostFunc(s, host_function, &value));
        OK(cuStreamAddCallback(s, callback, &value, 0));
    }
    OK(cuStreamSynchronize(s));
    CHECK(get_word(&value) == 1110);
    /* A destroyed stream's work still happens. */
    volatile uint32_t *w = host_words(2);
    OK(launch_word(spin, &w[0], 1, s));
    OK(launch_word(flag, &w[1], 3, s));
    OK(cuStreamDestroy(s));
    set_word(&w[0], 1);
    while (get_word(&w[1]) != 3)
        ;
    OK(cuMemFreeHost((void *)w));
}

int main(void)
{
    start();
    kernels();
    copies();
    events();
    hosts();
    OK(cuDevicePrimaryCtxRelease(dev));
    puts("ok");
    return 0;
}
