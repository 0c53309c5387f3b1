/* SPDX-License-Identifier: MIT */
/* Programs whose memsets and copies have no stream.
 *   default_stream WORD: see the table at the end
 * Prints a checksum of what the host has seen. */
#include "sim_test.h"

enum { N = 64, STEPS = 600, PITCH = 512 };

static CUdeviceptr a, b, managed;
static uint32_t *pinned;
static CUdeviceptr pinned_device;
static uint32_t sum;

static void see(uint32_t word)
{
    sum = sum * 31 + word;
}

/* Three kernels of the default stream around what is tried. */
static void kernels(uint32_t step)
{
    OK(launch_mix(a, N, step, NULL));
    OK(launch_mix(b, N, 2, NULL));
    OK(launch_mix(a, N, 3, NULL));
}

static void every_16(uint32_t step)
{
    uint32_t words[N];
    if (step % 16 != 15)
        return;
    OK(cuMemcpyDtoH(words, a, sizeof words));
    for (unsigned i = 0; i < N; i++)
        see(words[i]);
}

/* -- Memory of the device: the host does not wait ------------------------------ */

static void memsets(uint32_t step)
{
    OK(cuMemsetD32(a, step, N));
    kernels(step);
    OK(cuMemsetD8(b, (unsigned char)step, 4 * N));
    OK(cuMemsetD16(b + 16, 7, 8));
    OK(launch_mix(b, N, step, NULL));
    OK(cuMemsetD2D32(a, PITCH, step, 4, 2));
    OK(cuMemsetD2D8(a + 64, PITCH, 3, 4, 2));
    OK(cuMemsetD2D16(a + 128, PITCH, 5, 4, 2));
}

static void copies(uint32_t step)
{
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = a,
                          .srcPitch = PITCH,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = b,
                          .dstPitch = PITCH,
                          .WidthInBytes = 32,
                          .Height = 2};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = b,
                         .srcPitch = PITCH,
                         .srcHeight = 1,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = a + 64,
                         .dstPitch = PITCH,
                         .dstHeight = 1,
                         .WidthInBytes = 32,
                         .Height = 1,
                         .Depth = 2};
    OK(cuMemcpyDtoD(a, b, 4 * N));
    kernels(step);
    OK(cuMemcpy(b, a, 2 * N));
    OK(launch_mix(b, N, step, NULL));
    OK(cuMemcpy2D(&rows));
    OK(cuMemcpy3D(&box));
}

/* -- Memory that the host can reach: it waits, and looks at once ----------------- */

static void reachable(uint32_t step)
{
    kernels(step);
    OK(cuMemsetD32(managed, step, N));
    see(((volatile uint32_t *)managed)[step % N]);
    kernels(step);
    OK(cuMemsetD32(pinned_device, step + 1, N));
    see(((volatile uint32_t *)pinned)[step % N]);
    kernels(step);
    OK(cuMemcpy((CUdeviceptr)pinned, a, 4 * N));
    see(((volatile uint32_t *)pinned)[step % N]);
    for (unsigned i = 0; i < N; i++)
        pinned[i] = step * i;
    OK(cuMemcpy(b, (CUdeviceptr)pinned, 4 * N));
    memset(pinned, 0xff, 4 * N); /* which the copy must not see */
    OK(launch_mix(b, N, step, NULL));
}

/* The host waits for each call; so what was recorded before it has happened. */
static void waited_for(uint32_t step)
{
    static CUevent event;
    if (event == NULL)
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    kernels(step);
    OK(cuEventRecord(event, NULL));
    OK(cuMemsetD32(a, step, N));
    see(cuEventQuery(event));
    kernels(step);
    OK(cuEventRecord(event, NULL));
    OK(cuMemcpyDtoD(b, a, 4 * N));
    see(cuEventQuery(event));
}

/* The program asks for that in the context, and takes it back. */
static void context_synchronizes(uint32_t step)
{
    if (step % 64 == 0)
        OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
    if (step % 64 < 48)
        waited_for(step);
    else
        memsets(step);
    if (step % 64 == 47)
        OK(cuCtxSetFlags(0));
}

/* The program asks for that of one buffer; a copy from there waits, too. */
static void memory_synchronizes(uint32_t step)
{
    unsigned on = step % 64 == 0;
    if (step % 64 == 0 || step % 64 == 47)
        OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    if (step % 64 < 47)
        waited_for(step);
    else
        memsets(step);
}

/* -- Order with other streams ---------------------------------------------------- */

/* A blocking stream's work comes before the default stream's, and behind it. */
static void streams(uint32_t step)
{
    static CUstream stream;
    if (stream == NULL)
        OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(launch_mix(a, N, step, stream));
    OK(launch_mix(a, N, 2, stream));
    OK(cuMemsetD32(a, step, N / 2));
    OK(cuMemcpyDtoD(b, a, 4 * N));
    OK(launch_mix(b, N, 3, stream));
    OK(launch_mix(a, N, 4, stream));
}

/* Refused each time, and each time with the driver's own code. */
static void refused(uint32_t step)
{
    kernels(step);
    see(cuMemsetD32(a + 2, step, N / 2));
    see(cuMemsetD32(0, step, N));
    see(cuMemcpyDtoD(a, 0, 4));
    kernels(step);
    see(cuMemsetD8(a, 1, 0));
}

static const struct {
    const char *name;
    void (*step)(uint32_t step);
} words[] = {{"memsets", memsets},
             {"copies", copies},
             {"reachable", reachable},
             {"streams", streams},
             {"refused", refused},
             {"context_synchronizes", context_synchronizes},
             {"memory_synchronizes", memory_synchronizes}};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    start();
    OK(cuMemAlloc(&a, 4 * PITCH));
    OK(cuMemAlloc(&b, 4 * PITCH));
    OK(cuMemsetD32(a, 1, PITCH));
    OK(cuMemsetD32(b, 2, PITCH));
    OK(cuMemAllocManaged(&managed, 4 * N, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemHostAlloc((void **)&pinned, 4 * N, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&pinned_device, pinned, 0));
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(argv[1], words[i].name) != 0)
            continue;
        for (uint32_t step = 0; step < STEPS; step++) {
            words[i].step(step);
            every_16(step);
        }
        OK(cuCtxSynchronize());
        printf("sum %08x\n", sum);
        return 0;
    }
    return 2;
}
