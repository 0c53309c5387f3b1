/* SPDX-License-Identifier: MIT */
/*
 * The exported dlopen() and dlmopen(), x86-64. Each lets its door look, then jumps to the real one
 * with registers and stack as the caller left them.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif

    .hidden ag_dlopen_door
    .hidden ag_dlmopen_door
    .hidden ag_real_dlopen
    .hidden ag_real_dlmopen

/* `caller`: the register of the door's last argument, the return address. */
.macro opens name, caller
    .globl  \name
    .type   \name, @function
    .p2align 4
\name:
    .cfi_startproc
    _CET_ENDBR
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    pushq   %rdx
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), \caller
    call    ag_\name\()_door
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *ag_real_\name(%rip)
    .cfi_endproc
    .size   \name, . - \name
.endm

    .text
    opens   dlopen, %rdx
    opens   dlmopen, %rcx

    .section .note.GNU-stack, "", @progbits
