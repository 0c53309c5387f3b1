/* SPDX-License-Identifier: MIT */
/*
 * The noise of a machine. It depends on the seed and on the call alone: the program has the same
 * noise with the library and without. Seed 0: none.
 */
#ifndef PLAY_NOISE_H
#define PLAY_NOISE_H

#include <stdint.h>

struct play_program;

struct play_noise {
    uint64_t pause; /* ns before the call */
    double factor;  /* of the thread's own time, and of calls */
};

/* The noise of each call of the program. Without memory the process ends. */
struct play_noise *play_noise_make(const struct play_program *program, uint64_t seed);

#endif
