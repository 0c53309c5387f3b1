/* SPDX-License-Identifier: MIT */
/*
 * What is known of a stream by its handle: its context and its flags.
 *
 * The driver knows both, but to ask takes three calls, in which the threads of programs that make
 * streams for a few ops wait for each other. So a thread remembers the stream that it has created
 * last, and asks nothing about it, until a stream with that handle or any context is destroyed.
 *
 * No lock.
 */
#ifndef AG_HANDLE_H
#define AG_HANDLE_H

#include <cuda.h>
#include <stdbool.h>

/* The calling thread has created a stream in `current`, its context as the driver just said. */
void ag_handle_created(CUstream handle, CUcontext current, unsigned flags);

/* A stream with this handle is about to be destroyed. */
void ag_handle_destroyed(CUstream handle);

/* Context and flags. False: the stream captures, or the driver refuses to say. */
bool ag_handle_learn(CUstream handle, CUcontext *ctx, unsigned *flags);

#endif
