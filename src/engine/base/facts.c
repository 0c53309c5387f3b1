/* SPDX-License-Identifier: MIT */
/* Facts of GPUs and pools for the exit report. */
#include "engine/base/facts.h"

#include <stdatomic.h>
#include <stdint.h>

#include "config/config.h"
#include "driver/driver.h"
#include "observe/definitions.h"
#include "observe/strings.h"
#include "observe/tracefile.h"

static const char *_Atomic gpus[AG_GPUS]; /* by device: kept names, or NULL */
static _Atomic uint64_t pool_allocations, pool_behind_waits;
static _Atomic uint32_t last_waits;     /* of the thread that allocated last */
static _Atomic int64_t pool_keeps = -1; /* bytes; less than 0: not known */

void ag_facts_gpu(CUdevice device)
{
    char name[256];
    bool wanted = *ag_opt.report_file || AG_NOTING() || ag_opt.report_stats ||
                  ag_opt.log_verbose; /* saving.h asks */
    if (!wanted || device < 0 || device >= AG_GPUS || atomic_load(&gpus[device]) != NULL ||
        ag_real.cuDeviceGetName == NULL)
        return;
    if (ag_real.cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS)
        return;
    atomic_store(&gpus[device], ag_keep(name));
    AG_NOTE(ag_define(AG_RECORD_GPU, 0, (uint32_t)device, NULL, 0, name));
}

void ag_facts_allocated(uint32_t waits)
{
    CUdevice device;
    CUmemoryPool pool;
    cuuint64_t bytes;
    if (!*ag_opt.report_file)
        return;
    atomic_fetch_add(&pool_allocations, 1);
    if (atomic_exchange(&last_waits, waits) == waits)
        return;
    atomic_fetch_add(&pool_behind_waits, 1);
    if (ag_real.cuDeviceGetMemPool == NULL || ag_real.cuMemPoolGetAttribute == NULL)
        return;
    if (ag_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        ag_real.cuDeviceGetMemPool(&pool, device) == CUDA_SUCCESS &&
        ag_real.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes) ==
            CUDA_SUCCESS)
        atomic_store(&pool_keeps, bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX);
}

void ag_facts_gather(struct ag_account *account)
{
    account->pool_allocations = atomic_load(&pool_allocations);
    account->pool_behind_waits = atomic_load(&pool_behind_waits);
    account->pool_keeps = atomic_load(&pool_keeps);
    for (unsigned i = 0; i < AG_GPUS; i++)
        if ((account->gpus[account->gpu_count] = atomic_load(&gpus[i])) != NULL)
            account->gpu_count++;
}
