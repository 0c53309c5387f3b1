/* SPDX-License-Identifier: MIT */
/* sim_rules.h: what the parts of the rules program share. Every rule prints a
 * line "name = code", the same on the simulated driver and on a GPU. */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "sim_test.h"

#include <stdbool.h>

#include <pthread.h>
#include <time.h>

/* Prints what a call returns; section and label come from `in` and the text. */
extern const char *in;
#define SAY(label, call) (printf("%s: %s = %d\n", in, label, (int)(call)), fflush(stdout))
#define SAY_CALL(call)   SAY(#call, call)

/* Runs the function in a thread of its own, to its end. */
void in_thread(void (*fn)(void));

extern CUcontext other;      /* a second context on the device */
extern CUfunction other_mix; /* a function of it */
extern CUlibrary lib;
extern CUkernel kern;         /* ag_mix of the library */
extern CUstream stream, peer; /* one that does not block, one that does */
extern CUdeviceptr mem;       /* 4,096 bytes */
extern volatile uint32_t *words;

void rules_capture(void);
void rules_capture_in_callback(void);
void rules_graph(void);
extern unsigned patience_ms; /* a call that takes longer waits for a kernel */
void rules_waiting(void);

#endif
