/* SPDX-License-Identifier: MIT */
/*
 * The exported dlsym(), x86-64. Unless the door decides, it jumps to the real one with the stack as
 * the caller left it: the C library takes the return address for the caller when it searches for
 * RTLD_NEXT and RTLD_DEFAULT.
 */
#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR endbr64
#endif

    .hidden ag_dlsym_door
    .hidden ag_real_dlsym

    .text
    .globl  dlsym
    .type   dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    _CET_ENDBR
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq    24(%rsp), %rdx /* return address */
    movq    %rsp, %rcx     /* where the answer goes */
    call    ag_dlsym_door
    testb   %al, %al
    popq    %rax
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jz      1f
    ret
1:  jmp     *ag_real_dlsym(%rip)
    .cfi_endproc
    .size   dlsym, . - dlsym

    .section .note.GNU-stack, "", @progbits
