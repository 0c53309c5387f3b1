/* SPDX-License-Identifier: MIT */
/*
 * The threads of a played program, and of the library, in virtual time.
 *
 * Each has a thread of the process, since the engine tells threads apart by what is theirs alone.
 * Exactly one runs at a time, until it sleeps, or the next call is another thread's. So a play has
 * no races, and is the same each time.
 *
 * Each thread has a time of its own. A thread that sleeps goes on once no call may begin before.
 * Calls begin in the recorded order: whatever made one thread wait for another is kept. Whoever
 * waits for a lock, a condition or a futex sleeps in virtual time: play calls for these functions
 * stand in for the C library's (local.mk).
 */
#ifndef PLAY_THREADS_H
#define PLAY_THREADS_H

#include <stdbool.h>
#include <stdint.h>

struct play_context;

/* What the driver knows of a thread. */
enum { PLAY_CONTEXTS = 8 };
struct play_owner {
    uint32_t thread;                           /* its number in the program; 0: the library's */
    struct play_context *stack[PLAY_CONTEXTS]; /* of current contexts */
    unsigned depth;
};

/* The calling thread's. */
struct play_owner *play_owner(void);

/* The time of the calling thread, ns. */
uint64_t play_now(void);

/* The calling thread is at work for so long, at the speed that it and the program have now. */
void play_spend(uint64_t ns);

/* It sleeps until that time, and others go on. */
void play_sleep_until(uint64_t ns);

/* Its next call does not begin before that time. */
void play_not_before(uint64_t ns);

/* It makes a call of the driver that takes `ns`, `locked` of these with a lock that all threads
   share. */
void play_call(uint64_t ns, uint64_t locked);

struct play_program;

/* What a thread does. `line` is called for each call of the program, by its thread, `begun` for
   what is no call, and `ends` by the last one to run. */
struct play_work {
    void (*line)(const struct play_program *program, uint64_t line);
    void (*define)(const struct play_program *program, uint64_t line);
    void (*begins)(const struct play_program *program);
    void (*ends)(const struct play_program *program);
    bool apart; /* threads have what is theirs alone; else all have that of one */
};

/* Plays the program, with noise of that seed. Does not return: `ends` ends the process. */
void play_run(const struct play_program *program, uint64_t seed, const struct play_work *work);

/* The latest time of any thread of the program. */
uint64_t play_end(void);

/* When the program's first call began. */
enum { PLAY_BEGIN = 1000000000 };

#endif
