/* SPDX-License-Identifier: MIT */
/*
 * What is known of a stream by its handle: its context and its flags.
 *
 * The driver knows both, but that takes three calls of it, in which the threads of programs that
 * make streams for a few ops meet. So a thread remembers the stream that it has created last, and
 * need not ask of that one, until a stream of such a name is destroyed, or any context.
 *
 * No lock.
 */
#ifndef AG_HANDLE_H
#define AG_HANDLE_H

#include <cuda.h>
#include <stdbool.h>

/* Somebody is about to destroy it. */
void ag_handle_destroyed(CUstream handle);

/* Context and flags. False: the stream captures, or the driver refuses to say. */
bool ag_handle_learn(CUstream handle, CUcontext *ctx, unsigned *flags);

#endif
