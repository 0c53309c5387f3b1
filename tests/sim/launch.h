/* SPDX-License-Identifier: MIT */
/* launch.h: modules, kernels and their launches, a part of sim.h. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

struct work;

/* -- Kernels -- */

/* What the text of a kernel asks of its launches (PTX ISA, "Performance-Tuning Directives" and
   "Cluster Dimension Directives"). Without words: any number. */
struct kernel_limits {
    unsigned threads;      /* .maxntid, of a block */
    unsigned block[3];     /* .reqntid: no other block */
    unsigned registers;    /* .maxnreg: the kernel is taken to use as many */
    unsigned shared;       /* bytes of static shared memory, declared in its body */
    unsigned local;        /* likewise of local memory, of a thread */
    unsigned cluster[3];   /* .reqnctapercluster */
    unsigned asks_cluster; /* .explicitcluster: a launch has to give one */
};
struct kernel_def { /* immutable, interned, never freed (module.c) */
    struct kernel_def *next;
    char *name;
    agsim_kernel_fn *body;
    struct kernel_limits limits;
    unsigned nparams;
    size_t args_size;
    struct {
        size_t offset, size;
    } param[];
};

/* Launch attributes by their numbers, for the headers of the build may lack the names. Another
 * value than those of MODE is refused. */
enum {
    ATTR_PREFERRED_CLUSTER = 11,
    ATTR_NVLINK = 16,
    ATTR_CLUSTER_MODE = 17, /* whether a cluster of more than portable size may be asked for */
    ATTR_SHARED_MODE = 18,  /* likewise of dynamic shared memory */
    MODE_AS_FUNCTION = 0,
    MODE_PORTABLE = 1,
    MODE_ANY = 2,
};

struct kernel_attrs {
    unsigned cluster[3], preferred[3];
    unsigned nvlink, cluster_mode, shared_mode; /* 16, 17, 18: 0 is the default */
    int priority, cooperative, programmatic, mem_sync_domain;
    int carveout, cache; /* the function's and the context's, unless a launch gives its own */
    int cluster_policy;
    CUlaunchMemSyncDomainMap domain_map;
    CUaccessPolicyWindow window;
    uint32_t set; /* which were given, a bit per CUlaunchAttributeID */
};

/* -- Modules (module.c) -- */

struct func_attrs {
    int max_dynamic_shared, carveout, nonportable_cluster, cluster_policy, cache;
    unsigned cluster[3]; /* that a launch without one has; 0: none */
    unsigned own;        /* of a library's function: those that were set for it, a bit each */
};
struct module {
    struct obj o;
    struct ctx *ctx;
    struct library *library; /* it belongs to, or NULL */
    unsigned ndefs;          /* what the image has; no library's */
    struct kernel_def **defs;
    unsigned nfuncs;
    struct function **funcs;
};
struct library {
    struct obj o;
    unsigned nkernels;
    struct kernel **kernels;
    unsigned nmodules;
    struct module **per_ctx;
};
struct kernel {
    struct obj o;
    struct library *library;
    struct kernel_def *def;
    struct func_attrs attrs[MAX_DEVICES];
};
struct function {
    struct obj o;
    struct module *module;
    struct ctx *ctx;
    struct kernel_def *def;
    struct kernel *kernel; /* of a library */
    struct func_attrs attrs;
    bool settled; /* it has been launched, or is in an exec: its local memory is there */
};
/* An exec's node gets it: for the first local memory that waits for running kernels (H100, driver
   580). */
void function_settle(struct function *f);
/* What a handle is that may be either's; k NULL: functions only. */
CUresult function_get(CUfunction handle, struct function **f, struct kernel **k);
struct func_attrs function_attrs(const struct function *f); /* function.c */
/* ptx.c: the kernels of an image; *out to be freed, the definitions not. */
CUresult image_kernels(const void *image, struct kernel_def ***out, unsigned *n);
CUresult function_of_kernel(struct kernel *k, struct ctx *ctx, struct function **out);
void module_release_ctx(struct ctx *ctx);
agsim_kernel_fn *builtin_kernel(const char *name); /* kernels.c */

/* -- Launches (launch.c) -- */

/* Checks a launch and copies its arguments. */
CUresult kernel_prepare(struct work *w, struct ctx *ctx, struct kernel_def *def,
                        const struct func_attrs *attrs, const unsigned grid[3],
                        const unsigned block[3], unsigned shared, void **params, void **extra);
CUresult kernel_attr_set(struct kernel_attrs *a, CUlaunchAttributeID id,
                         const CUlaunchAttributeValue *v);
CUresult kernel_attr_get(const struct kernel_attrs *a, CUlaunchAttributeID id,
                         CUlaunchAttributeValue *v);

/* -- Limits (limit.c) -- */

unsigned kernel_most_threads(const struct kernel_def *def);         /* of a block */
struct func_attrs kernel_fresh_attrs(const struct kernel_def *def); /* before any is set */
/* Whether the kernel may ever have the grid and the block. */
CUresult kernel_shape_check(const struct kernel_def *def, const unsigned grid[3],
                            const unsigned block[3]);
/* The rest of the shape: registers, and what depends on attributes: dynamic shared memory, the
   cluster, how many blocks of a cooperative launch. `later`: it is a node of a graph, which takes
   any number of registers (0), whose exec and launches do not (701; H100, driver 580), and which
   may still get a cluster. */
CUresult kernel_attrs_check(const struct work *w, const struct kernel_attrs *attrs,
                            const struct func_attrs *f, bool later);
/* What making an exec looks at in a node. A kernel of .explicitcluster to which no cluster has been
   given is taken (H100, driver 580). */
CUresult kernel_exec_check(const struct work *w, const struct func_attrs *f);

#endif
