/* SPDX-License-Identifier: MIT */
/* Threads in virtual time. */
#define _GNU_SOURCE /* CPU_SET_S */
#include "policy/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __x86_64__
#include <asm/prctl.h>
#endif

#include "observe/thread.h"
#include "policy/costs.h"
#include "policy/noise.h"
#include "policy/program.h"

enum { MOST_THREADS = 4096, NS_PER_S = 1000000000 };

static const uint64_t never = UINT64_MAX;
static const uint64_t long_ns = 20000; /* a thread that is at work for longer lets others go on */

static struct player {
    struct play_owner owner;
    void *pointer;      /* to what is the thread's own */
    ucontext_t context; /* where it goes on */
    uint64_t now, wake;
    uint64_t ticket;         /* of those that wake at one time the first is who slept first */
    const void *word;        /* that it sleeps on, or NULL */
    uint64_t not_before;     /* its next call begins */
    size_t last;             /* call of the program's thread */
    struct player **sleeper; /* its place among those; NULL: it is awake */
    bool made, begun, woken;
    double factor;
    struct ag_own_thread *own; /* the library's thread that it is */
} players[MOST_THREADS];
static unsigned count; /* the program's come first */
static struct player *sleepers[MOST_THREADS];
static unsigned asleep, program_asleep;

static struct player *self; /* that runs; NULL: the play has not begun */
static const struct play_program *program;
static const struct play_work *work;
static struct play_noise *noise;
static size_t position; /* of the next call */
static uint64_t last_start, last_now, lock_free, tickets;

static void fail(const char *what)
{
    fprintf(stderr, "play: call %zu: %s\n", position, what);
    _exit(3);
}

/* -- Time --------------------------------------------------------------------- */

struct play_owner *play_owner(void)
{
    return &self->owner;
}

uint64_t play_now(void)
{
    if (self->now > last_now)
        last_now = self->now;
    return last_now;
}

uint64_t play_end(void)
{
    uint64_t end = 0;
    for (unsigned i = 0; i < program->threads; i++)
        end = players[i].now > end ? players[i].now : end;
    return end;
}

/* -- The baton ------------------------------------------------------------------- */

static uint64_t scaled(uint64_t ns, double factor)
{
    return factor == 1 ? ns : (uint64_t)((double)ns * factor);
}

static struct player *of_line(size_t line)
{
    return &players[program->line[line].thread - 1];
}

/* When the next call would begin. */
static uint64_t start_of(const struct player *player)
{
    const struct play_line *line = &program->line[position];
    uint64_t begin = player->begun ? player->now : last_start;
    if (line->behind != 0 && players[line->behind - 1].now > begin)
        begin = players[line->behind - 1].now;
    uint64_t start = begin + scaled(line->gap, noise[position].factor) + noise[position].pause;
    if (player->not_before > start)
        start = player->not_before;
    return start > last_start ? start : last_start;
}

static bool is_program(const struct player *player)
{
    return player->own == NULL;
}

static void fall_asleep(struct player *player)
{
    player->ticket = tickets++;
    player->sleeper = &sleepers[asleep++];
    *player->sleeper = player;
    program_asleep += is_program(player);
}

static void wake_up(struct player *player)
{
    struct player *last = sleepers[--asleep];
    *player->sleeper = last;
    last->sleeper = player->sleeper;
    player->sleeper = NULL;
    program_asleep -= is_program(player);
}

static struct player *first_asleep(const struct player *besides)
{
    struct player *first = NULL;
    for (unsigned i = 0; i < asleep; i++) {
        struct player *p = sleepers[i];
        if (p != besides && p->wake != never &&
            (first == NULL || p->wake < first->wake ||
             (p->wake == first->wake && p->ticket < first->ticket)))
            first = p;
    }
    return first;
}

/* Who is to go on; NULL: the program is over. */
static struct player *next(void)
{
    struct player *first = first_asleep(NULL);
    while (position < program->lines && program->line[position].thread == 0)
        work->define(program, position++);
    if (position == program->lines && program_asleep == 0)
        return NULL;
    struct player *own = position < program->lines ? of_line(position) : NULL;
    if (own != NULL && own->sleeper == NULL && (first == NULL || first->wake > start_of(own)))
        return own;
    if (first == NULL)
        fail("nobody can go on");
    return first;
}

/* -- Going from thread to thread --------------------------------------------------- */

/*
 * One thread of the process runs all. It takes the stack of the thread that goes on, and the
 * pointer to what is that thread's own. That is why there is a thread of the process for each,
 * which sleeps for good. (If they ran themselves, to wake one would take most of the time of a
 * play.)
 */
static void run(void);
long __real_syscall(long number, ...);

static void *thread_pointer(void)
{
    void *pointer;
#ifdef __x86_64__
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
    return pointer;
}

static void set_thread_pointer(void *pointer)
{
#ifdef __x86_64__
    (void)__real_syscall(SYS_arch_prctl, ARCH_SET_FS, pointer);
#else
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
#endif
}

static sem_t made;

static void *sleeps(void *player)
{
    ((struct player *)player)->pointer = thread_pointer();
    (void)sem_post(&made);
    for (;;)
        (void)pause();
    return NULL;
}

static void make_thread(struct player *player)
{
    enum { SMALL = 1 << 16 };
    pthread_attr_t attributes;
    pthread_t id;
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, SMALL) != 0 ||
        pthread_create(&id, &attributes, sleeps, player) != 0)
        fail("a thread cannot be made");
    while (sem_wait(&made) != 0)
        continue;
}

static void begin(struct player *player)
{
    enum { STACK = 1 << 18 };
    player->pointer = thread_pointer();
    if (work->apart)
        make_thread(player);
    (void)getcontext(&player->context);
    player->context.uc_stack.ss_size = STACK;
    player->context.uc_stack.ss_sp = malloc(STACK);
    if (player->context.uc_stack.ss_sp == NULL)
        fail("there is no memory");
    makecontext(&player->context, run, 0);
    player->factor = 1;
    player->made = true;
}

/* Returns when somebody goes to the calling one. */
static void go_to(struct player *player)
{
    struct player *from = self;
    if (!player->made)
        begin(player);
    self = player;
    if (work->apart)
        set_thread_pointer(player->pointer);
    (void)swapcontext(&from->context, &player->context);
}

static void finish(void)
{
    work->ends(program);
    fail("the end has not ended the process");
}

static void sleep_on(const void *word, uint64_t until)
{
    self->word = word;
    self->wake = until < self->now ? self->now : until;
    self->woken = false;
    fall_asleep(self);
    for (struct player *who; (who = next()) != self;) {
        if (who == NULL)
            finish();
        go_to(who);
    }
    wake_up(self);
    self->word = NULL;
    self->now = self->wake;
}

/* Wakes one, or all, of those that sleep on the word. */
static void wake(const void *word, bool all)
{
    for (unsigned i = 0; i < asleep; i++) {
        struct player *p = sleepers[i];
        if (p->word != word)
            continue;
        uint64_t now = play_now() > p->now ? play_now() : p->now;
        now += NS_THREAD_WAKE;
        p->wake = p->wake < now ? p->wake : now;
        p->word = NULL;
        p->woken = true;
        if (!all)
            return;
    }
}

void play_sleep_until(uint64_t ns)
{
    if (ns > self->now)
        sleep_on(NULL, ns);
}

void play_not_before(uint64_t ns)
{
    self->not_before = ns;
}

void play_spend(uint64_t ns)
{
    ns = scaled(ns, self->factor * program->slow);
    if (ns > long_ns)
        sleep_on(NULL, self->now + ns);
    else
        self->now += ns;
}

void play_call(uint64_t ns, uint64_t locked)
{
    if (lock_free > self->now)
        self->now = lock_free;
    lock_free = self->now + scaled(locked, self->factor * program->slow);
    play_spend(ns);
}

/* Until somebody else has gone on. */
static void let_others(void)
{
    const struct player *other = first_asleep(self);
    if (other == NULL && (position == program->lines || of_line(position) == self))
        fail("a lock is never given back");
    sleep_on(NULL, other != NULL ? other->wake : start_of(of_line(position)) + 1);
}

/* -- Threads ---------------------------------------------------------------------- */

static void run_library(void)
{
    struct ag_own_thread *thread = self->own;
    wake_up(self);
    if (thread->prepare != NULL)
        thread->prepare();
    atomic_store(&thread->ready, 1);
    wake(&thread->ready, true);
    thread->run(thread);
    for (;;)
        sleep_on(&thread->ready, never);
}

/* In place of the library's: its threads are in virtual time, too. */
bool ag_thread_begin(struct ag_own_thread *thread)
{
    struct player *player = &players[count];
    if (count == MOST_THREADS || self == NULL)
        return false;
    player->own = thread;
    player->now = player->wake = self->now;
    player->begun = true;
    count++;
    fall_asleep(player);
    return true;
}

void ag_thread_await(struct ag_own_thread *thread)
{
    while (atomic_load(&thread->ready) == 0)
        sleep_on(&thread->ready, never);
}

bool ag_thread_start(struct ag_own_thread *thread)
{
    bool made = ag_thread_begin(thread);
    if (made)
        ag_thread_await(thread);
    return made;
}

bool ag_thread_own_files(void)
{
    return false;
}

static void play_line(void)
{
    size_t line = position;
    self->now = start_of(self);
    self->begun = true;
    self->factor = noise[line].factor;
    last_start = self->now;
    position++;
    work->line(program, line);
}

static void run_program(void)
{
    if (self == players)
        work->begins(program);
    while (position <= self->last) {
        struct player *who = next();
        if (who == self)
            play_line();
        else
            go_to(who);
    }
    struct player *who = next();
    if (who == NULL)
        finish();
    go_to(who); /* for good */
}

static void run(void)
{
    if (is_program(self))
        run_program();
    else
        run_library();
}

void play_run(const struct play_program *played, uint64_t seed, const struct play_work *does)
{
    static struct player first;
    program = played;
    work = does;
    noise = play_noise_make(program, seed);
    count = program->threads;
    if (count == 0 || count > MOST_THREADS - 8 || sem_init(&made, 0, 0) != 0)
        fail("there are no threads, or too many");
    last_start = last_now = PLAY_BEGIN;
    for (unsigned i = 0; i < count; i++) {
        players[i].owner.thread = i + 1;
        players[i].now = PLAY_BEGIN;
    }
    for (size_t i = 0; i < program->lines; i++)
        if (program->line[i].thread != 0)
            of_line(i)->last = i;
    begin(players);
    self = &first;
    go_to(players);
}

/* -- In place of the C library's ----------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
long __wrap_syscall(long number, ...);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (self == NULL)
        return __real_clock_gettime(clock, time);
    uint64_t now = play_now();
    *time =
        (struct timespec){.tv_sec = (time_t)(now / NS_PER_S), .tv_nsec = (long)(now % NS_PER_S)};
    return 0;
}

/* The play may be bound to one CPU. The program was not. */
int __wrap_sched_getaffinity(pid_t process, size_t size, cpu_set_t *set)
{
    (void)process;
    CPU_ZERO_S(size, set);
    CPU_SET_S(0, size, set);
    CPU_SET_S(1, size, set);
    return 0;
}

static uint64_t ns_of(const struct timespec *time)
{
    uint64_t s = (uint64_t)time->tv_sec;
    return s < never / NS_PER_S ? s * NS_PER_S + (uint64_t)time->tv_nsec : never;
}

/* As the system's: 0, or -1 with an error. */
static long futex(const _Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *time)
{
    if (operation == FUTEX_WAKE_PRIVATE) {
        wake(word, value > 1);
        return 0;
    }
    if (atomic_load(word) != value) {
        errno = EAGAIN;
        return -1;
    }
    uint64_t ns = time != NULL ? ns_of(time) : never;
    sleep_on(word, ns < never - self->now ? self->now + ns : never);
    if (self->woken)
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

long __wrap_syscall(long number, ...)
{
    long argument[6];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++)
        argument[i] = va_arg(list, long);
    va_end(list);
    if (self == NULL || (number != SYS_futex && number != SYS_membarrier))
        return __real_syscall(number, argument[0], argument[1], argument[2], argument[3],
                              argument[4], argument[5]);
    if (number == SYS_membarrier) { /* one thread at a time runs */
        play_spend(NS_BARRIER);
        return 0;
    }
    return futex((const _Atomic uint32_t *)argument[0], (int)argument[1], (uint32_t)argument[2],
                 (const struct timespec *)argument[3]);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (self == NULL)
        return __real_pthread_mutex_lock(mutex);
    while (pthread_mutex_trylock(mutex) != 0)
        let_others();
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
    sleep_on(cond, never);
    return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    wake(cond, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    wake(cond, true);
    return 0;
}
