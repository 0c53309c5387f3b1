/* SPDX-License-Identifier: MIT */
/* generate.h: what generate.c and forks.c, which make programs from seeds, share. */
#ifndef FUZZ_GENERATE_H
#define FUZZ_GENERATE_H

#include "kernels.h"
#include "program.h"

enum { MOST_TEMPLATES = 10, MOST_BODIES = 6 };

struct generator {
    uint64_t random;
    int threads, contexts, lanes;
    int branches; /* lanes behind those that only forks use */
    int home;     /* a lane that forks often */
    int lane_thread[MOST_LANES];
    int weight[S_KINDS];
    int vary;        /* percent of arguments that change */
    int shapes;      /* percent of ops whose shapes change */
    int interrupted; /* percent of statements with an interruption */
    int handed;      /* percent of statements for any thread */
    int away;        /* percent of ops while another context is current */
    int long_body;   /* percent of bodies with many statements */
    int forks;       /* percent of steps with a fork */
    int templates;   /* kernels are mostly one of these */
    struct statement *template[MOST_TEMPLATES];
    struct statement *body[MOST_BODIES]; /* earlier bodies, to begin others like them */
    int bodies;
};

struct place {
    int thread; /* in PAR; -1 outside */
    int loops;  /* around it */
    int depth;  /* of all blocks */
    int forks;  /* around it */
    bool capture;
};

/* -- Chance --------------------------------------------------------------- */

static inline uint64_t next(struct generator *g)
{
    uint64_t z = g->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int below(struct generator *g, int n)
{
    return (int)(next(g) % (unsigned)n);
}

static inline int between(struct generator *g, int least, int most)
{
    return least + below(g, most - least + 1);
}

static inline bool chance(struct generator *g, int percent)
{
    return below(g, 100) < percent;
}

static inline int pick(struct generator *g, const int *weights, int n)
{
    int sum = 0, i = 0;
    for (i = 0; i < n; i++)
        sum += weights[i];
    int at = below(g, sum);
    for (i = 0; at >= weights[i]; i++)
        at -= weights[i];
    return i;
}
#define PICK(g, ...)                                                                               \
    pick(g, (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))
#define ONE_OF(g, ...)                                                                             \
    ((const int[]){__VA_ARGS__})[below(g, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))]

/* Chance beside a program's, which is otherwise what it was. */
static inline struct generator beside(const struct generator *g)
{
    return (struct generator){.random = g->random ^ 0x5851f42d4c957f2du};
}

/* generate.c. The cost is how long statements take, in ops. */
int cost(const struct statement *list);
int any_lane(struct generator *g, const struct place *at);
/* Any statement, mostly of that lane; and one of that kind. */
struct statement *any(struct generator *g, struct place at, int lane);
struct statement *one(struct generator *g, struct place at, int lane, int kind);

struct statement *interruption(struct generator *g, struct place at, int lane);

/* Frees what a generator remembers beyond another one, of which it was a copy. */
void generator_forget(const struct generator *g, struct generator *other);

/* forks.c: declares lanes for branches at *end; adds to a step's body; makes a loop, or NULL. */
struct statement **forks_declare(struct generator *g, const struct statement *program,
                                 struct statement **end);
void forks_add(struct generator *g, struct place at, struct statement **body);
struct statement *forks_phase(struct generator *g);

#endif
