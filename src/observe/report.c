/* SPDX-License-Identifier: MIT */
/* What the exit report says. */
#include "observe/report.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "config/initial.h"
#include "config/program.h"
#include "observe/callsite.h"
#include "observe/name.h"
#include "observe/region.h"
#include "observe/saving.h"
#include "observe/tracefile.h"

/* -- Output --------------------------------------------------------------- */

struct output {
    int fd;
    int error; /* errno of the first failure */
    size_t used;
    char buffer[2048];
};

static void flush(struct output *out)
{
    if (!out->error)
        out->error = ag_write_all(out->fd, out->buffer, out->used);
    out->used = 0;
}

static void put_char(struct output *out, char c)
{
    if (out->used == sizeof out->buffer)
        flush(out);
    out->buffer[out->used++] = c;
}

__attribute__((format(printf, 2, 3))) static void put(struct output *out, const char *format, ...)
{
    char piece[128]; /* every piece is a name of ours and a number */
    va_list args;

    va_start(args, format);
    vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    for (const char *p = piece; *p; p++)
        put_char(out, *p);
}

/* Overlong forms, surrogates, and what is beyond Unicode: sequences that UTF-8 does not have. */
static bool is_no_character(const unsigned char *s)
{
    return (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
           (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
}

/* The bytes of the UTF-8 sequence at `s`; 0 if there is none. */
static unsigned sequence(const unsigned char *s)
{
    unsigned n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] >= 0xf5 || (s[0] >= 0x80 && s[0] < 0xc2))
        return 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return is_no_character(s) ? 0 : n;
}

/* A JSON string. File names may hold any bytes: what is not UTF-8 becomes U+FFFD. */
static void put_string(struct output *out, const char *text)
{
    put_char(out, '"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        unsigned n = sequence(s);
        if (n == 0 || *s < ' ' || *s == '"' || *s == '\\') {
            put(out, "\\u%04x", n ? *s : 0xfffd);
            s++;
        } else
            while (n--)
                put_char(out, (char)*s++);
    }
    put_char(out, '"');
}

/* -- Content -------------------------------------------------------------- */

enum { MOST_ARGUMENTS = 2048 }; /* bytes of the program's arguments that a report has */

const char *ag_report_run(void)
{
    const char *run = ag_initial_variable("AUTOGRAPH_RUN");
    size_t size = run != NULL ? strspn(run, "0123456789.-") : 0;
    return size != 0 && size <= AG_RUN_MOST && run[size] == '\0' ? run : NULL;
}

/* AG_REPORT_OF_RUN, of whatever process, and the time. */
static void put_run(struct output *out)
{
    struct timespec now = {0};
    const char *run = ag_report_run();
    if (run != NULL)
        put(out, AG_REPORT_OF_RUN, run);
    else
        put(out, AG_REPORT_BEGINNING "2,\n  \"run\": null,\n  \"pid\": ");
    put(out, "%ld,\n", (long)getpid());
    if (clock_gettime(CLOCK_REALTIME, &now) == 0)
        put(out, "  \"date\": %lld.%03ld,\n", (long long)now.tv_sec, now.tv_nsec / 1000000);
    else
        put(out, "  \"date\": null,\n");
}

/* As many as there is room for, without the program's name. */
static void put_arguments(struct output *out)
{
    char text[MOST_ARGUMENTS + 1];
    ssize_t size = 0;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, text, sizeof text - 1);
        close(fd); /* it was only read */
    }
    text[size > 0 ? size : 0] = '\0';
    put(out, "  \"arguments\": [");
    const char *first = text + strlen(text) + 1;
    for (const char *word = first; word < text + size; word += strlen(word) + 1) {
        put(out, word > first ? ", " : "");
        put_string(out, word);
    }
    put(out, "],\n");
}

static void put_program(struct output *out)
{
    char path[AG_PATH_MAX];
    ag_program_path(path, sizeof path);
    put(out, "  \"program\": ");
    put_string(out, path);
    put(out, ",\n");
    put_arguments(out);
}

static void put_name(struct output *out, bool *first, const char *name)
{
    put(out, "%s\n    \"%s\": ", *first ? "" : ",", name);
    *first = false;
}

/* An option whose value is not the `initial` one. */
static void put_bool(struct output *out, bool *first, const char *name, bool value, bool initial)
{
    if (value == initial)
        return;
    put_name(out, first, name);
    put(out, value ? "true" : "false");
}

static void put_int(struct output *out, bool *first, const char *name, long value, long initial)
{
    if (value == initial)
        return;
    put_name(out, first, name);
    put(out, "%ld", value);
}

/* The first word is the initial value. */
static void put_choice(struct output *out, bool *first, const char *name, const char *words,
                       unsigned place)
{
    if (place == 0)
        return;
    put_name(out, first, name);
    while (place-- > 0)
        words = strchr(words, '|') + 1;
    put(out, "\"%.*s\"", (int)strcspn(words, "|"), words);
}

static void put_text(struct output *out, bool *first, const char *name, const char *value,
                     const char *initial)
{
    if (strcmp(value, initial) == 0)
        return;
    put_name(out, first, name);
    put_string(out, value);
}

/* The options that differ from their defaults. */
static void put_options(struct output *out)
{
    bool first = true;

    put(out, "  \"options\": {");
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    put_bool(out, &first, #section "." #key, ag_opt.section##_##key, value);
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    put_int(out, &first, #section "." #key, ag_opt.section##_##key, value);
#define AG_OPT_STRING(section, key, value, help)                                                   \
    put_text(out, &first, #section "." #key, ag_opt.section##_##key, value);
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    put_choice(out, &first, #section "." #key, words, ag_opt.section##_##key);
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
    put(out, first ? "},\n" : "\n  },\n");
}

static void put_optional(struct output *out, const char *text)
{
    if (text)
        put_string(out, text);
    else
        put(out, "null");
}

/* Begins an element of an array. */
static void put_element(struct output *out, uint64_t index)
{
    put(out, index ? ",\n    {" : "\n    {");
}

static void put_streams(struct output *out, const struct ag_account *account)
{
    put(out, "  \"streams\": [");
    for (uint32_t i = 0; i < account->stream_count; i++) {
        const struct ag_stream_account *s = &account->streams[i];
        put_element(out, i);
        put(out, "\"number\": %" PRIu32 ", \"kind\": \"%s\"", s->number, s->kind);
        put(out, ", \"lives\": %" PRIu32 ", \"ops\": %" PRIu64, s->lives, s->ops);
        put(out, ", \"replayed\": %" PRIu64 ", \"replays\": %" PRIu64, s->replayed, s->replays);
        put(out, ", \"traces\": %" PRIu64 "}", s->traces);
    }
    put(out, "],\n");
}

/* A trace's part of what was saved: by its replayed ops. */
static void put_part(struct output *out, const struct ag_saving *saving, uint64_t ops, uint64_t all)
{
    if (saving->unknown != NULL || all == 0)
        put(out, ", \"saved_us\": null");
    else
        put(out, ", \"saved_us\": %.1f", saving->middle * (double)ops / (double)all);
}

static void put_saving(struct output *out, const struct ag_account *account)
{
    struct ag_saving saving = ag_saving_of(account);
    put(out, "  \"saved_us\": ");
    if (saving.unknown != NULL)
        put(out, "null,\n");
    else
        put(out, "[%.1f, %.1f, %.1f],\n", saving.low, saving.middle, saving.high);
    put(out, "  \"saved_unknown\": ");
    put_optional(out, saving.unknown);
    put(out, ",\n");
}

static void put_trials(struct output *out, const struct ag_account *account)
{
    put(out, "  \"duels\": %" PRIu64 ",\n", account->counters.trials);
    put(out, "  \"duels_lost\": %" PRIu64 ",\n", account->counters.trials_lost);
    if (account->eager_ns == 0) {
        put(out, "  \"held_ns\": null,\n  \"eager_ns\": null,\n  \"duel_variance\": null,\n");
        return;
    }
    put(out, "  \"held_ns\": %" PRIu64 ",\n  \"eager_ns\": %" PRIu64 ",\n", account->held_ns,
        account->eager_ns);
    put(out, "  \"duel_variance\": %.9f,\n", account->trial_variance);
}

static void put_gpus(struct output *out, const struct ag_account *account)
{
    put(out, "  \"gpus\": [");
    for (uint32_t i = 0; i < account->gpu_count; i++) {
        put(out, i ? ", " : "");
        put_string(out, account->gpus[i]);
    }
    put(out, "],\n  \"pool\": {\"allocations\": %" PRIu64, account->pool_allocations);
    put(out, ", \"behind_waits\": %" PRIu64 ", \"keeps\": ", account->pool_behind_waits);
    if (account->pool_keeps < 0)
        put(out, "null},\n");
    else
        put(out, "%" PRId64 "},\n", account->pool_keeps);
}

/* Why ops were eager. */
static void put_eager(struct output *out, const struct ag_counters *c)
{
    put(out, "  \"eager_ops\": {");
    for (int i = 0; i < AG_WHY_COUNT; i++)
        put(out, "%s\n    \"%s\": %" PRIu64, i ? "," : "", ag_why_names[i], c->eager[i]);
    for (int i = 0; i < AG_REASON_COUNT; i++)
        put(out, ",\n    \"%s\": %" PRIu64, ag_reason_names[i], c->given_up[i]);
    put(out, "\n  },\n");
}

static int by_replayed(const void *a, const void *b)
{
    const struct ag_trace_account *x = *(struct ag_trace_account *const *)a;
    const struct ag_trace_account *y = *(struct ag_trace_account *const *)b;
    uint64_t p = x->length * atomic_load(&x->replays), q = y->length * atomic_load(&y->replays);
    return p != q ? (p < q ? 1 : -1) : (x->number > y->number) - (x->number < y->number);
}

/* What the report lists at most, the most important first. */
enum { MOST_TRACES = 256, MOST_CUTS = 64 };

static void put_traces(struct output *out, const struct ag_account *account)
{
    uint32_t count = account->trace_count < MOST_TRACES ? account->trace_count : MOST_TRACES;
    const struct ag_saving saving = ag_saving_of(account);
    if (account->trace_count)
        qsort(account->traces, account->trace_count, sizeof account->traces[0], by_replayed);
    put(out, "  \"trace_list\": [");
    for (uint32_t i = 0; i < count; i++) {
        const struct ag_trace_account *t = account->traces[i];
        put_element(out, i);
        put(out, "\"number\": %" PRIu32 ", \"stream\": %" PRIu32, t->number, t->stream);
        put(out, ", \"length\": %" PRIu32 ", \"replays\": %" PRIu64, t->length,
            atomic_load(&t->replays));
        put(out, ", \"patches\": %" PRIu64, atomic_load(&t->patches));
        put_part(out, &saving, t->length * atomic_load(&t->replays), account->counters.replayed);
        put(out, ", \"kernels\": [");
        for (uint32_t k = 0; k < t->names; k++) {
            put(out, k ? ", {\"name\": " : "{\"name\": ");
            put_optional(out, t->kernels[k].name);
            put(out, ", \"count\": %" PRIu32 "}", t->kernels[k].count);
        }
        put(out, "]}");
    }
    put(out, "],\n  \"trace_list_left_out\": %" PRIu64 ",\n",
        account->trace_count - count + account->traces_left_out);
}

static int by_ops(const void *a, const void *b)
{
    const struct ag_cut *x = a, *y = b;
    if (x->ops != y->ops)
        return x->ops < y->ops ? 1 : -1;
    return (x->calls < y->calls) - (x->calls > y->calls);
}

static void put_cuts(struct output *out, const struct ag_account *account)
{
    if (account->cut_count)
        qsort(account->cuts, account->cut_count, sizeof account->cuts[0], by_ops);
    put(out, "  \"cuts\": [");
    for (uint32_t i = 0; i < account->cut_count && i < MOST_CUTS; i++) {
        const struct ag_cut *cut = &account->cuts[i];
        put_element(out, i);
        put(out, "\"function\": ");
        put_optional(out, cut->function);
        put(out, ", \"reason\": \"%s\", \"why\": ", ag_reason_names[cut->reason]);
        put_optional(out, cut->why != AG_WHY_HELD ? ag_why_names[cut->why] : NULL);
        put(out, ", \"calls\": %" PRIu64 ", \"ops\": %" PRIu64 "}", cut->calls, cut->ops);
    }
    put(out, "],\n");
}

static void put_callsites(struct output *out)
{
    struct ag_callsite site;
    put(out, "  \"callsites\": [");
    for (unsigned i = 0; ag_callsite_get(i, &site); i++) {
        put_element(out, i);
        put(out, "\"function\": ");
        put_optional(out, site.function);
        put(out, ", \"samples\": %" PRIu64 ", \"frames\": [", site.samples);
        for (uint32_t f = 0; f < site.frames; f++) {
            const struct ag_frame *frame = &site.frame[f];
            put(out, f ? ", {\"module\": " : "{\"module\": ");
            put_optional(out, frame->module);
            put(out, ", \"offset\": %" PRIu64 ", \"symbol\": ", frame->offset);
            put_optional(out, frame->symbol);
            put(out, ", \"symbol_offset\": %" PRIu64 "}", frame->symbol_offset);
        }
        put(out, "]}");
    }
    put(out, "],\n");
}

static void put_regions(struct output *out)
{
    struct ag_region region;
    put(out, "  \"regions\": [");
    for (unsigned i = 0; ag_region_get(i, &region); i++) {
        put_element(out, i);
        put(out, "\"name\": ");
        put_string(out, region.name);
        put(out, ", \"count\": %" PRIu64 ", \"seconds\": %.6f", region.count,
            (double)region.ns * 1e-9);
        put(out, ", \"ops\": %" PRIu64 ", \"replayed\": %" PRIu64 "}", region.ops, region.replayed);
    }
    put(out, "],\n");
}

static void put_trace_file(struct output *out)
{
    struct ag_tracefile_state state;
    char text[64];
    ag_tracefile_state(&state);
    put(out, "  \"trace_file\": ");
    if (!*state.file) {
        put(out, "null\n");
        return;
    }
    put(out, "{\"file\": ");
    put_string(out, state.file);
    put(out, ", \"bytes\": %" PRIu64 ", \"lost\": %" PRIu64, state.bytes, state.lost);
    put(out, ", \"error\": ");
    put_optional(out, state.error ? strerror_r(state.error, text, sizeof text) : NULL);
    put(out, "}\n");
}

static void put_report(struct output *out, const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    put_run(out);
    put(out, "  \"version\": \"%s\",\n", PACKAGE_VERSION);
    put_program(out);
    put(out, "  \"config\": ");
    put_string(out, ag_config_path);
    put(out, ",\n");
    put_options(out);
    put(out, "  \"stopped\": ");
    put_optional(out, account->stopped);
    put(out, ",\n");
    put_gpus(out, account);
    put(out, "  \"seconds\": %.6f,\n", account->seconds);
    put(out, "  \"complete\": %s,\n", account->complete ? "true" : "false");
    put(out, "  \"partial\": %s,\n", account->partial ? "true" : "false");
    put(out, "  \"barred\": %s,\n", account->barred ? "true" : "false");
    put(out, "  \"ops\": {\"total\": %" PRIu64, c->ops);
    put(out, ", \"replayed\": %" PRIu64, c->replayed);
    put(out, ", \"eager\": %" PRIu64 "},\n", c->ops - c->replayed);
    put_eager(out, c);
    put(out, "  \"replays\": %" PRIu64 ",\n  \"waited\": %" PRIu64 ",\n", c->replays, c->waited);
    put(out, "  \"patches\": %" PRIu64 ",\n", c->patches);
    put(out, "  \"updates\": %" PRIu64 ",\n", c->updates);
    put(out, "  \"updates_refused\": {");
    for (int i = 1; i < AG_REFUSAL_COUNT; i++)
        put(out, "%s\"%s\": %" PRIu64, i > 1 ? ", " : "", ag_refusal_names[i], c->refusals[i]);
    put(out, "},\n  \"traces\": %" PRIu64 ",\n", c->traces);
    put(out, "  \"making_us\": %.1f,\n", (double)c->making_ns / 1000);
    put(out, "  \"evictions\": %" PRIu64 ",\n", c->evictions);
    put(out, "  \"graph_memory_kb\": %" PRIu64 ",\n", account->graph_memory_kb);
    put(out, "  \"side_exits\": %" PRIu64 ",\n", c->flushes[AG_REASON_SIDE_EXIT]);
    put_trials(out, account);
    put_saving(out, account);
    put(out, "  \"flushes\": {");
    for (int i = 0; i < AG_REASON_COUNT; i++)
        put(out, "%s\"%s\": %" PRIu64, i ? ", " : "", ag_reason_names[i], c->flushes[i]);
    put(out, "},\n  \"errors\": %" PRIu64 ",\n", c->errors);
    put_streams(out, account);
    put_traces(out, account);
    put_cuts(out, account);
    put_callsites(out);
    put_regions(out);
    put_trace_file(out);
    put(out, "}\n");
}

int ag_report_put(int fd, const void *account)
{
    struct output out = {.fd = fd};
    put_report(&out, account);
    flush(&out);
    return out.error;
}
