/* SPDX-License-Identifier: MIT */
/*
 * A unit test program: TEST(name) { CHECK(...); } as often as wanted, one file, no main.
 * It runs all its tests, or those named on the command line, and ends with 1 if any failed.
 */
#ifndef AG_TEST_H
#define AG_TEST_H

#include <stdio.h>
#include <string.h>

static struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
} * test_list, **test_end = &test_list;
static int test_failures;

#define TEST(id)                                                                                   \
    static void id(void);                                                                          \
    __attribute__((constructor)) static void test_add_##id(void)                                   \
    {                                                                                              \
        static struct test t = {#id, id, NULL};                                                    \
        *test_end = &t;                                                                            \
        test_end = &t.next;                                                                        \
    }                                                                                              \
    static void id(void)

/* Says what is wrong and leaves the test. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition);         \
            test_failures++;                                                                       \
            return;                                                                                \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    int ran = 0;
    for (struct test *t = test_list; t; t = t->next) {
        int wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            wanted |= strcmp(argv[i], t->name) == 0;
        if (wanted) {
            t->run();
            ran++;
        }
    }
    printf("%d tests, %d failures\n", ran, test_failures);
    return ran == 0 || test_failures != 0;
}

#endif
