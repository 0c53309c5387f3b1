/* SPDX-License-Identifier: MIT */
/* kernels.h: the simulator's own kernels as a PTX text, so that a test program
 * against the driver API is the same on the simulator and on a GPU. The bodies
 * here and in kernels.c do the same arithmetic.
 *
 *   ag_mix(u64 buf, u32 n, u32 k)             buf[i] = buf[i] * 1664525 + k
 *   ag_axpy(u64 y, u64 x, f32 a, u32 n)       y[i] = fma(a, x[i], y[i])
 *   ag_copy(u64 dst, u64 src, u32 n)          dst[i] = src[i], words
 *   ag_struct(512 bytes by value, u64 out)    out = hash of the 128 words
 *   ag_flag(u64 addr, u32 value)              writes a word, then a fence
 *   ag_spin(u64 addr, u32 value)              until the word has the value
 *   ag_nop()
 *   ag_many(u64 out, u8, u16, u32, u64, u8, u64, u16, u32, u8)
 *                                             out = hash of the nine
 * One thread per element, x dimension only; launch the others with one thread.
 */
#ifndef AGSIM_KERNELS_H
#define AGSIM_KERNELS_H

#define AGSIM_INDEX                                                                                \
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n"                  \
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n  setp.ge.u32 %p1, %r4, %r5;\n  @%p1 bra DONE;\n"

/* h = h * 31 + the 64-bit register r */
#define AGSIM_HASH(r) "  mad.lo.u64 %rd2, %rd2, 31, " r ";\n"

static const char
    agsim_kernels_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"

                          ".visible .entry ag_mix(.param .u64 buf, .param .u32 n, .param .u32 k)\n"
                          "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<9>;\n  .reg .b64 %rd<5>;\n"
                          "  ld.param.u64 %rd1, [buf];\n  ld.param.u32 %r5, [n];\n  ld.param.u32 "
                          "%r6, [k];\n" AGSIM_INDEX
                          "  cvta.to.global.u64 %rd2, %rd1;\n  mul.wide.u32 %rd3, %r4, 4;\n  "
                          "add.s64 %rd4, %rd2, %rd3;\n"
                          "  ld.global.u32 %r7, [%rd4];\n  mad.lo.s32 %r8, %r7, 1664525, %r6;\n"
                          "  st.global.u32 [%rd4], %r8;\nDONE:\n  ret;\n}\n"

                          ".visible .entry ag_axpy(.param .u64 y, .param .u64 x, .param .f32 a, "
                          ".param .u32 n)\n"
                          "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<6>;\n  .reg .f32 %f<5>;\n  .reg "
                          ".b64 %rd<6>;\n"
                          "  ld.param.u64 %rd1, [y];\n  ld.param.u64 %rd2, [x];\n  ld.param.f32 "
                          "%f1, [a];\n"
                          "  ld.param.u32 %r5, [n];\n" AGSIM_INDEX
                          "  mul.wide.u32 %rd3, %r4, 4;\n  add.s64 %rd4, %rd1, %rd3;\n  add.s64 "
                          "%rd5, %rd2, %rd3;\n"
                          "  ld.global.f32 %f2, [%rd4];\n  ld.global.f32 %f3, [%rd5];\n  "
                          "fma.rn.f32 %f4, %f1, %f3, %f2;\n"
                          "  st.global.f32 [%rd4], %f4;\nDONE:\n  ret;\n}\n"

                          ".visible .entry ag_copy(.param .u64 dst, .param .u64 src, .param .u32 "
                          "n)\n"
                          "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<7>;\n  .reg .b64 %rd<6>;\n"
                          "  ld.param.u64 %rd1, [dst];\n  ld.param.u64 %rd2, [src];\n  "
                          "ld.param.u32 %r5, [n];\n" AGSIM_INDEX
                          "  mul.wide.u32 %rd3, %r4, 4;\n  add.s64 %rd4, %rd1, %rd3;\n  add.s64 "
                          "%rd5, %rd2, %rd3;\n"
                          "  ld.global.u32 %r6, [%rd5];\n  st.global.u32 [%rd4], %r6;\nDONE:\n  "
                          "ret;\n}\n"

                          ".visible .entry ag_struct(.param .align 8 .b8 s[512], .param .u64 out)\n"
                          "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<5>;\n  .reg .b64 %rd<5>;\n"
                          "  ld.param.u64 %rd1, [out];\n  mov.u64 %rd2, s;\n  mov.u32 %r1, 0;\n  "
                          "mov.u32 %r2, 0;\n"
                          "LOOP:\n  ld.param.u32 %r3, [%rd2];\n  mad.lo.s32 %r1, %r1, 31, %r3;\n"
                          "  add.s64 %rd2, %rd2, 4;\n  add.s32 %r2, %r2, 1;\n  setp.lt.u32 %p1, "
                          "%r2, 128;\n"
                          "  @%p1 bra LOOP;\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n"

                          ".visible .entry ag_flag(.param .u64 addr, .param .u32 value)\n"
                          "{\n  .reg .b32 %r<2>;\n  .reg .b64 %rd<2>;\n"
                          "  ld.param.u64 %rd1, [addr];\n  ld.param.u32 %r1, [value];\n  "
                          "membar.sys;\n"
                          "  st.volatile.global.u32 [%rd1], %r1;\n  membar.sys;\n  ret;\n}\n"

                          ".visible .entry ag_spin(.param .u64 addr, .param .u32 value)\n"
                          "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<3>;\n  .reg .b64 %rd<2>;\n"
                          "  ld.param.u64 %rd1, [addr];\n  ld.param.u32 %r1, [value];\n"
                          "LOOP:\n  ld.volatile.global.u32 %r2, [%rd1];\n  setp.ne.u32 %p1, %r2, "
                          "%r1;\n"
                          "  @%p1 bra LOOP;\n  membar.sys;\n  ret;\n}\n"

                          ".visible .entry ag_nop()\n{\n  ret;\n}\n"

                          ".visible .entry ag_many(.param .u64 out, .param .u8 a, .param .u16 b, "
                          ".param .u32 c,\n"
                          "  .param .u64 d, .param .u8 e, .param .u64 f, .param .u16 g, .param "
                          ".u32 h, .param .u8 i)\n"
                          "{\n  .reg .b16 %h<6>;\n  .reg .b32 %r<3>;\n  .reg .b64 %rd<13>;\n"
                          "  ld.param.u64 %rd1, [out];\n  mov.u64 %rd2, 0;\n"
                          "  ld.param.u8 %h1, [a];\n  cvt.u64.u16 %rd4, %h1;\n" AGSIM_HASH("%rd4") "  ld.param.u16 %h2, [b];\n  cvt.u64.u16 %rd5, %h2;\n" AGSIM_HASH("%rd5") "  ld.param.u32 %r1, [c];\n  cvt.u64.u32 %rd6, %r1;\n" AGSIM_HASH("%rd6") "  ld.param.u64 %rd7, [d];\n" AGSIM_HASH(
                              "%rd7") "  ld.param.u8 %h3, [e];\n  cvt.u64.u16 %rd8, "
                                      "%h3;\n" AGSIM_HASH(
                                          "%rd8") "  ld.param.u64 %rd9, "
                                                  "[f];\n" AGSIM_HASH(
                                                      "%rd9") "  "
                                                              "ld."
                                                              "para"
                                                              "m."
                                                              "u16 "
                                                              "%h4,"
                                                              " [g]"
                                                              ";\n "
                                                              " cvt"
                                                              ".u64"
                                                              ".u16"
                                                              " %"
                                                              "rd10"
                                                              ", "
                                                              "%h4;"
                                                              "\n" AGSIM_HASH(
                                                                  "%rd10") "  "
                                                                           "ld.param."
                                                                           "u32 %r2, "
                                                                           "[h];\n  "
                                                                           "cvt.u64."
                                                                           "u32 %rd11, "
                                                                           "%r2;"
                                                                           "\n" AGSIM_HASH(
                                                                               "%rd11") "  "
                                                                                        "ld.param."
                                                                                        "u8 %h5, "
                                                                                        "[i];\n  "
                                                                                        "cvt.u64."
                                                                                        "u16 "
                                                                                        "%rd12, "
                                                                                        "%h5;"
                                                                                        "\n" AGSIM_HASH(
                                                                                            "%rd12") "  st.global.u64 [%rd1], %rd2;\n  ret;\n}\n";

#undef AGSIM_INDEX
#undef AGSIM_HASH

#endif
