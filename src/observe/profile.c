/* SPDX-License-Identifier: MIT */
/* Reading and writing the profile. */
#include "observe/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/fnv.h"
#include "config/trust.h"
#include "observe/log.h"
#include "observe/name.h"
#include "observe/target.h"

#define MAGIC "AGPROFILE 1\n"
#define END   "end 0123456789abcdef\n" /* the last line has a hash of all before it */

enum {
    MOST_BYTES = 4 << 20, /* of a file: more than AG_PROFILE_MOST sequences take */
    LINE_ROOM = 64,       /* bytes of a line but for its keys, at most */
    KEY_ROOM = 17,        /* of a key, with the blank before it */
    RIGHTS = 0644,        /* what others may write is not used */
};

/* The file's name as it has become, or the option where that is too long; for messages, too. */
static char name[AG_PATH_MAX];

/* False: errno. */
static bool expand(void)
{
    if (ag_name_expand(ag_opt.trace_profile, name))
        return true;
    memcpy(name, ag_opt.trace_profile, strlen(ag_opt.trace_profile) + 1);
    errno = ENAMETOOLONG;
    return false;
}

/* -- Reading ----------------------------------------------------------------- */

/* Of the file that was read: whether it is obeyed, and whose it is. */
static enum ag_trust trust;
static uid_t owner;

/* The bytes of an open file, with a zero behind them; NULL: errno. */
static char *contents(int fd, size_t *size)
{
    struct stat st;
    char *text = NULL;
    *size = 0;
    if (fstat(fd, &st) != 0)
        return NULL;
    trust = ag_trust(name, &st, &owner);
    errno = !S_ISREG(st.st_mode) ? EEXIST : trust != AG_TRUST_OWN ? EPERM : EFBIG;
    if (errno == EFBIG && st.st_size <= MOST_BYTES)
        text = malloc((size_t)st.st_size + 1);
    if (text == NULL)
        return NULL;
    while (*size < (size_t)st.st_size) {
        ssize_t n = read(fd, text + *size, (size_t)st.st_size - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(text);
            return NULL;
        }
        if (n == 0)
            break;
        *size += (size_t)n;
    }
    text[*size] = '\0';
    return text;
}

/* The file's text; NULL: errno. */
static char *load(size_t *size)
{
    if (!expand())
        return NULL;
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO has no writer */
    char *text = fd >= 0 ? contents(fd, size) : NULL;
    int error = errno;
    if (fd >= 0)
        close(fd); /* it was only read */
    errno = error;
    return text;
}

/* The number at *text, in base `base`, before a byte of `end`; moves on behind that byte. */
static bool number(const char **text, int base, char end, uint64_t *value)
{
    char *behind;
    if (strspn(*text, "0123456789abcdef") == 0)
        return false;
    errno = 0;
    *value = strtoull(*text, &behind, base);
    bool good = errno == 0 && *behind == end;
    *text = behind + 1;
    return good;
}

static bool word(const char **text, const char *expected)
{
    size_t length = strlen(expected);
    bool good = strncmp(*text, expected, length) == 0;
    *text += good ? length : 0;
    return good;
}

/* A line "sequence REPLAYS held|lost OPS KEY ...". */
static bool parse_line(const char **text, uint64_t **keys, uint32_t most,
                       struct ag_profile_sequence *sequence)
{
    uint64_t length;
    if (!word(text, "sequence ") || !number(text, 10, ' ', &sequence->replays))
        return false;
    sequence->lost = word(text, "lost ");
    if ((!sequence->lost && !word(text, "held ")) || !number(text, 10, ' ', &length) || length == 0)
        return false;
    sequence->keys = *keys;
    for (uint64_t i = 1; i <= length; i++)
        if (!number(text, 16, i == length ? '\n' : ' ', (*keys)++))
            return false;
    sequence->length = length <= most ? (uint32_t)length : 0;
    return true;
}

/* The lines up to `end`. False: they are none that the library has written. */
static bool parse(const char *text, const char *end, uint32_t most, struct ag_profile *profile)
{
    uint64_t *keys = malloc((size_t)(end - text + KEY_ROOM) / 2 * sizeof *keys);
    profile->keys = keys;
    profile->sequences = calloc(AG_PROFILE_MOST, sizeof *profile->sequences);
    bool good = keys != NULL && profile->sequences != NULL;
    while (good && text < end && profile->count < AG_PROFILE_MOST) {
        struct ag_profile_sequence *sequence = &profile->sequences[profile->count];
        good = parse_line(&text, &keys, most, sequence);
        profile->count += good && sequence->length != 0;
    }
    if (good && profile->count != 0)
        return true;
    free(profile->keys);
    free(profile->sequences);
    *profile = (struct ag_profile){.count = 0};
    return good;
}

/* The first word of the first line in which two texts differ. */
static int differing(const char *identity, const char *text)
{
    const char *line = identity;
    for (; *identity != '\0' && *identity == *text; identity++, text++)
        if (*identity == '\n')
            line = identity + 1;
    ag_log(AG_LOG_NOTE, "the profile %.900s is not used: it is of another %.*s", name,
           (int)strcspn(line, " "), line);
    return 0;
}

/* 0, or the errno of what is wrong with it. */
static int take(const char *text, size_t size, const char *identity, uint32_t most,
                struct ag_profile *profile)
{
    size_t head = strlen(MAGIC), body = size - strlen(END);
    char end[sizeof END];
    if (size == 0)
        return 0;
    if (strncmp(text, MAGIC, head) != 0)
        return EEXIST;
    if (size < head + strlen(END))
        return EBADMSG;
    snprintf(end, sizeof end, "end %016" PRIx64 "\n", ag_fnv(text, body));
    if (strcmp(text + body, end) != 0)
        return EBADMSG;
    if (strncmp(text + head, identity, strlen(identity)) != 0)
        return differing(identity, text + head);
    if (!parse(text + head + strlen(identity), text + body, most, profile))
        return EBADMSG;
    ag_log(AG_LOG_NOTE, "the profile %.900s knows %u sequences", name, profile->count);
    return 0;
}

/* errno says what is wrong with the file. */
static void complain(void)
{
    if (errno == EBADMSG)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s is damaged, and not used", name);
    else if (errno == EEXIST)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s is not used: the file there is none, and stays",
               name);
    else if (trust == AG_TRUST_FOREIGN)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s is not used: it belongs to user %ld, and stays",
               name, (long)owner);
    else if (trust == AG_TRUST_WRITABLE)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s is not used: others may write it", name);
    else
        ag_log(AG_LOG_ALWAYS, "the profile %.900s cannot be read: %m", name);
}

bool ag_profile_read(const char *identity, uint32_t most, struct ag_profile *profile)
{
    int saved = errno, error = 0;
    size_t size;
    *profile = (struct ag_profile){.count = 0};
    char *text = load(&size);
    if (text != NULL)
        error = take(text, size, identity, most, profile);
    else if (errno != ENOENT)
        error = errno;
    free(text);
    errno = error;
    if (error)
        complain();
    errno = saved;
    return error == 0 || error == EBADMSG || (error == EPERM && trust == AG_TRUST_WRITABLE);
}

/* -- Writing ------------------------------------------------------------------ */

/* The text, ended by a zero, for the caller to free; NULL: no memory. */
static char *text_of(const char *identity, const struct ag_profile *profile)
{
    uint32_t count = profile->count < AG_PROFILE_MOST ? profile->count : AG_PROFILE_MOST;
    size_t room = sizeof MAGIC + strlen(identity) + sizeof END;
    for (uint32_t i = 0; i < count; i++)
        room += LINE_ROOM + KEY_ROOM * (size_t)profile->sequences[i].length;
    char *text = malloc(room), *to = text;
    if (text == NULL)
        return NULL;
    to += sprintf(to, "%s%s", MAGIC, identity);
    for (uint32_t i = 0; i < count; i++) {
        const struct ag_profile_sequence *sequence = &profile->sequences[i];
        to += sprintf(to, "sequence %" PRIu64 " %s %" PRIu32, sequence->replays,
                      sequence->lost ? "lost" : "held", sequence->length);
        for (uint32_t k = 0; k < sequence->length; k++)
            to += sprintf(to, " %016" PRIx64, sequence->keys[k]);
        *to++ = '\n';
    }
    sprintf(to, "end %016" PRIx64 "\n", ag_fnv(text, (size_t)(to - text)));
    return text;
}

static int write_text(int fd, const void *text)
{
    return ag_write_all(fd, text, strlen(text));
}

/* 0, or the errno of what failed. */
static int replace(const char *text)
{
    struct ag_target target;
    int error = ag_target_look(name, MAGIC, NULL, &target);
    if (!error && target.exists && !S_ISREG(target.st.st_mode))
        error = EEXIST;
    return error ? error : ag_target_replace(name, RIGHTS, false, write_text, text);
}

/* errno says what failed. Once. */
static void complain_of_writing(void)
{
    static int told; /* errno */
    int error = errno == told ? 0 : errno;
    told = errno;
    if (error == EEXIST)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s is not written: the file there is none of yours",
               name);
    else if (error)
        ag_log(AG_LOG_ALWAYS, "the profile %.900s cannot be written: %m", name);
}

void ag_profile_write(const char *identity, const struct ag_profile *profile)
{
    int saved = errno;
    char *text = text_of(identity, profile);
    errno = text == NULL ? ENOMEM : expand() ? replace(text) : errno;
    complain_of_writing();
    free(text);
    errno = saved;
}

bool ag_profile_keep(const char *identity, const struct ag_profile *profile)
{
    if (!ag_name_is_settled(ag_opt.trace_profile) || !ag_target_is_plain(name))
        return true;
    char *text = text_of(identity, profile);
    bool good = text != NULL && replace(text) == 0;
    free(text);
    return good;
}
