/* SPDX-License-Identifier: MIT */
/*
 * A driver that costs time and does nothing else: what the engine calls through ag_real, and what
 * doors call for the program. Handles are pointers to what stands here.
 */
#ifndef PLAY_DRIVER_H
#define PLAY_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/gpu.h"
#include "policy/program.h"

/* Makes the driver for the program, and fills ag_real. */
void play_driver_make(const struct play_program *program);

/* Streams, events, contexts and functions of the program, by number. */
struct play_gpu *play_stream(uint32_t number);
struct play_event *play_event(uint32_t number);
struct play_context *play_context(uint32_t number);
CUfunction play_function(uint32_t number);

/* The handle by which doors name the stream; *ptsz: whether NULL means the per-thread stream. */
CUstream play_handle(const struct play_gpu *stream, bool *ptsz);

/* The stream that a handle of ag_real means for the calling thread. */
struct play_gpu *play_resolve(CUstream handle);

/* The stream in which the program issued what goes out in this one: a per-thread stream's ops go
   out in a stream of the library's own. */
struct play_gpu *play_issues(struct play_gpu *stream);

/* The current context of the calling thread; or another one. */
struct play_context *play_current(void);
void play_make_current(struct play_context *context);

/* The calling thread uses the stream: if that shows that another context is current, it is. */
void play_follow_context(const struct play_gpu *stream);

/* When the GPU is done with all that the context has. */
uint64_t play_context_end(const struct play_context *context);

/* From now on the driver says that of an address. */
void play_memory_is(uint64_t address, unsigned type, uint64_t start, uint64_t size, uint64_t id);

/* Memory of a pool begins there, whenever there is any. */
void play_memory_is_pooled(uint64_t address);

/* What the driver says: 0 pageable, 1 host, 2 device, 3 managed, 4 another device's. */
unsigned play_memory_type(uint64_t address);

/* Is it the library's kernel for read-backs? */
bool play_is_fetch(CUfunction func);

/* The parts of the driver fill in their functions: questions, and work. */
struct ag_driver;
void play_driver_ask(struct ag_driver *to);
void play_driver_work(struct ag_driver *to);
void play_driver_graphs(struct ag_driver *to);

#endif
