/* SPDX-License-Identifier: MIT */
/* Safe points: who issues a stream's ops, and who waits while a thread makes more execs. */
#ifndef AG_GROW_H
#define AG_GROW_H

#include "engine/stream.h"

/* The calling thread issues the stream's ops from now on, where another thread did. It may have the
   stream's lock. Waits while another thread makes more execs: these wait for running kernels, and
   this thread must bring no further kernel meanwhile. */
void ag_stream_take_over(struct ag_stream *stream);
extern _Atomic bool ag_many_threads; /* more than one thread has taken over a stream */

/* Waits while another thread makes more execs. ag_growths goes up when a thread begins to make
   more, and again when it ends. */
void ag_stream_wait_for_growth(void);
extern _Atomic uint32_t ag_growths;

#endif
