/* SPDX-License-Identifier: MIT */
/* Messages: whole lines and unchanged errno, from many threads at once. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "config/config.h"
#include "observe/log.h"
#include "unit/test.h"

struct ag_options ag_opt = {.log_level = AG_LOG_DETAIL};

#define THREADS 4
#define LINES   50

static void *talk(void *arg)
{
    for (int i = 0; i < LINES; i++) {
        errno = EDOM;
        ag_log(AG_LOG_DETAIL, "%-100s", (const char *)arg);
        if (errno != EDOM)
            return NULL;
    }
    return arg;
}

static int ends[2], kept;

/* Before the library looks what standard error is. */
__attribute__((constructor(101))) static void begin(void)
{
    kept = dup(STDERR_FILENO);
    if (kept < 0 || pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) != STDERR_FILENO)
        _exit(1);
}

TEST(lines_of_threads_do_not_mix)
{
    pthread_t threads[THREADS];
    char name[THREADS][2] = {"a", "b", "c", "d"};
    int count = 0, failed = 0;

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, talk, name[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0);
        failed += result == NULL;
    }
    CHECK(dup2(kept, STDERR_FILENO) == STDERR_FILENO);
    CHECK(failed == 0);
    close(kept);
    close(ends[1]);

    char expected[64], line[256];
    snprintf(expected, sizeof expected, "libautograph[%ld]: ", (long)getpid());
    FILE *lines = fdopen(ends[0], "r");
    CHECK(lines != NULL);
    while (fgets(line, sizeof line, lines)) {
        CHECK(strncmp(line, expected, strlen(expected)) == 0);
        CHECK(strlen(line) == strlen(expected) + 101);
        count++;
    }
    fclose(lines);
    CHECK(count == THREADS * LINES);
}
