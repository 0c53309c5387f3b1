/* SPDX-License-Identifier: MIT */
/* Whether a file may be obeyed: who wrote it, and who else may. */
#ifndef AG_TRUST_H
#define AG_TRUST_H

#include <sys/stat.h>
#include <sys/types.h>

enum ag_trust {
    AG_TRUST_OWN,     /* the caller's or root's, and nobody else may write it */
    AG_TRUST_FOREIGN, /* another user's, or a link of another user's leads to it */
    AG_TRUST_WRITABLE /* others may write it */
};

/* Judges an open file, which has the name and this status. `owner` becomes the user whose it is. */
enum ag_trust ag_trust(const char *name, const struct stat *st, uid_t *owner);

#endif
