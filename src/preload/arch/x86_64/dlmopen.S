/* SPDX-License-Identifier: MIT */
/*
 * The exported dlmopen(), x86-64. It lets its door look, then jumps to the real one with registers
 * and stack as the caller left them.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif

    .hidden ag_dlmopen_door
    .hidden ag_real_dlmopen

    .text
    .globl  dlmopen
    .type   dlmopen, @function
    .globl  ag_dlmopen /* not that of another library in front */
    .hidden ag_dlmopen
    .p2align 4
dlmopen:
ag_dlmopen:
    .cfi_startproc
    _CET_ENDBR
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rcx
    call    ag_dlmopen_door
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *ag_real_dlmopen(%rip)
    .cfi_endproc
    .size   dlmopen, . - dlmopen

    .section .note.GNU-stack, "", @progbits
