/* SPDX-License-Identifier: MIT */
/*
 * observe_signal.c FLAGS before|after: the program's own handler of SIGUSR2, installed before or
 * after CUDA was initialised, and what the program sees of it. FLAGS are letters: r SA_RESTART,
 * 1 SA_RESETHAND, n SA_NODEFER, s SA_ONSTACK, i SA_SIGINFO, m a mask; o signal() and not
 * sigaction(); d and g no handler, but the default or ignored. With the last two a child prints.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

static char stack[1 << 16];
static volatile sig_atomic_t calls, on_stack, deferred, masked, informed;

static void note(void)
{
    char here;
    sigset_t blocked;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    calls++;
    on_stack = &here >= stack && &here < stack + sizeof stack;
    deferred = sigismember(&blocked, SIGUSR2);
    masked = sigismember(&blocked, SIGUSR1);
}

static void on_simple(int number)
{
    CHECK(number == SIGUSR2);
    note();
}

static void on_info(int number, siginfo_t *info, void *context)
{
    informed = info->si_signo == number && info->si_code == SI_QUEUE && context != NULL;
    note();
}

static int flags_of(const char *letters)
{
    static const struct {
        char letter;
        int flag;
    } all[] = {{'r', SA_RESTART},
               {'1', (int)SA_RESETHAND},
               {'n', SA_NODEFER},
               {'s', SA_ONSTACK},
               {'i', SA_SIGINFO}};
    int flags = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        flags |= strchr(letters, all[i].letter) != NULL ? all[i].flag : 0;
    return flags;
}

static void install(const char *letters)
{
    struct sigaction action = {.sa_flags = flags_of(letters)};
    if (strchr(letters, 'i') != NULL)
        action.sa_sigaction = on_info;
    else
        action.sa_handler = strchr(letters, 'd') != NULL   ? SIG_DFL
                            : strchr(letters, 'g') != NULL ? SIG_IGN
                                                           : on_simple;
    if (strchr(letters, 'm') != NULL)
        sigaddset(&action.sa_mask, SIGUSR1);
    if (strchr(letters, 'o') != NULL)
        CHECK(signal(SIGUSR2, on_simple) != SIG_ERR);
    else
        CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
}

/* The signal comes while the program reads from a pipe, which gets a byte later. */
static void read_meanwhile(void)
{
    int ends[2], status;
    char byte;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pid_t parent = getppid();
        usleep(200000);
        CHECK(sigqueue(parent, SIGUSR2, (union sigval){0}) == 0);
        usleep(400000);
        CHECK(write(ends[1], "x", 1) == 1);
        _exit(0);
    }
    ssize_t n = read(ends[0], &byte, 1);
    printf("read: %s\n", n == 1 ? "a byte" : errno == EINTR ? "interrupted" : "failed");
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(status == 0);
}

/* How a child ends that gets the signal; `run`: another program runs in it. */
static void child_ends(const char *what, int run)
{
    int status, ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (run)
            execl("/bin/sh", "sh", "-c", "kill -USR2 $$; exit 7", NULL);
        raise(SIGUSR2);
        _exit(7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %s\n", what, WIFSIGNALED(status) ? "killed" : "goes on");
}

int main(int argc, char **argv)
{
    struct sigaction now;
    CHECK(argc == 3);
    int late = strcmp(argv[2], "after") == 0;
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    if (!late)
        install(argv[1]);
    start();
    OK(cuCtxSynchronize());
    if (late)
        install(argv[1]);
    if (strpbrk(argv[1], "dg") != NULL) {
        child_ends("a child", 0);
        child_ends("another program", 1);
        return 0;
    }
    read_meanwhile();
    printf("calls %d, stack %d, deferred %d, masked %d, informed %d\n", (int)calls, (int)on_stack,
           (int)deferred, (int)masked, (int)informed);
    CHECK(sigaction(SIGUSR2, NULL, &now) == 0);
    printf("a handler stays: %d\n", now.sa_handler != SIG_DFL);
    return 0;
}
