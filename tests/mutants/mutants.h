/* SPDX-License-Identifier: MIT */
/* The mutation that a process tries. */
#ifndef AG_MUTANTS_H
#define AG_MUTANTS_H

enum ag_mutant {
    AG_MUTANT_NONE,
#define X(name, rule, what) AG_MUTANT_##name,
#include "mutants.def"
#undef X
};

enum ag_mutant ag_mutant(void);

#define AG_MUTANT(name) __builtin_expect(ag_mutant() == AG_MUTANT_##name, 0)

#endif
