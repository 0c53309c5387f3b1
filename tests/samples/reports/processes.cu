/* SPDX-License-Identifier: MIT */
/*
 * Another process reads what kernels of this one wrote: behind a wait of the host, and behind an
 * event that both know. A pipe in each direction carries the turns.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../patterns/pattern.h"

enum { SIZE = 1000, STEPS = 200 };

struct handles {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

static void send(int pipe, const void *data, size_t size)
{
    EXPECT(write(pipe, data, size) == (ssize_t)size);
}

static void receive(int pipe, void *data, size_t size)
{
    EXPECT(read(pipe, data, size) == (ssize_t)size);
}

static int reader(int in, int out)
{
    struct handles handles;
    unsigned *data, *copy, step = 0;
    cudaEvent_t event;
    uint64_t sum = CHECKSUM_START;
    receive(in, &handles, sizeof handles);
    CHECK(cudaIpcOpenMemHandle((void **)&data, handles.memory, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&event, handles.event));
    copy = device_array<unsigned>(SIZE);
    cudaStream_t stream = new_stream();
    for (unsigned i = 0; i < STEPS; i++) {
        receive(in, &step, sizeof step);
        if (step % 2)
            CHECK(cudaStreamWaitEvent(stream, event, 0));
        CHECK(cudaMemcpyAsync(copy, data, SIZE * 4, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        sum = checksum(copy, SIZE, sum);
        send(out, &step, sizeof step);
    }
    printf("%016llx\n", (unsigned long long)sum);
    CHECK(cudaIpcCloseMemHandle(data));
    return 0;
}

int main(void)
{
    int there[2], back[2], status;
    EXPECT(pipe(there) == 0 && pipe(back) == 0);
    alarm(40);
    pid_t child = fork(); /* before CUDA begins */
    EXPECT(child >= 0);
    if (child == 0) {
        alarm(40);
        return reader(there[0], back[1]);
    }
    unsigned *data = device_array<unsigned>(SIZE);
    cudaEvent_t event;
    struct handles handles;
    cudaStream_t stream = new_stream();
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetMemHandle(&handles.memory, data));
    CHECK(cudaIpcGetEventHandle(&handles.event, event));
    send(there[1], &handles, sizeof handles);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned answer;
        for (unsigned k = 0; k < 12; k++)
            launch_mix(stream, data, SIZE, k == 5 ? step : k);
        CHECK(cudaEventRecord(event, stream));
        if (step % 2 == 0)
            CHECK(cudaStreamSynchronize(stream));
        send(there[1], &step, sizeof step);
        receive(back[0], &answer, sizeof answer);
        EXPECT(answer == step);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    printf("%016llx\n", (unsigned long long)checksum(data, SIZE));
    return 0;
}
