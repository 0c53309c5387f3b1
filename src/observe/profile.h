/* SPDX-License-Identifier: MIT */
/*
 * The profile: a file that keeps which sequences a run has replayed, for the next run of the
 * program. docs/formats.md describes it.
 *
 * An identity is lines of text: a word and what the program, the library, the driver and the
 * devices are. A profile of another identity is not used.
 */
#ifndef AG_PROFILE_H
#define AG_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct ag_profile_sequence {
    uint64_t replays;
    const uint64_t *keys; /* of its ops */
    uint32_t length;      /* ops, 1 at least */
    bool lost;            /* it was faster without graphs */
};

enum { AG_PROFILE_MOST = 512 }; /* sequences in a file; further ones are left out */

struct ag_profile {
    struct ag_profile_sequence *sequences; /* memory of the caller's; or NULL */
    uint64_t *keys;                        /* of all that were read, likewise */
    uint32_t count;
};

/*
 * Reads the file that the option trace.profile names; sequences have `most` ops at most. None if
 * the file is not there, is of another identity, or may have been written by somebody else. False:
 * the file is none that the library may write; that gives one line on stderr. Keeps errno.
 */
bool ag_profile_read(const char *identity, uint32_t most, struct ag_profile *profile);

/* Writes it, the first AG_PROFILE_MOST sequences. The file is replaced as a whole. What fails gives
   one line on stderr, once. Keeps errno. */
void ag_profile_write(const char *identity, const struct ag_profile *profile);

/* Likewise while the program runs, to the file that was read, if it is no link. False: what failed,
   which ag_profile_write() says. */
bool ag_profile_keep(const char *identity, const struct ag_profile *profile);

#endif
