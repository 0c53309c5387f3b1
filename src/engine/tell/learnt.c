/* SPDX-License-Identifier: MIT */
/* From traces to the profile, and back. */
#include "engine/tell/learnt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"
#include "config/program.h"
#include "driver/driver.h"
#include "observe/profile.h"
#include "policy/policy.h"
#include "trace/known.h"

enum {
    NAME_BYTES = 256,  /* of a device's name */
    DEVICES_MOST = 16, /* whose names are told apart */
};

/* Constant once CUDA is initialised. */
static char identity[AG_PATH_MAX + DEVICES_MOST * NAME_BYTES + 256]; /* empty: no profile is used */
static struct ag_profile before;                                     /* what the file said */
static const struct ag_known *ends[AG_PROFILE_MOST];                 /* of its sequences; or NULL */

/* -- Identity ------------------------------------------------------------------ */

/* "program PATH BYTES SECONDS"; false: the system does not tell. */
static bool name_program(char **to)
{
    struct stat st;
    char path[AG_PATH_MAX];
    if (!ag_program_stat(&st))
        return false;
    ag_program_path(path, sizeof path);
    *to += sprintf(*to, "program %s %jd %jd\n", path, (intmax_t)st.st_size,
                   (intmax_t)st.st_mtim.tv_sec);
    return true;
}

/* The names of the devices, each once where equal ones follow each other; false: the driver does
   not tell. */
static bool name_devices(char **to)
{
    int count;
    char last[NAME_BYTES] = "", name[NAME_BYTES];
    if (ag_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return false;
    *to += sprintf(*to, "device");
    for (int i = 0; i < count && i < DEVICES_MOST; i++) {
        if (ag_real.cuDeviceGetName(name, sizeof name, i) != CUDA_SUCCESS)
            return false;
        name[sizeof name - 1] = '\0';
        if (strcmp(name, last) != 0)
            *to += sprintf(*to, " %s", name);
        memcpy(last, name, sizeof last);
    }
    *to += sprintf(*to, "\n");
    return true;
}

static bool name_all(void)
{
    int driver;
    char *to = identity;
    if (!name_program(&to) || ag_real.cuDriverGetVersion == NULL ||
        ag_real.cuDriverGetVersion(&driver) != CUDA_SUCCESS || ag_real.cuDeviceGetName == NULL)
        return false;
    to += sprintf(to, "library " PACKAGE_VERSION "\ndriver %d\n", driver);
    return name_devices(&to);
}

/* -- Before ----------------------------------------------------------------------- */

void ag_learnt_read(void)
{
    uint32_t ops = 0;
    if (!name_all() || !ag_profile_read(identity, AG_MOST_LENGTH, &before)) {
        identity[0] = '\0';
        return;
    }
    for (uint32_t i = 0; i < before.count; i++)
        ops += before.sequences[i].length;
    if (ops == 0 || !ag_known_begin(ops))
        return;
    for (uint32_t i = 0; i < before.count; i++) {
        const struct ag_profile_sequence *sequence = &before.sequences[i];
        ends[i] = ag_known_add(sequence->keys, sequence->length, sequence->lost);
    }
}

/* -- Behind ----------------------------------------------------------------------- */

static struct ag_profile_sequence *find(const struct ag_profile *profile, const uint64_t *keys,
                                        uint32_t length)
{
    for (uint32_t i = 0; i < profile->count; i++) {
        struct ag_profile_sequence *sequence = &profile->sequences[i];
        if (sequence->length == length && memcmp(sequence->keys, keys, length * sizeof *keys) == 0)
            return sequence;
    }
    return NULL;
}

/* The sequences of this run's traces, which several streams may have had. */
static void gather(struct ag_profile *profile, const struct ag_account *account)
{
    for (uint32_t i = 0; i < account->trace_count; i++) {
        const struct ag_trace_account *trace = account->traces[i];
        uint64_t replays = atomic_load(&trace->replays);
        if (trace->keys == NULL || replays == 0)
            continue;
        struct ag_profile_sequence *sequence = find(profile, trace->keys, trace->length);
        if (sequence == NULL) {
            sequence = &profile->sequences[profile->count++];
            *sequence = (struct ag_profile_sequence){.keys = trace->keys, .length = trace->length};
        }
        sequence->replays += replays;
        sequence->lost |= atomic_load(&trace->lost);
    }
}

/* What was known and has come without a trace of its own stays: it was lost, or the run was short.
   What has not come fades. */
static void add_known(struct ag_profile *profile)
{
    for (uint32_t i = 0; i < before.count; i++) {
        struct ag_profile_sequence old = before.sequences[i];
        struct ag_profile_sequence *sequence = find(profile, old.keys, old.length);
        if (ends[i] == NULL || !atomic_load(&ends[i]->met))
            old.replays /= 2;
        if (sequence == NULL)
            profile->sequences[profile->count++] = old;
        else if (sequence->replays < AG_KNOWN_LEAST)
            *sequence = old;
    }
}

static int by_ops(const void *a, const void *b)
{
    const struct ag_profile_sequence *x = a, *y = b;
    uint64_t p = x->replays * x->length, q = y->replays * y->length;
    if (p != q)
        return p < q ? 1 : -1;
    return (x->length < y->length) - (x->length > y->length);
}

/* Sequences that were replayed often enough, the most important first. */
static void sift(struct ag_profile *profile)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < profile->count; i++)
        if (profile->sequences[i].replays >= AG_KNOWN_LEAST)
            profile->sequences[count++] = profile->sequences[i];
    profile->count = count;
    if (count != 0)
        qsort(profile->sequences, count, sizeof profile->sequences[0], by_ops);
}

/* Several processes may write one file: the last one's counts. What the others have learnt is
   mostly the same. */
bool ag_learnt_write(const struct ag_account *account, bool keep)
{
    struct ag_profile profile = {.count = 0};
    size_t most = (size_t)account->trace_count + before.count;
    bool good = true;
    if (identity[0] == '\0' || account->trace_count == 0 || account->traces == NULL)
        return good;
    profile.sequences = calloc(most, sizeof *profile.sequences);
    if (profile.sequences == NULL)
        return good;
    gather(&profile, account);
    bool any = false;
    for (uint32_t i = 0; i < profile.count; i++)
        any |= profile.sequences[i].replays >= AG_KNOWN_LEAST;
    add_known(&profile);
    sift(&profile);
    if (any && keep)
        good = ag_profile_keep(identity, &profile);
    else if (any)
        ag_profile_write(identity, &profile);
    free(profile.sequences);
    return good;
}
