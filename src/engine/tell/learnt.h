/* SPDX-License-Identifier: MIT */
/*
 * What the next run of the program is to know (trace.profile): the sequences whose traces were
 * replayed, and which of them were faster without graphs.
 */
#ifndef AG_LEARNT_H
#define AG_LEARNT_H

#include "observe/account.h"

/* After CUDA was initialised: reads the profile. Its sequences are known from now on. */
void ag_learnt_read(void);

/* Writes the profile, if anything has been learnt. `keep`: while the program runs, by a thread that
   has descriptors of its own. False: that failed, which the next time without `keep` will say. */
bool ag_learnt_write(const struct ag_account *account, bool keep);

#endif
