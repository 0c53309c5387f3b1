/* SPDX-License-Identifier: MIT */
/* Whose a file is. */
#include "config/trust.h"

#include <stdbool.h>
#include <unistd.h>

static bool is_known(uid_t user)
{
    return user == geteuid() || user == 0;
}

enum ag_trust ag_trust(const char *name, const struct stat *st, uid_t *owner)
{
    struct stat link;
    *owner = st->st_uid;
    if (is_known(*owner) && lstat(name, &link) == 0 && S_ISLNK(link.st_mode))
        *owner = link.st_uid;
    if (!is_known(*owner))
        return AG_TRUST_FOREIGN;
    return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0 ? AG_TRUST_WRITABLE : AG_TRUST_OWN;
}
