/* SPDX-License-Identifier: MIT */
/* Reads environment variables of CUDA. */
#include "config/cuda.h"

#include <stdlib.h>
#include <string.h>

struct ag_cuda ag_cuda;

/* What the driver makes of other numbers and words than the documentation names is not known: they
   count as the value for which less may be done. */
static bool has(const char *name, const char *unlike)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' && strcmp(value, unlike) != 0;
}

const char *ag_cuda_load(void)
{
    const char *forbids = ag_cuda.forbids;
#define AG_CUDA_SWITCH(name, why)                                                                  \
    if (forbids == NULL && has(#name, "0"))                                                        \
        forbids = #name " is set: " why;
#define AG_CUDA_TEXT(name, why)                                                                    \
    if (forbids == NULL && has(#name, ""))                                                         \
        forbids = #name " is set: " why;
#include "config/cuda.def"
#undef AG_CUDA_SWITCH
#undef AG_CUDA_TEXT
    ag_cuda = (struct ag_cuda){
        .forbids = forbids,
        .node_priorities = ag_cuda.node_priorities || has("CUDA_GRAPHS_USE_NODE_PRIORITY", "0"),
        .stream_priorities = ag_cuda.stream_priorities || has("CUDA_GRAPHS_USE_NODE_PRIORITY", "1"),
    };
    return forbids;
}
