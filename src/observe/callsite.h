/* SPDX-License-Identifier: MIT */
/*
 * Where the program makes the calls that stand in the way: a sample of their stacks.
 *
 * Nothing is looked at unless report.callsites asks for it. Stacks are walked and symbols looked up
 * without any lock of the library's held. A constructor may wait for the thread that is sampled,
 * and the loader holds a lock while the constructor runs. So dladdr(), which takes that lock, is
 * not called. The unwinder takes no lock, or that of dl_iterate_phdr() (object.h).
 */
#ifndef AG_CALLSITE_H
#define AG_CALLSITE_H

#include "observe/account.h"

/* The driver function whose call by this thread is to be sampled; NULL: none. */
extern _Thread_local const char *ag_site_wanted __attribute__((tls_model("initial-exec")));

/* Loads what walking a stack needs, before any lock is held: that takes the loader's lock. */
void ag_callsite_prepare(void);

/* A call of `function` (constant) has cut a sequence: each N-th is wanted. */
void ag_callsite_count(const char *function);

/* Samples the calling thread's stack, if that is wanted. No lock may be held. */
void ag_callsite_sample(void);
#define AG_CALLSITE()                                                                              \
    do {                                                                                           \
        if (__builtin_expect(ag_site_wanted != NULL, 0))                                           \
            ag_callsite_sample();                                                                  \
    } while (0)

/* The i-th of what has been found so far; false: there are no more. */
bool ag_callsite_get(unsigned i, struct ag_callsite *site);

#endif
