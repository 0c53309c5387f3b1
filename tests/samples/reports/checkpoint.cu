/* SPDX-License-Identifier: MIT */
/*
 * Another process locks this one's CUDA, takes its state off the GPU and brings it back, again and
 * again, while this one launches. Where that is not allowed, nobody can tell the difference.
 */
#include <atomic>
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "../patterns/pattern.h"

template <typename F> static F *look_up(void *driver, const char *name)
{
    return (F *)dlsym(driver, name);
}

/* The other process: codes of the four calls, in each round until one fails. */
static int manager(pid_t process)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto lock = driver ? look_up<CUresult(int, void *)>(driver, "cuCheckpointProcessLock") : NULL;
    auto save =
        driver ? look_up<CUresult(int, void *)>(driver, "cuCheckpointProcessCheckpoint") : NULL;
    auto bring =
        driver ? look_up<CUresult(int, void *)>(driver, "cuCheckpointProcessRestore") : NULL;
    auto unlock =
        driver ? look_up<CUresult(int, void *)>(driver, "cuCheckpointProcessUnlock") : NULL;
    auto init = driver ? look_up<CUresult(unsigned)>(driver, "cuInit") : NULL;
    if (!lock || !save || !bring || !unlock || !init || init(0) != CUDA_SUCCESS)
        return 77;
    for (unsigned round = 0; round < 3; round++) {
        usleep(100000);
        int answers[] = {lock(process, NULL), save(process, NULL), bring(process, NULL),
                         unlock(process, NULL)};
        for (int answer : answers)
            printf("%d ", answer);
        puts("");
        if (answers[0] || answers[1] || answers[2] || answers[3])
            break;
    }
    return 0;
}

int main(void)
{
    const long size = 1000;
    int status;
    alarm(40);
    pid_t self = getpid(), child = -1;
    int begin[2];
    EXPECT(pipe(begin) == 0);
    child = fork(); /* before CUDA begins */
    EXPECT(child >= 0);
    if (child == 0) {
        char word;
        alarm(40);
        EXPECT(read(begin[0], &word, 1) == 1);
        return manager(self);
    }
    unsigned *data = device_array<unsigned>(size), *fresh = device_array<unsigned>(size);
    cudaStream_t stream = new_stream();
    std::atomic<bool> over(false);
    EXPECT(write(begin[1], "x", 1) == 1);
    std::thread watcher([&] {
        EXPECT(waitpid(child, &status, 0) == child);
        over = true;
    });
    unsigned steps = 0;
    for (; !over || steps < 2000; steps++) { /* one loop over and over, with the same result */
        CHECK(cudaMemcpyAsync(data, fresh, size * 4, cudaMemcpyDeviceToDevice, stream));
        for (unsigned k = 0; k < 7; k++)
            launch_mix(stream, data, size, k);
        if (steps % 16 == 15)
            CHECK(cudaStreamSynchronize(stream));
    }
    watcher.join();
    CHECK(cudaStreamSynchronize(stream));
    printf("%016llx %d\n", (unsigned long long)checksum(data, size), status);
    return 0;
}
