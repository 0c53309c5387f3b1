/* SPDX-License-Identifier: MIT */
/*
 * What the library adds to a launch that it lets pass, in one process: launches that never repeat
 * go in turn through the function that the program has been bound to, and straight to the one that
 * it would have been bound to without the library. One process is faster than another by far more
 * than what is to be found.
 *
 *   usage: passing
 *
 * Prints a line for each function: its name, the CPU time of a launch through the library and past
 * it, ns, and "same" if both are one function, as they are without the library.
 */
#include <algorithm>
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>
#include <vector>

#include "driver_function.h"
#include "sample.h"

/* As many launches as fit into a short time that no other process interrupts. */
enum { BATCH = 128, BATCHES = 1000 };

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

static unsigned *data;
static cudaStream_t stream;
static CUfunction function;

/* -- Functions past the library --------------------------------------------- */

struct search {
    const char *library, *name;
    void *found;
};

/* A word of an object as its file has it, 0 if it cannot be read. */
static uintptr_t word_in_file(const dl_phdr_info *info, const void *word)
{
    uintptr_t value = 0, at = (uintptr_t)word - info->dlpi_addr;
    int file = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
    for (int i = 0; file >= 0 && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && at - part->p_vaddr < part->p_filesz &&
            pread(file, &value, sizeof(value), (off_t)(part->p_offset + at - part->p_vaddr)) !=
                (ssize_t)sizeof(value))
            value = 0;
    }
    if (file >= 0)
        close(file);
    return value;
}

/* What dlsym() would say without the library, which changes the symbols in memory. */
static int look(struct dl_phdr_info *info, size_t, void *context)
{
    search *search = (struct search *)context;
    const char *slash = strrchr(info->dlpi_name, '/');
    if (strncmp(slash ? slash + 1 : info->dlpi_name, search->library, strlen(search->library)))
        return 0;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (auto d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
             d->d_tag != DT_NULL; d++)
            if (d->d_tag == DT_SYMTAB)
                symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
            else if (d->d_tag == DT_STRTAB)
                strings = (const char *)d->d_un.d_ptr;
            else if (d->d_tag == DT_GNU_HASH)
                hash = (const uint32_t *)d->d_un.d_ptr;
    }
    if (!symbols || !strings || !hash)
        return 0;
    /* Chains of those with the same hash: number of buckets, first symbol, words of the filter. */
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(*hash));
    const uint32_t *chains = buckets + hash[0];
    for (uint32_t b = 0; b < hash[0]; b++)
        for (uint32_t s = buckets[b]; s != 0; s++) {
            uintptr_t value;
            if (strcmp(strings + symbols[s].st_name, search->name) == 0 &&
                (value = word_in_file(info, &symbols[s].st_value)) != 0)
                search->found = (void *)(info->dlpi_addr + value);
            if (chains[s - hash[1]] & 1)
                break;
        }
    return search->found != NULL;
}

static void *past(const char *library, const char *name)
{
    search search = {library, name, NULL};
    dl_iterate_phdr(look, &search);
    return search.found;
}

/* -- Launches ---------------------------------------------------------------- */

/* Each has more shared memory than the one before. */
struct arguments {
    unsigned size = 1, k, shared;
    void *pointers[3] = {&data, &size, &k};

    arguments(unsigned number) : k(number), shared(1 + number % 16384) {}
};

typedef cudaError_t runtime_launch(const void *, dim3, dim3, void **, size_t, cudaStream_t);

static void runtime(void *launch, unsigned number)
{
    arguments a(number);
    CHECK(((runtime_launch *)launch)((const void *)mix, dim3(1), dim3(1), a.pointers, a.shared,
                                     stream));
}

static void driver(void *launch, unsigned number)
{
    arguments a(number);
    CHECK((cudaError_t)((__typeof__(cuLaunchKernel) *)launch)(function, 1, 1, 1, 1, 1, 1, a.shared,
                                                              (CUstream)stream, a.pointers, NULL));
}

static double middle(std::vector<double> &times)
{
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] * 1e3 / BATCH;
}

static void measure(const char *name, void (*launch)(void *, unsigned), void *through, void *past)
{
    static unsigned number;
    void *ways[] = {through, past};
    std::vector<double> times[2];
    if (!past || !through)
        return;
    for (int i = 0; i < 2 * BATCHES; i++) {
        int way = (i + i / 2) % 2; /* 0 1 1 0: neither is always behind the other */
        double start = now_us();
        for (int k = 0; k < BATCH; k++)
            launch(ways[way], number++);
        times[way].push_back(now_us() - start);
        CHECK(cudaStreamSynchronize(stream));
    }
    printf("%s %.1f %.1f%s\n", name, middle(times[0]), middle(times[1]),
           through == past ? " same" : "");
}

int main()
{
    data = device_array<unsigned>(1);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)mix));
    /* The runtime's own driver call goes through the library either way. */
    measure("cudaLaunchKernel", runtime, (void *)(runtime_launch *)cudaLaunchKernel,
            past("libcudart.so", "cudaLaunchKernel"));
    measure("cuLaunchKernel", driver, driver_function("cuLaunchKernel"),
            past("libcuda.so", "cuLaunchKernel"));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
