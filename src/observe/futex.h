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

enum ag_woken { AG_WOKEN, AG_WOKEN_BY_TIME, AG_WOKEN_BY_SIGNAL };

/* `operation`: FUTEX_WAIT_PRIVATE or FUTEX_WAKE_PRIVATE. Says how a wait has ended; mostly that
   does not matter, since who waits looks at the word again. errno stays, for it is the program's.
 */
static inline enum ag_woken ag_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                                     const struct timespec *time)
{
    int saved = errno;
    enum ag_woken woken = AG_WOKEN;
    if (syscall(SYS_futex, word, operation, value, time) == -1 && errno != EAGAIN)
        woken = errno == ETIMEDOUT ? AG_WOKEN_BY_TIME : AG_WOKEN_BY_SIGNAL;
    errno = saved;
    return woken;
}

#endif
