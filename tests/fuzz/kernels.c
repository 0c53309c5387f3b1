/* SPDX-License-Identifier: MIT */
/* The kernels' PTX and their bodies for the simulated driver, which finds those by name. */
#include "kernels.h"

#include "sim/agsim.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>

const char *const kernel_names[KERNEL_LAYOUTS] = {
    "fz_plain", "fz_turned", "fz_mixed", "fz_big", "fz_huge", "fz_none",
};

/* -- PTX ------------------------------------------------------------------ */

/* The kernels wait for those before them, so that they may be launched early. */
#define PTX_FOLD                                                                                   \
    ".version 8.1\n"                                                                               \
    ".target sm_90\n"                                                                              \
    ".address_size 64\n"                                                                           \
    ".func fz_fold(.param .b64 pd, .param .b64 ps, .param .b32 pn, .param .b32 pk)\n"              \
    "{\n"                                                                                          \
    "  .reg .pred p; .reg .b32 n, acc, x, y; .reg .b64 d, s;\n"                                    \
    "  mov.u32 x, %tid.x; mov.u32 y, %tid.y; or.b32 x, x, y; mov.u32 y, %tid.z; or.b32 x, x, y;\n" \
    "  mov.u32 y, %ctaid.x; or.b32 x, x, y; mov.u32 y, %ctaid.y; or.b32 x, x, y;\n"                \
    "  mov.u32 y, %ctaid.z; or.b32 x, x, y;\n"                                                     \
    "  setp.ne.u32 p, x, 0;\n"                                                                     \
    "  @p ret;\n"                                                                                  \
    "  ld.param.b64 d, [pd]; ld.param.b64 s, [ps];\n"                                              \
    "  ld.param.b32 n, [pn]; ld.param.b32 acc, [pk];\n"                                            \
    "  mov.u32 x, %nctaid.x; mad.lo.u32 acc, x, 7, acc;\n"                                         \
    "  mov.u32 x, %nctaid.y; mad.lo.u32 acc, x, 11, acc;\n"                                        \
    "  mov.u32 x, %ntid.x; mad.lo.u32 acc, x, 13, acc;\n"                                          \
    "  mov.u32 x, %ntid.y; mad.lo.u32 acc, x, 17, acc;\n"                                          \
    "  mov.u32 x, %dynamic_smem_size; mad.lo.u32 acc, x, 19, acc;\n"                               \
    "LOOP:\n"                                                                                      \
    "  setp.eq.u32 p, n, 0;\n"                                                                     \
    "  @p ret;\n"                                                                                  \
    "  ld.volatile.b32 x, [s]; ld.volatile.b32 y, [d];\n"                                          \
    "  mad.lo.u32 acc, acc, 1664525, x;\n"                                                         \
    "  add.u32 acc, acc, y; shr.u32 x, acc, 15; xor.b32 acc, acc, x;\n"                            \
    "  st.volatile.b32 [d], acc;\n"                                                                \
    "  add.u64 s, s, 4; add.u64 d, d, 4; sub.u32 n, n, 1;\n"                                       \
    "  bra LOOP;\n"                                                                                \
    "}\n"

#define PTX_CALL                                                                                   \
    "  {\n"                                                                                        \
    "  .param .b64 pd; .param .b64 ps; .param .b32 pn; .param .b32 pk;\n"                          \
    "  st.param.b64 [pd], d; st.param.b64 [ps], s; st.param.b32 [pn], n; st.param.b32 [pk], k;\n"  \
    "  call fz_fold, (pd, ps, pn, pk);\n"                                                          \
    "  }\n"                                                                                        \
    "  ret;\n"                                                                                     \
    "}\n"

#define PTX_BEGIN                                                                                  \
    "{\n"                                                                                          \
    "  .reg .b64 d, s; .reg .b32 n, k;\n"                                                          \
    "  griddepcontrol.wait;\n"

#define PTX_PLAIN(name)                                                                            \
    ".visible .entry " name                                                                        \
    "(.param .u64 a0, .param .u64 a1, .param .u32 a2, .param .u32 a3)\n" PTX_BEGIN                 \
    "  ld.param.b64 d, [a0]; ld.param.b64 s, [a1];\n"                                              \
    "  ld.param.b32 n, [a2]; ld.param.b32 k, [a3];\n" PTX_CALL

#define PTX_TURNED(name)                                                                           \
    ".visible .entry " name                                                                        \
    "(.param .u32 a0, .param .u64 a1, .param .u32 a2, .param .u64 a3)\n" PTX_BEGIN                 \
    "  ld.param.b32 k, [a0]; ld.param.b64 s, [a1];\n"                                              \
    "  ld.param.b32 n, [a2]; ld.param.b64 d, [a3];\n" PTX_CALL

#define PTX_MIXED(name)                                                                            \
    ".visible .entry " name "(.param .u8 a0, .param .u64 a1, .param .u16 a2, .param .u64 a3,\n"    \
    "  .param .u32 a4, .param .u8 a5)\n" PTX_BEGIN "  .reg .b32 x;\n"                              \
    "  ld.param.u8 k, [a0]; ld.param.b64 d, [a1]; ld.param.u16 x, [a2];\n"                         \
    "  shl.b32 x, x, 8; or.b32 k, k, x; ld.param.b64 s, [a3]; ld.param.b32 n, [a4];\n"             \
    "  ld.param.u8 x, [a5]; shl.b32 x, x, 24; or.b32 k, k, x;\n" PTX_CALL

/* The words of the structure are folded into k before the rest. */
#define PTX_STRUCT(name, words, bytes)                                                             \
    ".visible .entry " name "(.param .u64 a0, .param .u64 a1, .param .u32 a2,\n"                   \
    "  .param .align 4 .b8 a3[" bytes "], .param .u32 a4)\n" PTX_BEGIN                             \
    "  .reg .pred p; .reg .b64 at; .reg .b32 i, x;\n"                                              \
    "  ld.param.b64 d, [a0]; ld.param.b64 s, [a1]; ld.param.b32 n, [a2]; ld.param.b32 k, [a4];\n"  \
    "  mov.b64 at, a3;\n"                                                                          \
    "  mov.u32 i, 0;\n"                                                                            \
    "WORD:\n"                                                                                      \
    "  ld.param.b32 x, [at]; mad.lo.u32 k, k, 31, x;\n"                                            \
    "  add.u64 at, at, 4; add.u32 i, i, 1;\n"                                                      \
    "  setp.lt.u32 p, i, " words ";\n"                                                             \
    "  @p bra WORD;\n" PTX_CALL

const char kernel_module[] = PTX_FOLD PTX_PLAIN("fz_plain") PTX_TURNED("fz_turned")
    PTX_MIXED("fz_mixed") PTX_STRUCT("fz_big", "128", "512")
        PTX_STRUCT("fz_huge", "1250", "5000") ".visible .entry fz_none()\n{\n  ret;\n}\n";
const char kernel_words[] =
    PTX_FOLD PTX_PLAIN("fz_fork") ".visible .entry fz_wait(.param .u64 a0, .param .u32 a1)\n"
                                  "{\n"
                                  "  .reg .pred p; .reg .b64 at; .reg .b32 v, x;\n"
                                  "  ld.param.b64 at, [a0]; ld.param.b32 v, [a1];\n"
                                  "AGAIN:\n"
                                  "  ld.volatile.b32 x, [at]; sub.u32 x, x, v;\n"
                                  "  setp.lt.s32 p, x, 0;\n"
                                  "  @p bra AGAIN;\n"
                                  "  membar.sys;\n"
                                  "  ret;\n"
                                  "}\n"
                                  ".visible .entry fz_set(.param .u64 a0, .param .u32 a1)\n"
                                  "{\n"
                                  "  .reg .b64 at; .reg .b32 v;\n"
                                  "  ld.param.b64 at, [a0]; ld.param.b32 v, [a1];\n"
                                  "  membar.sys;\n"
                                  "  st.volatile.b32 [at], v;\n"
                                  "  ret;\n"
                                  "}\n";

_Static_assert(KERNEL_BIG_WORDS == 128 && KERNEL_HUGE_WORDS == 1250, "as written in the PTX");

const char *const kernel_variant[KERNEL_VARIANTS] = {
    PTX_FOLD PTX_PLAIN("fz_own"),
    PTX_FOLD PTX_MIXED("fz_own"),
    PTX_FOLD PTX_STRUCT("fz_own", "128", "512"),
};
const enum kernel_layout kernel_variant_layout[KERNEL_VARIANTS] = {
    KERNEL_PLAIN,
    KERNEL_MIXED,
    KERNEL_BIG,
};

/* -- The simulated driver's side -------------------------------------------- */

_Atomic uint64_t kernel_attributes;

static void fold(const struct agsim_launch *launch, uint64_t dst, uint64_t src, uint32_t n,
                 uint32_t k)
{
    /* volatile: dst and src may be the same, or memory that the host looks at meanwhile */
    volatile uint32_t *d = (volatile uint32_t *)dst;
    const volatile uint32_t *s = (const volatile uint32_t *)src;
    uint32_t acc = k + launch->grid[0] * 7 + launch->grid[1] * 11 + launch->block[0] * 13 +
                   launch->block[1] * 17 + launch->shared * 19;
    uint64_t attributes = (unsigned)launch->cooperative + 2 * (unsigned)launch->mem_sync_domain +
                          8 * (launch->cluster[0] + launch->cluster[1] + launch->cluster[2]);
    if (attributes != 0)
        kernel_attributes += (attributes * 0x9e3779b97f4a7c15u) ^ k;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = s[i], y = d[i];
        acc = acc * 1664525 + x + y;
        acc ^= acc >> 15;
        d[i] = acc;
    }
}

#define ARGUMENT(type, i) (*(const type *)params[i])

static void fold_struct(const struct agsim_launch *launch, void **params, uint32_t words)
{
    uint32_t k = ARGUMENT(uint32_t, 4);
    const uint32_t *word = params[3];
    for (uint32_t i = 0; i < words; i++)
        k = k * 31 + word[i];
    fold(launch, ARGUMENT(uint64_t, 0), ARGUMENT(uint64_t, 1), ARGUMENT(uint32_t, 2), k);
}

agsim_kernel_fn agsim_kernel_fz_plain, agsim_kernel_fz_turned, agsim_kernel_fz_mixed,
    agsim_kernel_fz_big, agsim_kernel_fz_huge, agsim_kernel_fz_none, agsim_kernel_fz_own,
    agsim_kernel_fz_wait, agsim_kernel_fz_set, agsim_kernel_fz_fork;
#define KERNEL(name)                                                                               \
    __attribute__((visibility("default"))) void agsim_kernel_##name(                               \
        const struct agsim_launch *launch, void **params)

KERNEL(fz_plain)
{
    fold(launch, ARGUMENT(uint64_t, 0), ARGUMENT(uint64_t, 1), ARGUMENT(uint32_t, 2),
         ARGUMENT(uint32_t, 3));
}

KERNEL(fz_turned)
{
    fold(launch, ARGUMENT(uint64_t, 3), ARGUMENT(uint64_t, 1), ARGUMENT(uint32_t, 2),
         ARGUMENT(uint32_t, 0));
}

KERNEL(fz_mixed)
{
    uint32_t k = ARGUMENT(uint8_t, 0) | (uint32_t)ARGUMENT(uint16_t, 2) << 8 |
                 (uint32_t)ARGUMENT(uint8_t, 5) << 24;
    fold(launch, ARGUMENT(uint64_t, 1), ARGUMENT(uint64_t, 3), ARGUMENT(uint32_t, 4), k);
}

KERNEL(fz_big)
{
    fold_struct(launch, params, KERNEL_BIG_WORDS);
}

KERNEL(fz_huge)
{
    fold_struct(launch, params, KERNEL_HUGE_WORDS);
}

KERNEL(fz_none)
{
    (void)launch, (void)params;
}

KERNEL(fz_wait)
{
    (void)launch;
    const uint32_t *word = (const uint32_t *)ARGUMENT(uint64_t, 0);
    while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - ARGUMENT(uint32_t, 1)) < 0)
        sched_yield();
}

KERNEL(fz_set)
{
    (void)launch;
    __atomic_store_n((uint32_t *)ARGUMENT(uint64_t, 0), ARGUMENT(uint32_t, 1), __ATOMIC_RELEASE);
}

KERNEL(fz_fork)
{
    agsim_kernel_fz_plain(launch, params);
}

/* One name, three layouts: the simulated driver finds bodies by name, so this one asks. */
KERNEL(fz_own)
{
    if (launch->nparams == 4)
        agsim_kernel_fz_plain(launch, params);
    else if (launch->nparams == 5)
        agsim_kernel_fz_big(launch, params);
    else
        agsim_kernel_fz_mixed(launch, params);
}
