/* SPDX-License-Identifier: MIT */
/* Sleeping until another thread changes a word: futex(2). */
#ifndef AG_FUTEX_H
#define AG_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* `operation`: FUTEX_WAIT_PRIVATE or FUTEX_WAKE_PRIVATE. How it ends does not matter: who waits
   looks at the word again. errno stays, for it is the program's. */
static inline void ag_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                            const struct timespec *time)
{
    int saved = errno;
    (void)syscall(SYS_futex, word, operation, value, time);
    errno = saved;
}

#endif
