/* SPDX-License-Identifier: MIT */
/*
 * Programs from seeds. Each program has a character of its own (which statements are frequent, how
 * often arguments change), since a program with a little of everything repeats nothing for long.
 */
#include <stdlib.h>

#include "generate.h"

/* Kinds of statement within blocks, and how frequent they are at most. */
#define CHOICES(X)                                                                                 \
    X(KERNEL, 600)                                                                                 \
    X(MEMSET, 100)                                                                                 \
    X(COPY, 80)                                                                                    \
    X(HOST, 8)                                                                                     \
    X(VALUE, 15)                                                                                   \
    X(EXCHANGE, 60)                                                                                \
    X(PASS, 40)                                                                                    \
    X(SYNC, 25)                                                                                    \
    X(READ, 12)                                                                                    \
    X(POKE, 6)                                                                                     \
    X(SPIN, 1)                                                                                     \
    X(PAUSE, 4)                                                                                    \
    X(TEMP, 14)                                                                                    \
    X(CAPTURE, 8)                                                                                  \
    X(REPLAY, 6)                                                                                   \
    X(GRAPH, 3)                                                                                    \
    X(FAIL, 8)                                                                                     \
    X(LIMIT, 5)                                                                                    \
    X(SETTING, 6)                                                                                  \
    X(RELOAD, 4)                                                                                   \
    X(RENEW, 5)                                                                                    \
    X(REALLOC, 5)                                                                                  \
    X(ACCESS, 0)                                                                                   \
    X(WATCH, 0)                                                                                    \
    X(GATE, 0)                                                                                     \
    X(FILL, 0)                                                                                     \
    X(LOOP, 40)                                                                                    \
    X(IF, 50)                                                                                      \
    X(ON, 12)

/* -- Cost: about how long a statement takes, in ops ---------------------------- */

int cost(const struct statement *list)
{
    int sum = 0;
    for (const struct statement *s = list; s != NULL; s = s->next) {
        int body = s->body != NULL ? cost(s->body) : 0;
        if (s->thread != 0 && s->kind != S_ON)
            sum += 10;
        switch (s->kind) {
        case S_LOOP:
            sum += (s->n + s->more / 2) * body;
            break;
        case S_IF:
            sum += 1 + body / (s->n < 1 ? 1 : s->n);
            break;
        case S_ON:
            sum += 10 + body;
            break;
        case S_CAPTURE:
            sum += 40 + body * (2 + s->n);
            break;
        case S_SPIN:
            sum += 150;
            break;
        case S_RESET:
            sum += 100;
            break;
        case S_GRAPH:
            sum += 40;
            break;
        case S_PAUSE:
            sum += s->n / 2;
            break;
        case S_TIME:
            sum += 10 + s->n / 2;
            break;
        case S_GATE:
            sum += 1 + s->n / 2;
            break;
        case S_FILL:
            sum += 20 + s->n / 2;
            break;
        case S_TURNS:
            sum += s->n * (8 + body);
            break;
        case S_LEAVE:
            sum += 30;
            break;
        case S_RELOAD:
        case S_WATCH:
            sum += 20;
            break;
        case S_SYNC:
        case S_READ:
        case S_POKE:
        case S_RENEW:
        case S_REALLOC:
        case S_ACCESS:
        case S_REPLAY:
            sum += 10;
            break;
        case S_EXCHANGE:
        case S_PASS:
        case S_HOST:
            sum += 6;
            break;
        case S_FORK:
        case S_BRANCH:
            sum += 6 + body;
            break;
        default:
            sum += 1 + body;
        }
    }
    return sum;
}

/* -- Ops ------------------------------------------------------------------ */

static int any_buffer(struct generator *g)
{
    return PICK(g, 50, 20, 14, 6, 3, 7);
}

static void values(struct generator *g, struct statement *s)
{
    s->k = between(g, 1, 99);
    if (chance(g, g->vary))
        s->vary = between(g, VARY_TRIP, VARY_KINDS - 1);
}

/* What differs from trip to trip: something, in half of the ops on the average. */
static void shape_fill(struct generator *g, struct statement *s)
{
    struct generator other = beside(g);
    int all = s->kind == S_KERNEL   ? SHAPE_GRID | SHAPE_BLOCK | SHAPE_SHARED | SHAPE_WHICH
              : s->kind == S_MEMSET ? SHAPE_WHICH | SHAPE_SIZE | SHAPE_PLACE
              : s->kind == S_COPY   ? SHAPE_SIZE | SHAPE_PLACE
                                    : 0;
    if (all == 0 || !chance(&other, g->shapes))
        return;
    while (s->shape == 0)
        s->shape = all & (chance(&other, 60) ? 1 << below(&other, 6) : below(&other, SHAPE_EVER));
    if (chance(&other, 40))
        s->shape |= SHAPE_EVER;
}

static void kernel_fill(struct generator *g, struct statement *s)
{
    s->n = PICK(g, 40, 15, 15, 10, 3, 7, 10);
    s->how = PICK(g, 55, 10, 15, 10, 7, 3);
    if ((s->how == LAUNCH_EX || s->how == LAUNCH_HANDLE_EX) && chance(g, 70))
        s->attrs = chance(g, 80) ? 1 << below(g, 6) : below(g, ATTR_ALL + 1);
    struct generator beside = *g; /* a seed's program is otherwise what it was */
    if (s->attrs != 0 && chance(&beside, 30))
        s->attrs |= ONE_OF(&beside, ATTR_NVLINK, ATTR_NVLINK, ATTR_PREFERRED, ATTR_PREFERRED,
                           ATTR_CLUSTER_MODE, ATTR_SHARED_MODE);
    s->dst = any_buffer(g);
    s->src = any_buffer(g);
    s->size = chance(g, 60) ? 0 : between(g, 1, BUFFER_WORDS);
    s->grid = ONE_OF(g, 0, 0, 0, 1, 2, 5, 1004);
    s->block = ONE_OF(g, 0, 0, 0, 1, 64, 1024);
    s->shared = ONE_OF(g, 0, 0, 0, 0, 1024, 49152);
    if (s->n == KERNEL_LAYOUTS && chance(g, 30))
        s->shared = ONE_OF(g, 50000, 60000, 100000);
    s->more = (chance(g, 15) ? 1 : 0) + (s->attrs != 0 && chance(g, 40) ? 2 : 0);
    values(g, s);
}

static void memory_fill(struct generator *g, struct statement *s)
{
    s->dst = any_buffer(g);
    s->at = below(g, BUFFER_WORDS);
    s->size = between(g, 1, BUFFER_WORDS);
    values(g, s);
}

/* Some waits become the times of events. */
static void time_fill(struct generator *g, struct statement *s)
{
    struct generator other = beside(g);
    if (!chance(&other, 20))
        return;
    s->kind = S_TIME;
    s->n = ONE_OF(&other, 50, 100, 200);
    s->how = below(&other, 4);
}

/* Memory whose access comes and goes, in place of some other. */
static void mapped_fill(struct generator *g, struct statement *s)
{
    struct generator other = beside(g);
    bool copies = s->kind == S_COPY || s->kind == S_READ;
    if (g->weight[S_ACCESS] == 0 || !chance(&other, 60))
        return;
    if (copies && chance(&other, 50))
        s->src = BUFFER_MAPPED;
    else if (copies || s->kind == S_MEMSET || s->kind == S_VALUE)
        s->dst = BUFFER_MAPPED;
}

static void watch_fill(struct generator *g, struct statement *s)
{
    s->how = below(g, WATCHES);
    s->n = ONE_OF(g, 7, 50, 60, 80);
    s->mode = below(g, 2);
    s->more = below(g, 3);
    s->size = between(g, 1, BUFFER_WORDS);
    s->other = below(g, g->lanes);
    s->k = between(g, 1, 99);
}

static void op_fill(struct generator *g, struct statement *s)
{
    shape_fill(g, s);
    switch (s->kind) {
    case S_KERNEL: {
        int lane = s->lane;
        if (g->templates > 0 && chance(g, 80)) {
            int shape = s->shape;
            *s = *g->template[below(g, g->templates)];
            s->lane = lane;
            s->shape = shape;
        } else {
            kernel_fill(g, s);
        }
        break;
    }
    case S_MEMSET:
        memory_fill(g, s);
        s->n = ONE_OF(g, 1, 2, 4);
        s->how = PICK(g, 80, 15, 5);
        break;
    case S_COPY:
        memory_fill(g, s);
        s->src = any_buffer(g);
        s->how = PICK(g, 30, 20, 10, 10, 10, 8, 6, 3, 3);
        s->mode = s->how == COPY_HTOD_PAGEABLE && chance(g, 20);
        break;
    case S_VALUE:
        memory_fill(g, s);
        break;
    case S_HOST:
    case S_READ:
        s->how = below(g, s->kind == S_HOST ? 2 : 5);
        s->mode = below(g, 2);
        s->n = below(g, KERNEL_NONE);
        values(g, s);
        break;
    case S_EXCHANGE:
    case S_PASS:
        s->other = below(g, g->lanes);
        s->mode = PICK(g, 66, 12, 22);
        s->how = PICK(g, 36, 10, 20, 6, 5, 4, 4, 3, 12);
        values(g, s);
        break;
    case S_SYNC:
    case S_POKE:
        s->how = between(g, EDGE_HOST, EDGE_HOST_CONTEXT);
        values(g, s);
        break;
    case S_PAUSE:
        s->n = ONE_OF(g, 5, 20, 50, 100, 400);
        break;
    case S_REPLAY:
        s->n = between(g, 1, 2);
        break;
    case S_GRAPH:
        s->n = between(g, 1, 20);
        values(g, s);
        break;
    case S_FAIL:
        s->how = below(g, FAILURES);
        break;
    case S_LIMIT:
        s->n = ONE_OF(g, 0, 49152, 60000, 60000, 100000, 300000);
        break;
    case S_SETTING:
        s->how = below(g, SETTINGS);
        s->n = below(g, 4);
        break;
    case S_RELOAD:
        s->n = below(g, KERNEL_VARIANTS);
        s->more = below(g, 2);
        break;
    case S_RENEW:
        s->n = below(g, 3);
        break;
    case S_WATCH:
        watch_fill(g, s);
        break;
    case S_GATE:
        s->n = ONE_OF(g, 20, 20, 200, 200, 2000);
        break;
    case S_FILL:
        s->how = below(g, FILLS);
        s->n = s->how == FILL_WAITS ? ONE_OF(g, 20, 20, 200, 500) : 0;
        s->other = below(g, g->lanes);
        values(g, s);
        break;
    case S_ACCESS:
        s->how = chance(g, 30);
        s->n = between(g, 1, 3);
        values(g, s);
        break;
    default:
        values(g, s);
    }
    mapped_fill(g, s);
}

/* -- Blocks --------------------------------------------------------------- */

int any_lane(struct generator *g, const struct place *at)
{
    int lane = below(g, g->lanes);
    for (int i = 0; i < g->lanes && at->thread >= 0; i++)
        if (g->lane_thread[lane] != at->thread)
            lane = (lane + 1) % g->lanes;
    return lane;
}

static struct statement *block(struct generator *g, struct place at, int count, int lane);

static int trips(struct generator *g, const struct statement *body, int budget)
{
    int most = budget / (cost(body) + 1);
    int n = ONE_OF(g, 2, 5, 10, 20, 40, 80, 200);
    return n > most ? most < 1 ? 1 : most : n;
}

static struct statement *loop(struct generator *g, struct place at, int count, int budget)
{
    struct statement *s = statement_new(S_LOOP);
    at.loops++;
    at.depth++;
    s->body = block(g, at, count, any_lane(g, &at));
    forks_add(g, at, &s->body);
    s->n = trips(g, s->body, budget);
    if (chance(g, 25))
        s->more = between(g, 1, 3);
    return s;
}

struct statement *any(struct generator *g, struct place at, int lane)
{
    int kind = pick(g, g->weight, S_KINDS);
    bool nests = kind == S_LOOP || kind == S_IF || kind == S_ON || kind == S_TEMP;
    if ((nests && at.depth >= 5) || (kind == S_LOOP && at.loops >= 3) ||
        (kind == S_ON && (at.thread >= 0 || at.capture)) || (kind == S_CAPTURE && at.capture) ||
        (at.capture && kind == S_SYNC && chance(g, 90)))
        kind = S_KERNEL;
    if (kind == S_LOOP)
        return loop(g, at, between(g, 1, 6), 60);
    return one(g, at, lane, kind);
}

struct statement *one(struct generator *g, struct place at, int lane, int kind)
{
    struct statement *s = statement_new(kind);
    s->lane = lane;
    at.depth++;
    if (kind == S_IF) {
        s->n = between(g, 2, 6);
        s->k = below(g, s->n);
        s->how = chance(g, 25);
        s->body = block(g, at, between(g, 1, 5), lane);
    } else if (kind == S_ON) {
        s->thread = below(g, g->threads);
        s->lane = 0;
        s->body = block(g, at, between(g, 1, 5), lane);
    } else if (kind == S_TEMP) {
        s->how = PICK(g, 70, 15, 15);
        values(g, s);
        s->body = block(g, at, between(g, 1, 6), lane);
    } else if (kind == S_CAPTURE) {
        s->mode = below(g, 3);
        s->how = below(g, 2);
        s->n = below(g, 3);
        s->more = chance(g, 60);
        at.capture = true;
        s->body = block(g, at, between(g, 1, 8), lane);
    } else {
        op_fill(g, s);
        if (kind == S_SYNC)
            time_fill(g, s);
        if (g->away != 0 && chance(g, g->away))
            s->away = 1 + below(g, g->contexts + 1);
    }
    if (kind != S_IF && kind != S_ON && at.thread < 0 && chance(g, g->handed))
        s->thread = 1 + below(g, g->threads);
    return s;
}

/* A thread ends, or a context; NULL: mostly none does. */
static struct statement *end_of_life(struct generator *g, struct place at)
{
    struct generator other = beside(g);
    struct statement *s = NULL;
    other.random *= 31;
    if (at.thread >= 0 || at.capture)
        return NULL;
    if (g->threads > 1 && chance(&other, 15)) {
        s = statement_new(S_LEAVE);
        s->thread = 2 + below(&other, g->threads); /* the first is always at work */
        s->how = below(&other, 3);
        s->mode = below(&other, 2);
    } else if (chance(&other, 2)) {
        s = statement_new(S_RESET);
        s->n = below(&other, g->contexts);
        s->how = below(&other, 3);
    }
    return s;
}

/*
 * A barrier that comes now and then, and so finds a trace begun: whatever interrupts it must see
 * the ops that are held.
 */
struct statement *interruption(struct generator *g, struct place at, int lane)
{
    static const int kinds[] = {S_SYNC,  S_READ,    S_POKE,     S_CAPTURE, S_GRAPH,
                                S_HOST,  S_REPLAY,  S_RENEW,    S_RELOAD,  S_FAIL,
                                S_LIMIT, S_REALLOC, S_EXCHANGE, S_PASS,    S_SETTING};
    struct statement *s = statement_new(S_IF);
    s->n = between(g, 3, 9);
    s->how = 1;
    s->k = below(g, 100);
    int kind = kinds[below(g, (int)(sizeof kinds / sizeof kinds[0]))];
    struct generator other = beside(g);
    if (g->weight[S_ACCESS] != 0 && chance(&other, 40))
        kind = S_ACCESS;
    if (kind == S_CAPTURE && at.capture)
        kind = S_KERNEL;
    s->body = end_of_life(g, at);
    if (s->body == NULL)
        s->body = one(g, at, lane, kind);
    return s;
}

/* Statements that mostly concern one lane. */
static struct statement *block(struct generator *g, struct place at, int count, int lane)
{
    struct statement *first = NULL, **end = &first;
    if (g->bodies > 0 && chance(g, 10)) { /* the beginning of another */
        first = program_clone(g->body[below(g, g->bodies)]);
        int keep = between(g, 1, 6);
        while (*end != NULL && keep-- > 0)
            end = &(*end)->next;
        program_free(*end);
        *end = NULL;
    }
    for (int i = 0; i < count; i++) {
        if (chance(g, 20))
            lane = any_lane(g, &at);
        *end = any(g, at, lane);
        end = &(*end)->next;
        if (at.loops > 0 && chance(g, g->interrupted)) {
            *end = interruption(g, at, lane);
            end = &(*end)->next;
        }
    }
    if (g->bodies < MOST_BODIES && chance(g, 30))
        g->body[g->bodies++] = program_clone(first);
    return first;
}

static int body_length(struct generator *g)
{
    return chance(g, g->long_body) ? between(g, 20, 150) : between(g, 1, 12);
}

/* A part of the program: a loop most of the time. */
static struct statement *phase(struct generator *g, int thread, int budget)
{
    struct place at = {.thread = thread};
    if (chance(g, 90))
        return loop(g, at, body_length(g), budget);
    return block(g, at, between(g, 1, 10), any_lane(g, &at));
}

static struct statement *parallel(struct generator *g, int budget)
{
    struct statement *par = statement_new(S_PAR), **end = &par->body;
    for (int i = 0; i < g->threads; i++) {
        struct statement *on = statement_new(S_ON);
        on->thread = i;
        on->body = phase(g, i, budget / g->threads);
        *end = on;
        end = &on->next;
    }
    return par;
}

/* -- The whole ------------------------------------------------------------ */

static void character(struct generator *g)
{
    static const int base[S_KINDS] = {
#define X(kind, weight) [S_##kind] = weight,
        CHOICES(X)
#undef X
    };
    for (int i = 0; i < S_KINDS; i++)
        if (i != S_ACCESS && i < S_WATCH)
            g->weight[i] = base[i] * ONE_OF(g, 0, 0, 0, 1, 1, 4) / 2;
    g->weight[S_KERNEL] = base[S_KERNEL] * ONE_OF(g, 1, 1, 4);
    g->vary = ONE_OF(g, 0, 10, 40, 90);
    struct generator other = beside(g);
    g->shapes = ONE_OF(&other, 0, 20, 80, 100);
    g->weight[S_ACCESS] = ONE_OF(&other, 0, 0, 0, 2, 10);
    g->weight[S_GATE] = ONE_OF(&other, 0, 0, 0, 0, 4, 12);
    g->weight[S_FILL] = ONE_OF(&other, 0, 0, 0, 0, 0, 0, 4, 12);
    if (g->weight[S_ACCESS] != 0) { /* ops that use such memory */
        g->weight[S_MEMSET] += base[S_MEMSET];
        g->weight[S_COPY] += base[S_COPY];
        g->weight[S_READ] += base[S_READ];
    }
    g->long_body = ONE_OF(g, 0, 0, 20, 80);
    if (g->threads == 1)
        g->weight[S_ON] = 0;
    g->interrupted = ONE_OF(g, 0, 0, 10, 30);
    g->handed = g->threads > 1 ? ONE_OF(g, 0, 0, 10) : 0;
    g->templates = below(g, MOST_TEMPLATES + 1);
    for (int i = 0; i < g->templates; i++) {
        g->template[i] = statement_new(S_KERNEL);
        kernel_fill(g, g->template[i]);
    }
}

static struct statement **declare(struct generator *g, struct statement **end)
{
    struct statement *s = *end = statement_new(S_PROGRAM), *first = s;
    s->threads = g->threads;
    s->how = below(g, 2);
    s->mode = below(g, 4);
    end = &s->next;
    for (int i = 0; i < g->contexts; i++) {
        s = *end = statement_new(S_CONTEXT);
        s->n = i > 0 ? below(g, 2) : 0;
        end = &s->next;
    }
    for (int i = 0; i < g->lanes; i++) {
        s = *end = statement_new(S_LANE);
        s->how = PICK(g, 20, 30, 35, 15);
        s->n = i < g->contexts ? i : below(g, g->contexts);
        s->thread = g->lane_thread[i] = i < g->threads ? i : below(g, g->threads);
        s->more = chance(g, 30);
        if (i > 0 && chance(g, 12))
            s->mode = between(g, 1, i);
        s->k = chance(g, 20) ? -between(g, 1, 3) : 0;
        end = &s->next;
    }
    return forks_declare(g, first, end);
}

/* A loop whose host waits for a copy each time; NULL in most programs. */
static struct statement *watch_phase(struct generator *g)
{
    struct generator other = *g;
    other.random ^= 0x9e6c63d0876a9a47u;
    if (!chance(&other, 30))
        return NULL;
    struct place at = {.thread = -1, .loops = 1, .depth = 1};
    struct statement *loop = statement_new(S_LOOP), **end = &loop->body;
    int lane = below(&other, other.lanes);
    for (int i = between(&other, 0, 4); i > 0; i--) {
        *end = one(&other, at, lane, chance(&other, 70) ? S_KERNEL : S_MEMSET);
        end = &(*end)->next;
    }
    for (int i = between(&other, 1, 2); i > 0; i--) {
        *end = one(&other, at, lane, S_WATCH);
        end = &(*end)->next;
    }
    loop->n = ONE_OF(&other, 60, 130, 260);
    return loop;
}

/* Threads take turns to use one or two lanes; NULL in most programs. */
static struct statement *turns_phase(struct generator *g, int budget)
{
    struct generator other = *g;
    other.random ^= 0xa0761d6478bd642fu;
    if (g->threads == 1 || !chance(&other, 50))
        return NULL;
    struct place at = {.thread = -1, .loops = 1, .depth = 1};
    struct statement *s = statement_new(S_TURNS), **end = &s->body;
    s->lane = below(&other, other.lanes);
    s->other = chance(&other, 60) ? below(&other, other.lanes) : s->lane;
    for (int i = 0; i < g->threads; i++) {
        struct place own = {.thread = i, .loops = 1, .depth = 1};
        struct statement *on = *end = statement_new(S_ON);
        on->thread = i;
        on->body = block(&other, own, between(&other, 0, 5), any_lane(&other, &own));
        end = &on->next;
    }
    for (int i = between(&other, 1, 8); i > 0; i--) {
        int lane = chance(&other, 60) ? s->lane : chance(&other, 60) ? s->other : -1;
        *end = any(&other, at, lane < 0 ? any_lane(&other, &at) : lane);
        if (((*end)->kind == S_EXCHANGE || (*end)->kind == S_PASS) && chance(&other, 60))
            (*end)->other = (*end)->lane == s->lane ? s->other : s->lane;
        end = &(*end)->next;
    }
    int most = budget / (8 + cost(s->body));
    s->n = ONE_OF(&other, 10, 25, 60);
    s->n = s->n < most ? s->n : most < 1 ? 1 : most;
    generator_forget(g, &other);
    return s;
}

/* In processes of their own other contexts are current: once a launch was made without one, the
   library reads nothing back in its process. */
struct statement *program_generate(uint64_t seed)
{
    struct generator g = {.random = seed * 0x2545f4914f6cdd1du,
                          .away = seed / 50 % 4 == 1 ? 20 : 0};
    struct statement *program = NULL;
    g.threads = 1 + PICK(&g, 60, 25, 15);
    g.contexts = 1 + PICK(&g, 88, 12);
    g.lanes = between(&g, 1, seed % 3 == 0 ? MOST_LANES : 4); /* or more than there are queues */
    g.lanes = g.lanes < g.threads ? g.threads : g.lanes;
    g.lanes = g.lanes < g.contexts ? g.contexts : g.lanes;
    struct statement **end = declare(&g, &program);
    character(&g);
    int phases = between(&g, 1, 4), budget = ONE_OF(&g, 300, 1000, 3000);
    for (int i = 0; i < phases; i++) {
        if (g.threads > 1 && chance(&g, 50)) {
            *end = parallel(&g, budget);
        } else if (g.threads > 1 && chance(&g, 30)) {
            struct statement *on = *end = statement_new(S_ON);
            on->thread = below(&g, g.threads);
            on->body = phase(&g, -1, budget);
        } else {
            *end = phase(&g, -1, budget);
        }
        while (*end != NULL)
            end = &(*end)->next;
        if (chance(&g, 4)) {
            *end = statement_new(S_RESET);
            (*end)->n = below(&g, g.contexts);
            (*end)->how = below(&g, 3);
            end = &(*end)->next;
        }
    }
    *end = forks_phase(&g);
    while (*end != NULL)
        end = &(*end)->next;
    *end = turns_phase(&g, budget);
    while (*end != NULL)
        end = &(*end)->next;
    *end = watch_phase(&g);
    for (int i = 0; i < g.templates; i++)
        program_free(g.template[i]);
    for (int i = 0; i < g.bodies; i++)
        program_free(g.body[i]);
    return program;
}
