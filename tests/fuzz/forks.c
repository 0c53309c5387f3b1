/* SPDX-License-Identifier: MIT */
/* Forks in generated programs: half of all steps have one. The rest of a seed's program is what it
 * is without them, but that its loops may have fewer trips. */
#include "generate.h"

static struct generator aside(const struct generator *g)
{
    struct generator other = *g;
    other.random ^= 0xd1342543de82ef95u;
    return other;
}

/* -- Lanes that only forks use ------------------------------------------------ */

static bool has_handle(const struct statement *lane)
{
    return lane->how == LANE_BLOCKING || lane->how == LANE_NONBLOCKING;
}

struct statement **forks_declare(struct generator *g, const struct statement *program,
                                 struct statement **end)
{
    struct generator other = aside(g);
    const struct statement *home = NULL;
    int lane = 0, most = MOST_LANES - g->lanes;
    g->forks = ONE_OF(&other, 0, 50, 50, 100);
    for (const struct statement *s = program; s != NULL; s = s->next) {
        if (s->kind != S_LANE)
            continue;
        if (home == NULL || (has_handle(s) && !has_handle(home))) {
            home = s;
            g->home = lane;
        }
        lane++;
    }
    g->branches = g->forks == 0 ? 0 : between(&other, 1, 3);
    g->branches = g->branches < most ? g->branches : most;
    for (int i = 0; i < g->branches; i++) { /* mostly of the kind that such programs have */
        struct statement *s = *end = statement_new(S_LANE);
        bool alike = chance(&other, 85);
        s->how = alike ? home->how : below(&other, LANE_KINDS);
        s->n = alike ? home->n : below(&other, g->contexts);
        s->thread = alike ? home->thread : below(&other, g->threads);
        s->k = alike ? home->k : -below(&other, 3);
        g->lane_thread[g->lanes + i] = s->thread;
        end = &s->next;
    }
    return end;
}

/* -- Forks ---------------------------------------------------------------------- */

/* A lane that the thread may use, and that is not the origin; -1: there is none. */
static int branch_lane(struct generator *g, const struct place *at, int origin)
{
    int all = g->lanes + g->branches, lane = below(g, all);
    if (g->branches > 0 && chance(g, 80))
        lane = g->lanes + below(g, g->branches);
    for (int i = 0; i < all; i++, lane = (lane + 1) % all)
        if (lane != origin && (at->thread < 0 || g->lane_thread[lane] == at->thread))
            return lane;
    return -1;
}

static struct statement *fork_of(struct generator *g, struct place at, int origin);

static struct statement *branch(struct generator *g, struct place at, int origin)
{
    int lane = branch_lane(g, &at, origin), ops = below(g, 9);
    if (lane < 0)
        return NULL;
    struct statement *s = statement_new(S_BRANCH), **end = &s->body;
    s->lane = lane;
    s->how = PICK(g, 76, 12, 12);
    s->mode = chance(g, 30);
    s->k = between(g, 1, 99);
    if (at.thread < 0 && chance(g, g->handed))
        s->thread = 1 + below(g, g->threads);
    for (int i = 0; i < ops; i++) {
        *end = any(g, at, chance(g, 96) ? lane : any_lane(g, &at));
        end = &(*end)->next;
        if (chance(g, g->interrupted / 2)) {
            *end = interruption(g, at, lane);
            end = &(*end)->next;
        }
    }
    if (at.forks < 2 && chance(g, 12))
        *end = fork_of(g, at, lane);
    return s;
}

static struct statement *fork_of(struct generator *g, struct place at, int origin)
{
    struct statement *s = statement_new(S_FORK), **end = &s->body;
    s->lane = origin;
    s->how = chance(g, 50);
    s->n = chance(g, 70) ? TWIST_NONE : between(g, TWIST_NONE + 1, TWISTS - 1);
    s->mode = chance(g, 20);
    s->k = between(g, 1, 99);
    s->vary = chance(g, g->vary) ? between(g, VARY_TRIP, VARY_KINDS - 1) : VARY_NOT;
    at.forks++;
    at.depth++;
    for (int i = 1 + PICK(g, 35, 40, 25); i > 0; i--) {
        if ((*end = branch(g, at, origin)) != NULL)
            end = &(*end)->next;
        if (chance(g, 30)) {
            *end = any(g, at, origin);
            end = &(*end)->next;
        }
    }
    return s;
}

/* Perhaps without what ends a sequence in each step. */
static void calm(struct generator *g, int percent)
{
    bool simple = chance(g, percent);
    for (int i = 0; i < S_KINDS; i++)
        if (simple && i != S_KERNEL && i != S_MEMSET && i != S_COPY)
            g->weight[i] = 0;
    g->weight[S_LOOP] = g->weight[S_ON] = 0;
}

void generator_forget(const struct generator *g, struct generator *other)
{
    for (int i = g->bodies; i < other->bodies; i++)
        program_free(other->body[i]);
}

void forks_add(struct generator *g, struct place at, struct statement **body)
{
    struct generator other = aside(g);
    if (at.capture || at.forks > 0 || !chance(&other, g->forks))
        return;
    int origin = chance(&other, 70) && at.thread < 0 ? g->home : any_lane(&other, &at);
    calm(&other, 60);
    struct statement *s = fork_of(&other, at, origin);
    for (int skip = below(&other, 4); skip > 0 && *body != NULL; skip--)
        body = &(*body)->next;
    if (g->branches > 0 && at.thread < 0 && chance(&other, 30)) /* a branch by itself */
        s->next = one(&other, at, g->lanes + below(&other, g->branches), S_KERNEL);
    struct statement **end = &s->next;
    while (*end != NULL)
        end = &(*end)->next;
    *end = *body;
    *body = s;
    generator_forget(g, &other);
}

/* Steps that are forks and nothing else come again as often as those of real programs. */
struct statement *forks_phase(struct generator *g)
{
    struct generator other = aside(g);
    struct place at = {.thread = -1, .loops = 1};
    if (!chance(&other, g->forks / 3))
        return NULL;
    struct statement *s = statement_new(S_LOOP);
    calm(&other, 80);
    s->body = fork_of(&other, at, g->home);
    if (chance(&other, 30))
        s->body->next = fork_of(&other, at, g->home);
    int most = 600 / (1 + cost(s->body));
    s->n = ONE_OF(&other, 40, 80, 160);
    s->n = s->n < most ? s->n : most;
    generator_forget(g, &other);
    return s;
}
