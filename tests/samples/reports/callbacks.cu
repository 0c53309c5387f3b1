/* SPDX-License-Identifier: MIT */
/*
 * Host functions and callbacks of a stream call the runtime, which permits next to nothing there,
 * in a loop of launches: what they are told is printed.
 */
#include "../patterns/pattern.h"

static cudaStream_t peer; /* its ops are held when a host function calls */
static cudaEvent_t event;
static unsigned *data[2], *pinned;
static const long size = 1000;

static void say(const char *what, cudaError_t answer)
{
    if (answer == cudaErrorNotReady) /* which is a matter of luck */
        answer = cudaSuccess;
    printf("%s %d, last error %d\n", what, answer, cudaGetLastError());
}

static void call_stream(void)
{
    say("query", cudaStreamQuery(peer));
    say("memset", cudaMemsetAsync(data[1], 3, 64, peer));
    say("record", cudaEventRecord(event, peer));
    say("wait for event", cudaStreamWaitEvent(peer, event, 0));
    say("synchronize", cudaStreamSynchronize(peer));
}

static void call_memory(void)
{
    void *pointer;
    say("allocate", cudaMalloc(&pointer, 64));
    say("allocate in stream", cudaMallocAsync(&pointer, 64, peer));
    say("copy up", cudaMemcpyAsync(data[1], pinned, 64, cudaMemcpyHostToDevice, peer));
    say("copy", cudaMemcpyAsync(data[1], data[0], 64, cudaMemcpyDeviceToDevice, peer));
    say("copy down", cudaMemcpyAsync(pinned, data[1], 64, cudaMemcpyDeviceToHost, peer));
}

static void call_others(void)
{
    cudaEvent_t made;
    cudaStream_t stream;
    launch_mix(peer, data[1], size, 9);
    say("launch", cudaPeekAtLastError());
    say("event", cudaEventCreate(&made));
    say("stream", cudaStreamCreate(&stream));
    say("query event", cudaEventQuery(event));
    say("device", cudaDeviceSynchronize());
}

static void (*const calls[])(void) = {call_stream, call_memory, call_others};

static void CUDART_CB host_function(void *which)
{
    calls[(uintptr_t)which]();
}

static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *which)
{
    printf("status %d\n", status);
    host_function(which);
}

static void work(cudaStream_t stream, unsigned *at, unsigned step)
{
    for (unsigned k = 0; k < 5; k++)
        launch_mix(stream, at, size, k == 2 ? step : k);
}

int main(void)
{
    cudaStream_t stream = new_stream();
    peer = new_stream();
    event = new_event();
    for (unsigned *&each : data)
        each = device_array<unsigned>(size);
    pinned = pinned_array(16, 1);
    for (unsigned step = 0; step < 120; step++) {
        void *which = (void *)(uintptr_t)(step / 4 % 3);
        work(peer, data[1], step);
        work(stream, data[0], step);
        if (step % 8 == 3)
            CHECK(cudaLaunchHostFunc(stream, host_function, which));
        else if (step % 8 == 7)
            CHECK(cudaStreamAddCallback(stream, callback, which, 0));
        work(stream, data[0], step + 1);
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaDeviceSynchronize());
    for (unsigned *each : data)
        printf("%016llx\n", (unsigned long long)checksum(each, size));
    return 0;
}
