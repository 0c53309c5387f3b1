/* SPDX-License-Identifier: MIT */
/* observe_live.c [simple|info|ignore]: a loop of kernels until standard input ends. Handles SIGUSR2
 * itself if asked to, and prints how often it came. */
#include "sim_test.h"

#include <poll.h>
#include <signal.h>

enum { N = 32, BODY = 6 };

static volatile sig_atomic_t simple_signals, info_signals;

static void on_simple(int number)
{
    simple_signals += number == SIGUSR2;
}

static void on_info(int number, siginfo_t *info, void *context)
{
    info_signals += number == SIGUSR2 && info->si_pid > 0 && context;
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    CUstream stream;
    const char *how = argc > 1 ? argv[1] : "";
    struct sigaction action = {.sa_handler = on_simple};
    if (strcmp(how, "info") == 0)
        action = (struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
    if (strcmp(how, "ignore") == 0)
        action.sa_handler = SIG_IGN;
    if (*how)
        CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (struct pollfd input = {.fd = 0, .events = POLLIN}; poll(&input, 1, 0) <= 0;) {
        for (uint32_t i = 0; i < BODY * 40; i++)
            OK(launch_mix(buffer, N, i % BODY, stream));
        OK(cuStreamSynchronize(stream));
    }
    printf("%d %d\n", (int)simple_signals, (int)info_signals);
    return 0;
}
