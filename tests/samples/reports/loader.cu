/* SPDX-License-Identifier: MIT */
/*
 * A library that is opened waits, in its constructor and so with the loader's lock, for a thread
 * that launches from places where nobody has launched before. REPORT_PLUGIN names the library.
 */
#include <dlfcn.h>
#include <thread>
#include <unistd.h>

#include "../patterns/pattern.h"

static unsigned *data[2];
static cudaStream_t stream[2];
static bool known; /* the program has launched from this place */

static void work(unsigned which)
{
    for (unsigned step = 0; step < 60; step++)
        for (unsigned k = 0; k < 5; k++)
            LAUNCH(mix, 8, BLOCK, 0, stream[which], data[which], 1000u, k == 2 ? step : k);
    CHECK(cudaStreamSynchronize(stream[which]));
}

/* By a function of the runtime that nobody has called before. */
static void other_work(void)
{
    unsigned size = 1000;
    for (unsigned step = 0; step < 60; step++)
        for (unsigned k = 0; k < 5; k++) {
            unsigned value = k == 2 ? step : k;
            void *arguments[] = {&data[1], &size, &value};
            CHECK(
                cudaLaunchKernel((const void *)mix, dim3(8), dim3(BLOCK), arguments, 0, stream[1]));
        }
    CHECK(cudaStreamSynchronize(stream[1]));
}

extern "C" void report_constructed(void)
{
    std::thread([] {
        if (known)
            work(1);
        other_work();
    }).join();
}

int main(void)
{
    const char *plugin = getenv("REPORT_PLUGIN");
    alarm(40);
    for (unsigned i = 0; i < 2; i++) {
        data[i] = device_array<unsigned>(1000);
        stream[i] = new_stream();
    }
    work(0); /* the kernel is loaded, the driver and the runtime are ready */
    known = true;
    for (unsigned i = 0; plugin && i < 3; i++) {
        void *handle = dlopen(plugin, RTLD_NOW);
        EXPECT(handle != NULL);
        EXPECT(dlclose(handle) == 0);
    }
    for (unsigned *each : data)
        printf("%016llx\n", (unsigned long long)checksum(each, 1000));
    return 0;
}
