/* SPDX-License-Identifier: MIT */
/*
 * A thread that goes on launching in the stream of one context while another one is current, or
 * none: what becomes of these launches is the driver's affair, whoever made the context current.
 */
#include <string>

#include "pattern.h"
#include "tests/bench/driver_function.h"

#define DRIVER(name)       ((__typeof__(name) *)driver_function(#name))
#define CHECK_DRIVER(call) CHECK((cudaError_t)(call))

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Launches while another context is current.",
                                     {1000, 16, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t stream = new_stream();
    auto set = DRIVER(cuCtxSetCurrent);
    auto get = DRIVER(cuCtxGetCurrent);
    auto push = DRIVER(cuCtxPushCurrent);
    auto pop = DRIVER(cuCtxPopCurrent);
    auto create = DRIVER(cuCtxCreate);
    auto end = DRIVER(cuCtxDestroy);
    auto new_context = [&] {
        CUcontext context;
#if CUDA_VERSION < 13000
        CHECK_DRIVER(create(&context, 0, 0));
#else
        CHECK_DRIVER(create(&context, NULL, 0, 0));
#endif
        return context;
    };
    CUcontext first, other, popped;
    CHECK_DRIVER(get(&first));
    other = new_context();
    /* Its kernel is loaded, and it has work of its own. */
    unsigned *others = device_array<unsigned>(o.size);
    cudaStream_t others_stream = new_stream();
    launch_mix(others_stream, others, o.size, 0);
    CHECK_DRIVER(set(first));

    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    std::string answers[6];
    auto elsewhere = [&](long way) {
        CUcontext third = NULL, now;
        switch (way) {
        case 0:
            CHECK_DRIVER(set(other));
            launch_mix(others_stream, others, o.size, 1);
            break;
        case 1:
            CHECK_DRIVER(push(other));
            break;
        case 2:
            CHECK_DRIVER(set(NULL));
            break;
        case 3:
            CHECK_DRIVER(pop(&popped));
            break;
        case 4:
            third = new_context();
            break;
        case 5:
            CHECK(cudaSetDevice(devices - 1));
            break;
        }
        launch_mix(stream, data, o.size, (unsigned)way);
        std::string answer = std::to_string(cudaGetLastError());
        CHECK_DRIVER(get(&now));
        answer += now == first   ? ",first"
                  : now == other ? ",other"
                  : now == NULL  ? ",none"
                  : now == third ? ",third"
                                 : ",unknown";
        if (answers[way] != "" && answers[way] != answer)
            answer = "changing";
        answers[way] = answer;
        CHECK(cudaStreamSynchronize(stream)); /* also in the other context */
        if (way == 1)
            CHECK_DRIVER(pop(&popped));
        if (way == 4)
            CHECK_DRIVER(end(third));
        if (way == 5)
            CHECK(cudaSetDevice(0));
        CHECK_DRIVER(set(first));
    };

    auto work = [&] {
        for (long k = 0; k < o.kernels; k++)
            launch_mix(stream, data, o.size, k);
    };
    cudaGraphExec_t exec = o.graph ? capture(stream, work) : NULL;
    double us = time_loop(
        o,
        [&](long i) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                work();
            long way = i / 8 % 6;
            if (i % 8 == 7 && (way != 4 || i < 48)) /* a new context takes long */
                elsewhere(way);
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    for (int way = 0; way < 6; way++)
        printf("way%d %s\n", way, answers[way].c_str());
    CHECK_DRIVER(set(other));
    CHECK(cudaDeviceSynchronize()); /* nothing else waits for its stream */
    uint64_t sum = checksum(others, o.size);
    CHECK_DRIVER(set(first));
    report(checksum(data, o.size, sum), o, us);
    return 0;
}
