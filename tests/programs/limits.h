/* SPDX-License-Identifier: MIT */
/* limits.h: the kernels of the program `limits`. Each has limits of its own, and hashes the shape
 * that it is launched with.
 *
 *   ag_shape(u64 out, u32 add, u32 top)
 *       out[0] = out[0] + 1; out[1] = hash of what was there, of `add`, grid and block. If `top` is
 *       not 0, `add` goes through the last word below `top` of the dynamic shared memory.
 *   ag_bound, ag_exact, ag_fixed, ag_wide, ag_pair, ag_told
 *       the same: see limits_ptx()
 * The first thread does it all. Bodies for the simulated driver: tests/sim/kernels.c. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdio.h>

enum {
    BOUND = 128,  /* threads of ag_bound, at most */
    EXACT = 64,   /* threads of ag_exact, along x */
    FIXED = 4096, /* bytes of static shared memory of ag_fixed */
    WIDE = 512,   /* threads of ag_wide, at most, by its registers */
    WORDS = 110,  /* that ag_wide has in registers at once */
    DEFAULT_SHARED = 49152,
    MOST_SHARED = 232448, /* of an H100 or H200, if it is asked for */
};

/* The beginning of a kernel, which all threads but one leave. */
static inline void write_head(FILE *to, const char *name, const char *directives)
{
    static const char *const index[] = {"%tid.x",   "%tid.y",   "%tid.z",
                                        "%ctaid.x", "%ctaid.y", "%ctaid.z"};
    fprintf(to, ".visible .entry %s(.param .u64 out, .param .u32 add, .param .u32 top)\n%s{\n",
            name, directives);
    fprintf(to, "  .reg .pred %%p<2>;\n  .reg .b32 %%r<8>;\n  .reg .b64 %%rd<2>;\n");
    fprintf(to, "  ld.param.u64 %%rd1, [out];\n  ld.param.u32 %%r4, [add];\n");
    fprintf(to, "  ld.param.u32 %%r5, [top];\n");
    for (unsigned i = 0; i < 6; i++)
        fprintf(to, "  mov.u32 %%r3, %s;\n  setp.ne.u32 %%p1, %%r3, 0;\n  @%%p1 bra DONE;\n",
                index[i]);
}

static inline void write_tail(FILE *to)
{
    static const char *const size[] = {"%nctaid.x", "%nctaid.y", "%nctaid.z",
                                       "%ntid.x",   "%ntid.y",   "%ntid.z"};
    fprintf(to, "  setp.eq.u32 %%p1, %%r5, 0;\n  @%%p1 bra HASH;\n");
    fprintf(to, "  mov.u32 %%r6, pool;\n  add.u32 %%r6, %%r6, %%r5;\n");
    fprintf(to, "  st.volatile.shared.u32 [%%r6+-4], %%r4;\n");
    fprintf(to, "  ld.volatile.shared.u32 %%r4, [%%r6+-4];\nHASH:\n");
    fprintf(to, "  ld.global.u32 %%r2, [%%rd1+4];\n  mad.lo.u32 %%r2, %%r2, 31, %%r4;\n");
    for (unsigned i = 0; i < 6; i++)
        fprintf(to, "  mov.u32 %%r3, %s;\n  mad.lo.u32 %%r2, %%r2, 31, %%r3;\n", size[i]);
    fprintf(to, "  st.global.u32 [%%rd1+4], %%r2;\n  ld.global.u32 %%r3, [%%rd1];\n");
    fprintf(to, "  add.u32 %%r3, %%r3, 1;\n  st.global.u32 [%%rd1], %%r3;\nDONE:\n  ret;\n}\n");
}

static inline void write_kernel(FILE *to, const char *name, const char *directives)
{
    write_head(to, name, directives);
    write_tail(to);
}

static inline void write_fixed(FILE *to)
{
    write_head(to, "ag_fixed", "");
    fprintf(to, "  .shared .align 4 .b8 fixed[%d];\n  mov.u32 %%r7, fixed;\n", FIXED);
    fprintf(to, "  st.volatile.shared.u32 [%%r7+%d], %%r4;\n", FIXED - 4);
    fprintf(to, "  ld.volatile.shared.u32 %%r4, [%%r7+%d];\n", FIXED - 4);
    write_tail(to);
}

/* Volatile stores come behind volatile loads: all words are in registers then. Of 128 registers
   each, and of 105, a block finds as many as WIDE threads need. */
static inline void write_wide(FILE *to)
{
    write_head(to, "ag_wide", ".maxnreg 128\n");
    fprintf(to, "  .reg .b32 %%w<%d>;\n", WORDS);
    for (unsigned i = 0; i < WORDS; i++)
        fprintf(to, "  ld.volatile.global.u32 %%w%u, [%%rd1+8];\n", i);
    for (unsigned i = 0; i < WORDS; i++)
        fprintf(to, "  st.volatile.global.u32 [%%rd1+8], %%w%u;\n", i);
    write_tail(to);
}

/* The text, to be freed. */
static inline char *limits_ptx(void)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    fprintf(to, ".version 7.8\n.target sm_90\n.address_size 64\n");
    fprintf(to, ".extern .shared .align 16 .b8 pool[];\n");
    write_kernel(to, "ag_shape", "");
    write_kernel(to, "ag_bound", ".maxntid 128, 1, 1\n"); /* as of __launch_bounds__ */
    write_kernel(to, "ag_exact", ".reqntid 64, 1, 1\n");  /* as of __block_size__ */
    write_fixed(to);
    write_wide(to);
    /* As of __cluster_dims__; and one whose launches each have to give a cluster. */
    write_kernel(to, "ag_pair", ".explicitcluster\n.reqnctapercluster 2, 1, 1\n");
    write_kernel(to, "ag_told", ".explicitcluster\n");
    fclose(to);
    return text;
}

#endif
