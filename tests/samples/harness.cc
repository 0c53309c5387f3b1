/* SPDX-License-Identifier: MIT */
/* Command line, clock and printed result of a sample. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"

static const struct {
    const char *name;
    long options::*value;
    long least;
    const char *help;
} numbers[] = {
    {"--iterations", &options::iterations, 1, "timed iterations"},
    {"--kernels", &options::kernels, 1, "kernels per iteration"},
    {"--size", &options::size, 1, "elements of an array"},
    {"--warmup", &options::warmup, 0, "iterations before the clock starts"},
    {"--threads", &options::threads, 1, "host threads"},
};

static void usage(FILE *out, const char *program, const char *summary, const struct options &o)
{
    fprintf(out, "Usage: %s [OPTION]...\n%s\n\n", program, summary);
    for (const auto &n : numbers)
        if (n.value != &options::threads || o.threads)
            fprintf(out, "  %-12s N  %s (%ld)\n", n.name, n.help, o.*n.value);
    fprintf(out, "  %-14s  the same loop as a hand-written CUDA graph\n", "--graph");
    fprintf(out, "  %-14s  this text\n", "--help");
}

[[noreturn]] static void bad_option(const char *program, const char *what, const char *arg)
{
    fprintf(stderr, "%s: %s: '%s'; try --help\n", program, what, arg);
    exit(2);
}

struct options parse_options(int argc, char **argv, const char *summary, struct options defaults)
{
    struct options o = defaults;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout, argv[0], summary, defaults);
            exit(0);
        }
        if (strcmp(argv[i], "--graph") == 0) {
            o.graph = true;
            continue;
        }
        bool known = false;
        for (const auto &n : numbers) {
            if (strcmp(argv[i], n.name) != 0 ||
                (n.value == &options::threads && defaults.threads == 0))
                continue;
            if (i + 1 == argc)
                bad_option(argv[0], "option needs a number", argv[i]);
            char *end;
            errno = 0;
            long value = strtol(argv[++i], &end, 10);
            if (errno || *end || end == argv[i] || value < n.least || value > INT_MAX)
                bad_option(argv[0], "not a number in range", argv[i]);
            o.*n.value = value;
            known = true;
            break;
        }
        if (!known)
            bad_option(argv[0], "unknown option", argv[i]);
    }
    return o;
}

void report(uint64_t checksum, const struct options &o, double total_us)
{
    printf("checksum %016llx\n", (unsigned long long)checksum);
    printf("iterations %ld\n", o.iterations);
    printf("kernels_per_iteration %ld\n", o.kernels);
    printf("us_per_iteration %.3f\n", total_us / (double)o.iterations);
}

uint64_t checksum_bytes(const void *data, size_t bytes, uint64_t hash)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
