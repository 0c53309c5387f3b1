/* SPDX-License-Identifier: MIT */
/*
 * What stands in for each driver function: nothing for a query, its C door for an op or a life-cycle
 * call, its thunk for the rest.
 */
#include "preload/arch.h"

.macro use_thunk
    .quad   ag_thunks + AG_THUNK_SIZE * index
    .set index, index + 1
.endm

.macro use_door name
    .hidden ag_door_\name
    .quad   ag_door_\name
    .set index, index + 1
.endm

.macro use_real
    .quad   0
    .set index, index + 1
.endm

#define QUERY(name)          use_real
#define FUNCTION(name)       use_thunk
#define STREAM(name)         use_thunk
#define DEFAULT_STREAM(name) use_thunk
#define DEVICE_COPY(name)    use_thunk
#define ALLOCATION(name)     use_thunk
#define BARRIER(name)        use_thunk
#define OP(name)             use_door name
#define WRAP(name)           use_door name

    .hidden ag_thunks
    .section .data.rel.ro, "aw"
    .globl  ag_doors
    .hidden ag_doors
    .type   ag_doors, %object
    .p2align 3
ag_doors:
    .set index, 0
#define AG_SLOT(name, class, argument, ptsz) class(name)
#include "preload/slots.inc"
#undef AG_SLOT
    .size   ag_doors, . - ag_doors

    .section .note.GNU-stack, "", %progbits
