/* SPDX-License-Identifier: MIT */
/* What reports and traces say of the GPUs and of their memory. Needs no lock. */
#ifndef AG_FACTS_H
#define AG_FACTS_H

#include <cuda.h>
#include <stdint.h>

#include "observe/account.h"

/* The library meets a context on this device. Asks for the device's name, if a report or a
   trace is wanted. */
void ag_facts_gpu(CUdevice device);

/* The program has allocated stream-ordered memory of its current device's pool. So many times the
   thread has waited for the GPU so far. Asks behind a wait what the pool keeps, if a report is
   wanted. */
void ag_facts_allocated(uint32_t waits);

/* Adds the facts to the account. */
void ag_facts_gather(struct ag_account *account);

#endif
