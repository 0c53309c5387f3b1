/* SPDX-License-Identifier: MIT */
/* live_reuse.c SCENARIO: a graph of two streams names an event that is destroyed. Another event has
 * its handle from then on, and a kernel runs behind which that one is recorded. */
#include "live.h"

static CUstream origin, branch, other, reader;
static CUevent joined;
static volatile uint32_t *word;

static CUevent event(void)
{
    CUevent made;
    OK(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    return made;
}

/* A step whose kernels have other arguments each time; `brief`: its event is gone before its end.
 */
static void step(uint32_t k, CUevent forked, bool brief)
{
    OK(launch_mix(buffer[0], N, k, origin));
    OK(launch_mix(buffer[0], N, k + 1, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch, forked, 0));
    if (brief)
        OK(cuEventDestroy(forked));
    OK(launch_mix(buffer[1], N, k + 2, branch));
    OK(launch_mix(buffer[1], N, k + 3, branch));
    OK(cuEventRecord(joined, branch));
    OK(launch_mix(buffer[0], N, k + 4, origin));
    OK(cuStreamWaitEvent(origin, joined, 0));
    OK(launch_mix(buffer[0], N, k + 5, origin));
}

static void begin(void)
{
    origin = made(CU_STREAM_NON_BLOCKING);
    branch = made(CU_STREAM_NON_BLOCKING);
    other = made(CU_STREAM_NON_BLOCKING);
    reader = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    joined = event();
    OK(cuEventRecord(joined, origin));
    OK(launch_word(spin, word, 0, other));
    OK(launch_mix(buffer[3], N, 1, reader));
    OK(cuCtxSynchronize());
}

/* The event has the handle of one that graphs had. Who waits for it comes behind the kernel. */
static void wait_for(CUevent reused)
{
    OK(launch_word(spin, word, 1, other));
    OK(cuMemcpyDtoDAsync(buffer[2], buffer[1], 4 * N, other));
    OK(cuEventRecord(reused, other));
    kick(other);
}

static void read_behind(CUevent reused)
{
    printf("%d\n", cuEventQuery(reused));
    OK(cuStreamWaitEvent(reader, reused, 0));
    OK(cuMemcpyDtoDAsync(buffer[3], buffer[2], 4 * N, reader));
    kick(reader);
    usleep(20000);
    set_word(word, 1);
    show_all("reused");
}

static void reused(void)
{
    uint32_t k = 0;
    begin();
    CUevent forked = event();
    for (unsigned i = 0; i < STEPS; i++) {
        step(k += 10, forked, false);
        OK(cuStreamSynchronize(origin));
    }
    OK(cuEventDestroy(forked));
    CUevent made[] = {event(), event()};
    unsigned again = made[1] == forked;
    CHECK(made[again] == forked);
    OK(cuEventRecord(made[!again], origin)); /* first records go out at once */
    OK(cuEventRecord(made[again], other));
    OK(cuCtxSynchronize());
    wait_for(made[again]);
    step(k += 10, made[!again], true);
    OK(cuStreamSynchronize(origin));
    OK(cuStreamSynchronize(branch));
    read_behind(made[again]);
}

int main(int argc, char **argv)
{
    static const struct scenario scenarios[] = {{"reused", reused}, {NULL, NULL}};
    run(scenarios, argc, argv);
    return 0;
}
