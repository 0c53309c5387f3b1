/* SPDX-License-Identifier: MIT */
/*
 * What a recording does not say, and its order shows: which threads waited for each other, and what
 * questions were told.
 */
#include "policy/program.h"

#include <stdlib.h>

#include "policy/costs.h"

/* A thread's last call, as recorded. */
struct last {
    uint64_t end; /* ns */
    bool any;
};

static void *zeros(size_t count, size_t size)
{
    void *made = calloc(count + 1, size);
    if (made == NULL)
        abort();
    return made;
}

/* When a call begins: not before those that come before it. */
static uint64_t begins(const struct last *thread, uint64_t gap, uint64_t last_begin)
{
    uint64_t begin = (thread->any ? thread->end : last_begin) + gap;
    return begin > last_begin ? begin : last_begin;
}

/* A thread that did nothing for long while others made calls has most likely waited for the last of
   these. What it did behind that call is its own time. */
static void find_waits(struct play_program *p)
{
    enum { LONG = 100000 }; /* ns */
    struct last *last = zeros(p->threads, sizeof *last);
    uint64_t begin = 0;
    uint32_t before = 0; /* the thread of the last call */
    for (size_t i = 0; i < p->lines; i++) {
        struct play_line *line = &p->line[i];
        struct last *thread = &last[line->thread];
        if (line->thread == 0)
            continue;
        begin = begins(thread, line->gap, begin);
        if (before != 0 && before != line->thread && line->gap > LONG) {
            line->behind = before;
            line->gap = begin > last[before].end ? begin - last[before].end : 0;
        }
        thread->end = begin + line->own;
        thread->any = true;
        before = line->thread;
    }
    free(last);
}

/* Long pauses end sooner. Returns how long the program then took, as recorded. */
static uint64_t shorten(struct play_program *p)
{
    struct last *last = zeros(p->threads, sizeof *last);
    uint64_t begin = 0, end = 0;
    for (size_t i = 0; i < p->lines; i++) {
        struct play_line *line = &p->line[i];
        struct last *thread = &last[line->thread];
        if (line->thread == 0)
            continue;
        line->gap = line->gap < PLAY_GAP_MOST ? line->gap : PLAY_GAP_MOST;
        if (line->behind != 0 && last[line->behind].end > thread->end)
            thread->end = last[line->behind].end;
        begin = begins(thread, line->gap, begin);
        thread->end = begin + line->own;
        thread->any = true;
        end = thread->end > end ? thread->end : end;
    }
    free(last);
    return end;
}

/* Where the file does not say what a question was told: a thread asks until the GPU is done. */
static void answer(struct play_program *p)
{
    enum { NOT_READY = 600 };
    const struct play_line **last = zeros(p->threads, sizeof *last); /* the next call */
    for (size_t i = p->lines; i-- > 0;) {
        struct play_line *line = &p->line[i];
        const struct play_line *next = last[line->thread];
        bool asks = line->verb == PLAY_ASK_STREAM || line->verb == PLAY_ASK_EVENT;
        if (asks && line->words == 1 && next != NULL && next->verb == line->verb &&
            next->word[0] == line->word[0])
            line->word[1] = NOT_READY;
        last[line->thread] = line;
    }
    free(last);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* How slow calls are in the program's process, by its launches that did not wait for room. Threads
   that launch at one time wait for each other, and tell nothing. */
static double slowness(const struct play_program *p)
{
    enum { TELLING = 100, THREADS = 2, LEAST = 1000, QUARTER = 4, USUAL = NS_LAUNCH - 500 };
    const double least = 0.8, most = 2.5;
    uint64_t *ns = zeros(p->lines, sizeof *ns);
    size_t count = 0;
    for (size_t i = 0; i < p->lines; i++)
        if (p->line[i].verb == PLAY_KERNEL && p->line[i].own != 0)
            ns[count++] = p->line[i].own;
    qsort(ns, count, sizeof *ns, by_size);
    uint64_t usual = count >= TELLING && p->threads <= THREADS ? ns[count / QUARTER] : 0;
    free(ns);
    double slow = usual > LEAST ? (double)usual / USUAL : 1;
    return slow < least ? least : slow > most ? most : slow;
}

void play_order(struct play_program *program)
{
    find_waits(program);
    program->ns = shorten(program);
    answer(program);
    program->slow = slowness(program);
}
