/* SPDX-License-Identifier: MIT */
/* The mutation that AGTEST_MUTATION names. */
#include "mutants.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [AG_MUTANT_NONE] = "",
#define X(name, rule, what) [AG_MUTANT_##name] = #name,
#include "mutants.def"
#undef X
};

/* A name that no mutation has would let every test pass. */
static enum ag_mutant find(const char *name)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return (enum ag_mutant)i;
    fprintf(stderr, "AGTEST_MUTATION: there is no mutation %s\n", name);
    abort();
}

/* Asked for the first time before the program has a second thread, or by several that find one
 * answer. */
enum ag_mutant ag_mutant(void)
{
    static atomic_int known = -1;
    int mutant = atomic_load_explicit(&known, memory_order_relaxed);
    if (mutant < 0) {
        const char *name = getenv("AGTEST_MUTATION");
        mutant = (int)find(name != NULL ? name : "");
        atomic_store(&known, mutant);
    }
    return (enum ag_mutant)mutant;
}
