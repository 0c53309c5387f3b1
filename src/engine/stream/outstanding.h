/* SPDX-License-Identifier: MIT */
/*
 * Whether anything is left to do of the work that the program has issued.
 *
 * Some calls of the library wait for running kernels (grow.c), and a read-back needs room on the
 * device (fetch.h). A kernel may wait for the host, or for work that comes later. So the library
 * makes such calls only while nothing is outstanding. Work of a stream is in one of five places:
 *
 * 1. The stream holds it.
 * 2. The stream's origin holds it (branches.h).
 * 3. It went out by the stream's relay, and the stream does not wait for the relay yet (relay.h).
 * 4. The driver has it in the stream. It is done if the program has waited for it, or if the driver
 *    says so.
 * 5. No tracked stream has it: the stream is gone, no door has seen the launch (orphans.h), or the
 *    stream is untracked (untracked.h).
 *
 * A submission sets `held` to 0 when it is over. So whoever finds 1 and 2 empty, and asks the
 * driver then, misses nothing. A branch of a graph is done when its branch's stream is, which waits
 * for the branch's last record.
 */
#ifndef AG_OUTSTANDING_H
#define AG_OUTSTANDING_H

#include "engine/stream/stream.h"

/* Whether all that the program has issued in the stream is where the driver would look for it: in
   the stream itself. Wants the stream's lock. */
bool ag_outstanding_is_submitted(const struct ag_stream *stream);

/* Whether the stream may have something left to do of its ops and graphs. Asks the driver at need,
   and remembers a no. Wants the stream's lock. */
bool ag_outstanding_in_stream(struct ag_stream *stream);

/* Whether anything but the work of `but` (NULL: of no stream) may be left to do in the context
   (NULL: in any), or another thread issues work there and may bring more at any time. Ops of
   branches that `but` holds are its work. Host functions, copies to the host and other calls that
   nobody counts take no room on the device. They count in any context, where the driver is always
   asked. No lock but that of `but` may be held. */
bool ag_outstanding_in_context(struct ag_context *context, const struct ag_stream *but);

#endif
