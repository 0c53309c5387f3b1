/* SPDX-License-Identifier: MIT */
/*
 * observe_closes SCENARIO FORBIDDEN: a program that closes descriptors which it has not opened,
 * while a trace is written. FORBIDDEN system calls fail: "-" for none, close_range, or both of that
 * and unshare.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "sim_test.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { FILES = 12, MOST = 8192, ROUNDS = 300 };

static void forbid(unsigned call)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static CUdeviceptr words;

static void work(void)
{
    for (int i = 0; i < 8; i++)
        OK(launch_mix(words, 1, 7, 0));
    OK(cuCtxSynchronize());
}

static int file[FILES];

static void close_all_and_open(void)
{
    for (int fd = 3; fd < MOST; fd++)
        close(fd);
    for (int i = 0; i < FILES; i++) {
        char name[] = "/tmp/autograph-test-XXXXXX";
        file[i] = mkstemp(name);
        CHECK(file[i] >= 3 && unlink(name) == 0);
    }
}

/* What the program has opened is as it left it, and still its own. */
static void files_are_empty(void)
{
    struct stat st;
    for (int i = 0; i < FILES; i++)
        CHECK(fstat(file[i], &st) == 0 && st.st_nlink == 0 && st.st_size == 0);
}

/* -- Between the library's decision to write and the kernel's -------------------- */

static pthread_t main_thread;
static _Atomic bool catching;
static _Atomic unsigned caught, answered;

/* What the library calls: the program closes all, and opens files, before the kernel writes. */
ssize_t write(int fd, const void *data, size_t size)
{
    if (fd != STDERR_FILENO && atomic_load(&catching) &&
        !pthread_equal(pthread_self(), main_thread)) {
        unsigned mine = atomic_fetch_add(&caught, 1) + 1;
        while (atomic_load(&catching) && atomic_load(&answered) < mine)
            continue;
    }
    return syscall(SYS_write, fd, data, size);
}

/* Each write of the library meets new files under all low numbers, and under its own if it has one.
 */
static void at_each_write(void)
{
    atomic_store(&catching, true);
    for (unsigned round = 0; round < ROUNDS; round++) {
        work();
        if (atomic_load(&caught) == atomic_load(&answered))
            continue;
        close_all_and_open();
        atomic_fetch_add(&answered, 1);
        files_are_empty();
    }
    while (atomic_load(&answered) < 1) { /* on a busy machine none has come yet */
        work();
        if (atomic_load(&caught) != 0) {
            close_all_and_open();
            atomic_fetch_add(&answered, 1);
        }
    }
    atomic_store(&catching, false);
    for (int i = 0; i < 100; i++) /* what was caught is written meanwhile, and more */
        work();
    files_are_empty();
}

/* -- Others -------------------------------------------------------------------- */

static void all_the_time(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        close_all_and_open();
        work();
        files_are_empty();
    }
}

/* Who reads a pipe gets its end as soon as the program closes it, be it standard output. */
static void pipes(void)
{
    int early[2], late[2];
    char byte;
    CHECK(pipe(early) == 0 && dup2(early[1], STDOUT_FILENO) == STDOUT_FILENO &&
          close(early[1]) == 0);
    start();
    OK(cuMemAlloc(&words, 4));
    CHECK(pipe(late) == 0);
    for (int i = 0; i < 100; i++)
        work();
    usleep(20000); /* so that something is written */
    CHECK(close(STDOUT_FILENO) == 0 && close(late[1]) == 0);
    struct pollfd ends[] = {{.fd = early[0], .events = POLLIN}, {.fd = late[0], .events = POLLIN}};
    for (int i = 0; i < 2; i++)
        CHECK(poll(&ends[i], 1, 20000) == 1 && read(ends[i].fd, &byte, 1) == 0);
    work();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    alarm(60);
    main_thread = pthread_self();
    if (strcmp(argv[2], "-") != 0)
        forbid(SYS_close_range);
    if (strcmp(argv[2], "both") == 0)
        forbid(SYS_unshare);
    if (strcmp(argv[1], "pipes") == 0) {
        pipes();
        return 0;
    }
    start();
    OK(cuMemAlloc(&words, 4));
    work();
    strcmp(argv[1], "writes") == 0 ? at_each_write() : all_the_time();
    return 0;
}
