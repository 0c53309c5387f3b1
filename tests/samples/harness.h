/* SPDX-License-Identifier: MIT */
/* Command line, clock and printed result of a sample: all that needs no CUDA. */
#ifndef HARNESS_H
#define HARNESS_H

#include <stddef.h>
#include <stdint.h>

struct options {
    long iterations; /* timed iterations */
    long kernels;    /* kernels per iteration */
    long size;       /* elements of an array */
    long warmup;     /* iterations before the clock starts */
    long threads;    /* 0: the sample has no such option */
    bool graph;      /* the hand-written graph */
};

/* Reads the command line over the given defaults. Ends the program for --help (0) and errors (2).
 */
struct options parse_options(int argc, char **argv, const char *summary, struct options defaults);

/* Prints the result, a line for each value. */
void report(uint64_t checksum, const struct options &o, double total_us);

/* Hash (FNV-1a) of some bytes, continuing from another one. */
#define CHECKSUM_START 0xcbf29ce484222325ull
uint64_t checksum_bytes(const void *data, size_t bytes, uint64_t hash);

/* Monotonic clock, in microseconds. */
double now_us(void);

#endif
