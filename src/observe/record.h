/* SPDX-License-Identifier: MIT */
/* Records of the trace file (docs/formats.md). */
#ifndef AG_RECORD_H
#define AG_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum ag_record_type {
    AG_RECORD_PAD,
    AG_RECORD_STRING,
    AG_RECORD_FUNCTION,
    AG_RECORD_STREAM,
    AG_RECORD_TRACE,
    AG_RECORD_OP,
    AG_RECORD_RETURN,
    AG_RECORD_SUBMIT,
    AG_RECORD_BARRIER,
    AG_RECORD_ALLOC,
    AG_RECORD_FREE,
    AG_RECORD_REGION,
    AG_RECORD_END,
    AG_RECORD_PROGRAM,
    AG_RECORD_GPU,
    AG_RECORD_THREAD,
};

/* What every record begins with; what follows is in 8-byte words. */
struct ag_record {
    uint16_t size; /* bytes, a multiple of 16 */
    uint8_t type;
    uint8_t sub;
    uint32_t id;
    uint64_t time; /* ns */
    uint64_t word[];
};

enum { AG_RECORD_MOST = 65520, AG_RECORD_ARGUMENTS = 1024 };

/* ns; 0: the system does not tell. */
static inline uint64_t ag_record_clock(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0
               ? (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec
               : 0;
}

/* Of any record. */
static inline void ag_record_fill(struct ag_record *record, size_t size, unsigned type,
                                  unsigned sub, uint32_t id, uint64_t time)
{
    record->size = (uint16_t)size;
    record->type = (uint8_t)type;
    record->sub = (uint8_t)sub;
    record->id = id;
    record->time = time;
}

#endif
