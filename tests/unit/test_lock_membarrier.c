/* SPDX-License-Identifier: MIT */
/* The biased lock as it is on other architectures than x86-64: local.mk says so. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test_lock.c"

/* From now on the process may not use membarrier(2). */
static bool forbid(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Whether it holds in a child, which goes on alone. */
static bool in_a_child(bool (*holds)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(holds() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool has_none_from_the_start(void)
{
    struct ag_lock lock = {.biased = NULL};
    if (!forbid())
        return false;
    ag_lock_prepare();
    take_often(&lock, &first, 16 * RUN);
    return biased(&lock) == NULL;
}

TEST(no_bias_where_the_call_is_forbidden)
{
    CHECK(in_a_child(has_none_from_the_start));
}

/* The bias that there is goes, and no other thread waits for more than the time. */
static bool has_none_any_more(void)
{
    struct ag_lock lock = {.biased = NULL}, another = {.biased = NULL};
    take_often(&lock, &first, RUN);
    if (biased(&lock) != &first || !forbid())
        return false;
    take_often(&lock, &second, 1);
    take_often(&lock, &first, 16 * LONGER * RUN);
    take_often(&another, &first, 16 * RUN);
    return biased(&lock) == NULL && biased(&another) == NULL;
}

TEST(no_further_bias_once_the_call_is_forbidden)
{
    CHECK(in_a_child(has_none_any_more));
}
