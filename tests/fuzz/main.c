/* SPDX-License-Identifier: MIT */
/*
 * fuzz: runs generated programs, or programs from files, and prints what came out:
 *
 *     NAME HASH OPS ERRORS
 *
 * a line each: the seed or file, a hash of all memory, data read and return codes, the number of
 * ops issued, and of return codes that were errors where none was asked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static const char usage[] =
    "usage: fuzz [--gpu] [--trace] [--repeat N] --seed A [--count N]\n"
    "       fuzz [--gpu] [--trace] [--repeat N] PROGRAM...\n"
    "       fuzz --print --seed A\n"
    "  --gpu      a real driver: contexts are kept, what it cannot survive is left out\n"
    "  --repeat   runs each program that often\n"
    "  --print    prints the program of a seed instead of running it\n"
    "  --trace    tells of everything that becomes part of the result, on stderr\n";

struct options {
    bool gpu, trace;
    int repeat;
};

/* The name by which the simulated driver tells of the program. */
static void name_process(const char *name)
{
    static char now[256];
    snprintf(now, sizeof now, "%s", name);
    program_invocation_short_name = now;
}

static bool run_program(const struct options *options, const struct statement *program,
                        const char *name)
{
    name_process(name);
    for (int i = 0; i < options->repeat; i++) {
        struct outcome outcome = {0};
        if (!world_run(program, options->gpu, options->trace, &outcome))
            return false;
        printf("%s %016llx %lu %u\n", name, (unsigned long long)outcome.hash, outcome.ops,
               outcome.errors);
        fflush(stdout); /* the last line of a process that dies tells where */
    }
    return true;
}

static bool run_seed(const struct options *options, uint64_t seed)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)seed);
    struct statement *program = program_generate(seed);
    bool ran = run_program(options, program, name);
    program_free(program);
    return ran;
}

static bool run_file(const struct options *options, const char *name)
{
    FILE *from = fopen(name, "r");
    if (from == NULL) {
        perror(name);
        return false;
    }
    struct statement *program = program_read(from, name);
    fclose(from);
    bool ran = program != NULL && run_program(options, program, name);
    program_free(program);
    return ran;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},   {"count", required_argument, NULL, 'n'},
        {"repeat", required_argument, NULL, 'r'}, {"gpu", no_argument, NULL, 'g'},
        {"print", no_argument, NULL, 'p'},        {"trace", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    struct options options = {.repeat = 1};
    uint64_t seed = 0, count = 1;
    bool print = false;
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            count = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            options.repeat = atoi(optarg);
            break;
        case 'g':
            options.gpu = true;
            break;
        case 'p':
            print = true;
            break;
        case 't':
            options.trace = true;
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (print) {
        struct statement *program = program_generate(seed);
        program_print(stdout, program);
        program_free(program);
        return 0;
    }
    CUresult result;
    if (!api_resolve() || (result = api[API_LINKED][0].cuInit(0)) != CUDA_SUCCESS) {
        fprintf(stderr, "fuzz: no driver\n");
        return 1;
    }
    bool ran = true;
    for (int i = optind; i < argc && ran; i++)
        ran = run_file(&options, argv[i]);
    for (uint64_t i = 0; optind == argc && i < count && ran; i++)
        ran = run_seed(&options, seed + i);
    return ran ? 0 : 1;
}
