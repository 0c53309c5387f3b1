/* SPDX-License-Identifier: MIT */
/* ipc_memory.c: a loop with memory of another process, which this one opens and closes again, at
 * the same address, and into which the other one writes meanwhile. */
#include "sim_test.h"

#include <sys/wait.h>

enum { ROUNDS = 4, TRIPS = 60, WORDS = 64, BYTES = WORDS * 4 };

static int to, from; /* pipes to the other process, and from there */

static void tell(const void *what, size_t size)
{
    CHECK(write(to, what, size) == (ssize_t)size);
}

static void hear(void *what, size_t size)
{
    CHECK(read(from, what, size) == (ssize_t)size);
}

/* -- The process that has the memory ------------------------------------------------ */

static void owner(void)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUdeviceptr memory;
        CUipcMemHandle handle;
        char done;
        OK(cuMemAlloc(&memory, BYTES << round % 2));
        OK(cuMemsetD32(memory, round, WORDS << round % 2));
        OK(cuCtxSynchronize());
        OK(cuIpcGetMemHandle(&handle, memory));
        tell(&handle, sizeof handle);
        hear(&done, 1);
        OK(cuMemsetD32(memory, 100 * round, WORDS / 2));
        OK(cuCtxSynchronize());
        tell(&done, 1);
        hear(&done, 1); /* it has closed it */
        OK(cuMemFree(memory));
    }
}

/* -- The process that uses it ---------------------------------------------------------- */

static CUstream stream;
static CUdeviceptr work;
static uint32_t *pinned, sum;

static void trips(CUdeviceptr memory, uint32_t first)
{
    uint32_t result[WORDS];
    for (uint32_t trip = first; trip < first + TRIPS; trip++) {
        OK(cuMemsetD32Async(work, trip, WORDS, stream));
        OK(cuMemcpyDtoDAsync(work + BYTES / 4, memory, BYTES / 2, stream));
        OK(cuMemsetD32Async(memory + BYTES / 2, trip, WORDS / 4, stream));
        OK(cuMemcpyHtoDAsync(memory + 3 * BYTES / 4, pinned, BYTES / 4, stream));
        OK(cuMemsetD8Async(work, (unsigned char)trip, 16, stream));
        OK(cuMemcpyDtoHAsync(result, trip % 2 ? work : memory, BYTES, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < WORDS; i++)
            sum = sum * 31 + result[i];
        pinned[trip % (WORDS / 4)] += trip;
    }
}

static void user(void)
{
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&work, BYTES));
    OK(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUdeviceptr memory;
        CUipcMemHandle handle;
        char done = 0;
        hear(&handle, sizeof handle);
        OK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        trips(memory, 0);
        tell(&done, 1);
        hear(&done, 1);
        trips(memory, TRIPS);
        OK(cuIpcCloseMemHandle(memory));
        /* Nobody's memory. */
        printf("closed: %d %d\n", cuMemsetD32Async(memory, 1, WORDS, stream),
               cuMemcpyDtoDAsync(work, memory, BYTES, stream));
        tell(&done, 1);
    }
    printf("%08x\n", sum);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        to = atoi(argv[1]);
        from = atoi(argv[2]);
        start();
        owner();
        return 0;
    }
    int there[2], back[2], status;
    char out[16], in[16];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0) { /* without the library, and without a log of its own */
        (void)snprintf(out, sizeof out, "%d", back[1]);
        (void)snprintf(in, sizeof in, "%d", there[0]);
        unsetenv("AGSIM_LOG");
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", argv[0], out, in, (char *)NULL);
        _exit(2);
    }
    to = there[1];
    from = back[0];
    start();
    user();
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
