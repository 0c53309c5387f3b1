/* SPDX-License-Identifier: MIT */
/*
 * observe_launcher.c RANKS [COMMAND...]: asks for the devices, as torchrun does, and runs the
 * command so many times side by side, each with its rank; it has none itself.
 */
#include "sim_test.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    int devices, status, ranks = atoi(argv[1]);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&devices));
    for (int rank = 0; rank < ranks; rank++) {
        char number[16];
        snprintf(number, sizeof number, "%d", rank);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            setenv("RANK", number, 1);
            execvp(argv[2], argv + 2);
            _exit(127);
        }
    }
    for (int rank = 0; rank < ranks; rank++)
        CHECK(wait(&status) > 0 && status == 0);
    return 0;
}
