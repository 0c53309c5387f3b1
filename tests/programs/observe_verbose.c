/* SPDX-License-Identifier: MIT */
/* observe_verbose SCENARIO [FILE]: programs that come to their end in several ways. */
#include "sim_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void work(void)
{
    CUdeviceptr buffer;
    start();
    OK(cuMemAlloc(&buffer, 4));
    for (int i = 0; i < 300; i++) {
        OK(launch_mix(buffer, 1, i % 10, 0));
        if (i % 10 == 9)
            OK(cuCtxSynchronize());
    }
}

static void in_child(void (*act)(void))
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        act();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void nothing(void) {}

static void leave(int number)
{
    exit(number != SIGTERM);
}

static void devices(void)
{
    int count;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
}

/* Standard error becomes a file of the program. */
static void file_there(const char *name)
{
    CHECK(close(STDERR_FILENO) == 0 &&
          open(name, O_RDWR | O_CREAT | O_TRUNC, 0600) == STDERR_FILENO &&
          write(STDERR_FILENO, "data", 4) == 4);
    work();
}

static void socket_there(void)
{
    int pair[2];
    char byte;
    CHECK(close(STDERR_FILENO) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pair[0] == STDERR_FILENO);
    work();
    CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) == -1);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "devices") == 0)
        devices();
    else if (strcmp(what, "idle") == 0)
        start();
    else if (strcmp(what, "child_before") == 0) {
        in_child(work);
        work();
    } else if (strcmp(what, "file") == 0 && argc > 2)
        file_there(argv[2]);
    else if (strcmp(what, "socket") == 0)
        socket_there();
    else
        work();
    if (strcmp(what, "child_after") == 0)
        in_child(nothing);
    else if (strcmp(what, "_exit") == 0)
        _exit(0);
    else if (strcmp(what, "quick_exit") == 0)
        quick_exit(0);
    else if (strcmp(what, "closed") == 0)
        close(STDERR_FILENO);
    else if (strcmp(what, "exit") == 0)
        exit(0);
    else if (strcmp(what, "signal") == 0)
        CHECK(signal(SIGTERM, leave) != SIG_ERR && raise(SIGTERM) == 0);
    puts("done");
    return 0;
}
