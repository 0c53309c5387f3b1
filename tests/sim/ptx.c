/* SPDX-License-Identifier: MIT */
/* ptx.c: kernels' names and parameter layouts out of a PTX text or an image of
 * agsim_register_kernel, and the interned definitions made of them. */
#include "sim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>

static struct kernel_def *defs; /* interned, under sim.lock */

/* An image made by agsim_register_kernel. */
struct image {
    char magic[8];
    struct image *next;
    struct kernel_def *def;
};
static const char image_magic[8] = "AGSIMIMG";
static struct image *images;

/* The one definition with this name, layout and body. */
static struct kernel_def *intern(const struct kernel_def *like)
{
    size_t layout = like->nparams * sizeof like->param[0];
    for (struct kernel_def *d = defs; d; d = d->next)
        if (d->body == like->body && d->nparams == like->nparams &&
            !memcmp(d->param, like->param, layout) && !strcmp(d->name, like->name) &&
            !memcmp(&d->limits, &like->limits, sizeof d->limits))
            return d;
    struct kernel_def *d = malloc(sizeof *d + layout);
    char *name = strdup(like->name);
    if (!d || !name) {
        free(d);
        free(name);
        return NULL;
    }
    memcpy(d, like, sizeof *d + layout);
    d->name = name;
    d->next = defs;
    defs = d;
    return d;
}

static bool add_param(struct kernel_def *d, size_t size, size_t align)
{
    if (d->nparams == MAX_PARAMS || !size)
        return false;
    size_t at = (d->args_size + align - 1) / align * align;
    d->param[d->nparams].offset = at;
    d->param[d->nparams++].size = size;
    d->args_size = at + size;
    return d->args_size <= MAX_ARGS_SIZE;
}

static struct kernel_def *scratch(void)
{
    return calloc(1, sizeof(struct kernel_def) +
                         MAX_PARAMS * sizeof((struct kernel_def *)0)->param[0]);
}

/* -- PTX -- */

static agsim_kernel_fn *find_body(const char *name)
{
    char symbol[512];
    if (snprintf(symbol, sizeof symbol, "agsim_kernel_%s", name) >= (int)sizeof symbol)
        return NULL;
    void *p = dlsym(RTLD_DEFAULT, symbol);
    while (!p && dlerror()) /* the second time it frees what the first gave */
        ;
    agsim_kernel_fn *fn;
    memcpy(&fn, &p, sizeof fn);
    return fn ? fn : builtin_kernel(name);
}

/* The next word or punctuation mark, past white space and comments. */
static const char *token(const char *p, char out[256])
{
    for (;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p, "*/");
            if (!p)
                return NULL;
            p += 2;
        } else {
            break;
        }
    }
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '$' || p[n] == '.' || p[n] == '%')
        n++;
    if (!n)
        n = *p != 0;
    if (!n || n > 255)
        return NULL;
    memcpy(out, p, n);
    out[n] = 0;
    return p + n;
}

/* .param [.align N] .TYPE NAME[[COUNT]], up to and with the ',' or ')'. */
static const char *parse_param(const char *p, struct kernel_def *d)
{
    char t[256];
    size_t size = 0, align = 0, times = 1;
    for (;;) {
        if (!(p = token(p, t)))
            return NULL;
        if (!strcmp(t, ",") || !strcmp(t, ")"))
            break;
        if (!strcmp(t, ".align")) {
            if (!(p = token(p, t)))
                return NULL;
            if (!align) /* a .ptr's own .align comes later and is no layout */
                align = strtoul(t, NULL, 10);
        } else if (!strcmp(t, "[")) {
            if (!(p = token(p, t)))
                return NULL;
            times = strtoul(t, NULL, 10);
        } else if (t[0] == '.' && t[1] && strchr("bufs", t[1]) && isdigit((unsigned char)t[2])) {
            size = strtoul(t + 2, NULL, 10) / 8;
        } else if (!strcmp(t, ".ptr")) {
            align = align ? align : size;
        }
    }
    if (!align)
        align = size;
    if (!size || !align || !add_param(d, size * times, align))
        return NULL;
    return p - 1; /* the caller sees ',' or ')' again */
}

/* Up to three numbers, with commas between them. */
static const char *parse_numbers(const char *p, unsigned out[3])
{
    char t[256];
    for (unsigned i = 0; i < 3 && (p = token(p, t)); i++) {
        const char *next = NULL;
        out[i] = (unsigned)strtoul(t, NULL, 10);
        if (i == 2 || !(next = token(p, t)) || strcmp(t, ",") != 0)
            break;
        p = next;
    }
    return p;
}

/* What stands between parameters and body, as far as it is known here. */
static const char *parse_directives(const char *p, struct kernel_limits *limits)
{
    char t[256];
    for (const char *q; (q = token(p, t)); p = q) {
        unsigned n[3] = {1, 1, 1};
        bool threads = !strcmp(t, ".maxntid"), block = !strcmp(t, ".reqntid");
        bool cluster = !strcmp(t, ".reqnctapercluster"), registers = !strcmp(t, ".maxnreg");
        bool other = !strcmp(t, ".minnctapersm") || !strcmp(t, ".maxclusterrank");
        bool asks = !strcmp(t, ".explicitcluster");
        if (!threads && !block && !cluster && !registers && !other && !asks &&
            strcmp(t, ".blocksareclusters") != 0)
            break;
        if ((threads || block || cluster || registers || other) && !(q = parse_numbers(q, n)))
            return NULL;
        limits->asks_cluster |= asks;
        if (threads)
            limits->threads = n[0] * n[1] * n[2];
        if (registers)
            limits->registers = n[0];
        if (block || cluster)
            memcpy(block ? limits->block : limits->cluster, n, sizeof n);
    }
    return p;
}

/* [.align N] .TYPE NAME[[COUNT]], behind .shared or .local: the bytes; 0: it is an instruction. */
static unsigned declared_bytes(const char *p)
{
    char t[256];
    unsigned size = 0;
    while ((p = token(p, t)) && strcmp(t, ";") != 0) {
        if (!strcmp(t, ".align"))
            p = token(p, t);
        else if (t[0] == '.' && t[1] && strchr("bufs", t[1]) && isdigit((unsigned char)t[2]))
            size = (unsigned)strtoul(t + 2, NULL, 10) / 8;
        else if (!strcmp(t, "["))
            return (p = token(p, t)) ? size * (unsigned)strtoul(t, NULL, 10) : 0;
        if (!p)
            return 0;
    }
    return size;
}

/* The memory that a body declares. */
static void parse_body(const char *p, struct kernel_limits *limits)
{
    char t[256];
    for (unsigned depth = 0; (p = token(p, t));) {
        depth += !strcmp(t, "{");
        depth -= !strcmp(t, "}");
        if (!depth)
            break;
        if (!strcmp(t, ".shared"))
            limits->shared += declared_bytes(p);
        if (!strcmp(t, ".local"))
            limits->local += declared_bytes(p);
    }
}

static CUresult parse_ptx(const char *text, struct kernel_def ***out, unsigned *n)
{
    char t[256];
    struct kernel_def *d = scratch();
    CUresult r = d ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (const char *p = text; r == CUDA_SUCCESS && (p = strstr(p, ".entry"));) {
        char name[256];
        d->nparams = 0;
        d->args_size = 0;
        d->limits = (struct kernel_limits){0};
        p = token(p + 6, name);
        const char *q = p ? token(p, t) : NULL;
        if (q && !strcmp(t, "(")) {
            for (p = q; p && (p = token(p, t)) && strcmp(t, ")");)
                if (!strcmp(t, ".param"))
                    p = parse_param(p, d);
                else if (strcmp(t, ","))
                    p = NULL;
        }
        if (!p || !(p = parse_directives(p, &d->limits))) {
            r = CUDA_ERROR_INVALID_PTX;
            break;
        }
        parse_body(p, &d->limits);
        d->name = name;
        d->body = find_body(name);
        struct kernel_def **more = realloc(*out, (*n + 1) * sizeof(struct kernel_def *));
        if (more)
            *out = more;
        if (!more || !(more[*n] = intern(d)))
            r = CUDA_ERROR_OUT_OF_MEMORY;
        else
            ++*n;
    }
    free(d);
    return r;
}

/* Machine code is not read. The library's own is that of one kernel. */
static const char fetch_ptx[] =
    ".version 7.0 .target sm_50 .address_size 64 .visible .entry autograph_fetch("
    ".param .u64 src, .param .u64 done, .param .u32 n, .param .u64 to) { ret; }";

static bool is_fatbin(const void *data)
{
    const uint32_t magic = 0xba55ed50;
    return !memcmp(data, &magic, sizeof magic);
}

CUresult image_kernels(const void *data, struct kernel_def ***out, unsigned *n)
{
    const char *text = data;
    *out = NULL;
    *n = 0;
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    if (!strncmp(text, image_magic, sizeof image_magic)) {
        if (!(*out = malloc(sizeof **out)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        (*out)[(*n)++] = ((const struct image *)data)->def;
        return CUDA_SUCCESS;
    }
    if (is_fatbin(data))
        text = fetch_ptx;
    text += strspn(text, " \t\r\n");
    if (strncmp(text, "//", 2) && strncmp(text, ".version", 8) && strncmp(text, "/*", 2))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!strstr(text, ".version") || !strstr(text, ".target"))
        return CUDA_ERROR_INVALID_PTX;
    CUresult r = parse_ptx(text, out, n);
    if (r != CUDA_SUCCESS) {
        free(*out);
        *out = NULL;
    }
    return r;
}

/* -- agsim_register_kernel -- */

EXPORT const void *agsim_register_kernel(const char *name, unsigned nparams, const size_t *sizes,
                                         agsim_kernel_fn *body)
{
    pthread_mutex_lock(&sim.lock);
    struct kernel_def *like = nparams <= MAX_PARAMS ? scratch() : NULL, *def = NULL;
    if (like) {
        bool ok = true;
        for (unsigned i = 0; ok && i < nparams; i++) {
            size_t align = sizes[i] & -sizes[i];
            ok = add_param(like, sizes[i], align > 16 ? 16 : align);
        }
        like->name = (char *)(uintptr_t)name;
        like->body = body;
        def = ok ? intern(like) : NULL;
        free(like);
    }
    struct image *i = images;
    while (i && i->def != def)
        i = i->next;
    if (def && !i && (i = malloc(sizeof *i))) {
        memcpy(i->magic, image_magic, sizeof i->magic);
        i->def = def;
        i->next = images;
        images = i;
    }
    pthread_mutex_unlock(&sim.lock);
    return def ? i : NULL;
}
