/* SPDX-License-Identifier: MIT */
/*
 * What the library's doors do for each call of a program (the .doors files of src/preload), in
 * fewer forms. The engine may be off: then all calls go to the driver.
 */
#ifndef PLAY_DOORS_H
#define PLAY_DOORS_H

#include <stddef.h>

#include "policy/gpu.h"
#include "policy/program.h"

/* What the GPU does for an op of the program. */
struct play_op play_op_of(const struct play_program *program, const struct play_line *line);

/* The calling thread makes this call. */
void play_door(const struct play_program *program, const struct play_line *line);

/* The parts of it that are the same for every plan: the driver's call of an op that goes out by
   itself, and calls that are no ops. */
void play_eager(const struct play_program *program, const struct play_line *line);

/* What the driver says from here on: a line that is no call. */
void play_define(const struct play_program *program, const struct play_line *line);

/* Whether the program would not make the call now: it asks whether the GPU is done, and was told
   that it is not, and now it is. */
bool play_is_needless(const struct play_line *line);

#endif
