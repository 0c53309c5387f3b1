/* SPDX-License-Identifier: MIT */
/*
 * Mutations: a library for tests leaves out one rule of docs/semantics.md, so that a test or a
 * random program has something to find. The library that is installed leaves out none.
 */
#ifndef AG_MUTANT_H
#define AG_MUTANT_H

/* AG_MUTANT(NAME): whether the process tries the mutation of that name. */
#ifdef AG_MUTANTS
#include "mutants.h" /* of tests/mutants */
#else
#define AG_MUTANT(name) 0
#endif

#endif
