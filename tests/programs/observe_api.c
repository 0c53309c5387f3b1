/* SPDX-License-Identifier: MIT */
/* observe_api.c: uses the public interface, in a loop that is replayed, and prints what it gets.
 * Works without the library as well. Also a sample of how a program uses it. */
#include "autograph.h"
#include "sim_test.h"

#include <sys/wait.h>

enum { N = 32, BODY = 6, STEPS = 100 };

static CUdeviceptr buffer;
static CUstream stream;

static struct autograph_statistics statistics(void)
{
    struct autograph_statistics now = {.size = sizeof now};
    autograph_get_statistics(&now);
    return now;
}

/* A loop of kernels of n threads; prints what has become of its ops. */
static void loop(const char *name, uint32_t n)
{
    struct autograph_statistics before = statistics();
    autograph_region_begin(name);
    for (int step = 0; step < STEPS; step++)
        for (uint32_t i = 0; i < BODY; i++)
            OK(launch_mix(buffer, n, i, stream));
    autograph_region_end();
    autograph_flush();
    struct autograph_statistics after = statistics();
    printf("%s %lu %lu\n", name, (unsigned long)(after.ops - before.ops),
           (unsigned long)(after.replayed - before.replayed));
}

int main(void)
{
    const char *version = autograph_version_string();
    printf("version %d %s\n", autograph_version(), version ? version : "none");
    autograph_region_end(); /* of nothing */
    autograph_resume();     /* nothing was paused */
    autograph_flush();
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    autograph_pause();
    OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); /* seen in a pause alone */
    autograph_resume();
    loop("first", N);
    autograph_pause();
    autograph_pause();
    loop("paused", N);
    autograph_resume();
    loop("still paused", N);
    autograph_resume();
    autograph_resume(); /* one too many */
    autograph_region_begin("outer");
    loop("inner", N);
    loop("inner", N / 2); /* nothing is known of it, and so many ops of the pauses have passed */
    autograph_region_end();
    autograph_region_begin(NULL);
    for (int i = 0; i < 40; i++)
        autograph_region_begin("deep");
    for (int i = 0; i < 40; i++)
        autograph_region_end();
    autograph_region_end();

    /* Held ops go out, though nobody waits for them: the next op finds nothing held. */
    OK(launch_mix(buffer, N, 0, stream));
    OK(launch_mix(buffer, N, 1, stream));
    struct autograph_statistics before = statistics();
    autograph_flush();
    printf("flushes %lu\n", (unsigned long)(statistics().flushes - before.flushes));

    /* A program that knows less of the struct, or more. */
    struct {
        struct autograph_statistics known;
        uint64_t later;
    } more = {.known = {.size = sizeof more}, .later = 7};
    struct autograph_statistics less = {.size = offsetof(struct autograph_statistics, replays),
                                        .replays = 7};
    int there = autograph_get_statistics(&more.known);
    CHECK(autograph_get_statistics(&less) == there);
    CHECK(more.later == 0 && more.known.size == sizeof more);
    CHECK(less.ops == more.known.ops && less.replays == 7);
    uint32_t words[N], sum = 0;
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + words[i];
    printf("sum %08x\n", sum);
    fflush(stdout);

    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        autograph_pause();
        autograph_region_begin("child");
        autograph_flush();
        autograph_region_end();
        autograph_resume();
        _exit(statistics().ops != 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
