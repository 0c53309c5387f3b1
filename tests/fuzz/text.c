/* SPDX-License-Identifier: MIT */
/* Fuzz programs in memory and as text. */
#include "program.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool block;
} kinds[S_KINDS] = {
#define X(id, name, block) {name, block},
    STATEMENTS(X)
#undef X
};

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define X(name) {#name, offsetof(struct statement, name)},
    FIELDS(X)
#undef X
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static int *field(struct statement *s, int i)
{
    return (int *)((char *)s + fields[i].offset);
}

/* -- Memory --------------------------------------------------------------- */

struct statement *statement_new(enum statement_kind kind)
{
    struct statement *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->kind = kind;
    return s;
}

struct statement *program_clone(const struct statement *list)
{
    struct statement *first = NULL, **end = &first;
    for (; list != NULL; list = list->next) {
        struct statement *s = statement_new(list->kind);
        *s = *list;
        s->body = program_clone(list->body);
        s->next = NULL;
        *end = s;
        end = &s->next;
    }
    return first;
}

void program_free(struct statement *list)
{
    while (list != NULL) {
        struct statement *next = list->next;
        program_free(list->body);
        free(list);
        list = next;
    }
}

/* -- Printing ------------------------------------------------------------- */

void statement_print(FILE *to, const struct statement *s)
{
    fprintf(to, "%s", kinds[s->kind].name);
    for (int i = 0; i < FIELD_COUNT; i++) {
        int value = *(const int *)((const char *)s + fields[i].offset);
        if (value != 0)
            fprintf(to, " %s=%d", fields[i].name, value);
    }
}

static void print(FILE *to, const struct statement *list, int depth)
{
    for (; list != NULL; list = list->next) {
        fprintf(to, "%*s", depth * 2, "");
        statement_print(to, list);
        if (!kinds[list->kind].block) {
            fprintf(to, "\n");
            continue;
        }
        fprintf(to, " {\n");
        print(to, list->body, depth + 1);
        fprintf(to, "%*s}\n", depth * 2, "");
    }
}

void program_print(FILE *to, const struct statement *list)
{
    print(to, list, 0);
}

/* -- Reading -------------------------------------------------------------- */

struct reader {
    FILE *from;
    const char *name;
    int line;
    bool failed;
};

static void complain(struct reader *r, const char *what, const char *word)
{
    if (!r->failed)
        fprintf(stderr, "%s:%d: %s %s\n", r->name, r->line, what, word);
    r->failed = true;
}

static void read_field(struct reader *r, struct statement *s, char *word)
{
    char *value = strchr(word, '='), *end;
    if (value != NULL)
        *value++ = 0;
    for (int i = 0; value != NULL && i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, word) == 0) {
            *field(s, i) = (int)strtol(value, &end, 10);
            if (*end != 0 || end == value)
                complain(r, "no number:", value);
            return;
        }
    complain(r, "no such field:", word);
}

static struct statement *read_line(struct reader *r, char *text, bool *opens)
{
    char *save, *word = strtok_r(text, " \t\n", &save);
    int kind = 0;
    while (kind < S_KINDS && strcmp(kinds[kind].name, word) != 0)
        kind++;
    if (kind == S_KINDS) {
        complain(r, "no such statement:", word);
        return NULL;
    }
    struct statement *s = statement_new(kind);
    *opens = false;
    while ((word = strtok_r(NULL, " \t\n", &save)) != NULL)
        if (strcmp(word, "{") == 0)
            *opens = true;
        else
            read_field(r, s, word);
    if (*opens != kinds[kind].block)
        complain(r, "block or no block?", kinds[kind].name);
    return s;
}

static struct statement *read_list(struct reader *r, int depth)
{
    char text[512];
    struct statement *first = NULL, **end = &first;
    while (!r->failed) {
        if (fgets(text, sizeof text, r->from) == NULL) {
            if (depth != 0)
                complain(r, "the text ends", "in a block");
            break;
        }
        r->line++;
        const char *start = text + strspn(text, " \t\n");
        if (*start == 0 || *start == '#')
            continue;
        if (*start == '}') {
            if (depth == 0)
                complain(r, "unexpected", "}");
            break;
        }
        bool opens = false;
        struct statement *s = read_line(r, text, &opens);
        if (s == NULL)
            break;
        *end = s;
        end = &s->next;
        if (opens && !r->failed)
            s->body = read_list(r, depth + 1);
    }
    return first;
}

struct statement *program_read(FILE *from, const char *name)
{
    struct reader reader = {.from = from, .name = name};
    struct statement *list = read_list(&reader, 0);
    if (!reader.failed)
        return list;
    program_free(list);
    return NULL;
}
