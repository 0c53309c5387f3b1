/* SPDX-License-Identifier: MIT */
/* Ranges of NVTX. */
#include "observe/range.h"

#include <stddef.h>

#include "config/config.h"
#include "observe/log.h"

bool ag_ranges;

#ifdef HAVE_NVTX

#include <stdio.h>

/* No tool is a part of this library. */
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>

#include "observe/region.h"

static nvtxDomainHandle_t domain;            /* constant once there are ranges, as are the names */
static char name_of[AG_MOST_LENGTH + 1][32]; /* by the number of ops */

void ag_range_open(void)
{
    if (!ag_opt.report_nvtx)
        return;
    for (unsigned ops = 0; ops <= AG_MOST_LENGTH; ops++)
        (void)snprintf(name_of[ops], sizeof name_of[ops], "autograph: %u ops", ops);
    domain = nvtxDomainCreateA("autograph"); /* NULL: no tool listens */
    ag_ranges = domain != NULL;
}

void ag_range_begin(uint32_t ops)
{
    const char *region = ag_region_own();
    nvtxEventAttributes_t range = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = region != NULL ? region : name_of[ops <= AG_MOST_LENGTH ? ops : 0],
    };
    (void)nvtxDomainRangePushEx(domain, &range); /* returns how deep the ranges are */
}

void ag_range_end(void)
{
    (void)nvtxDomainRangePop(domain);
}

#else

void ag_range_open(void)
{
    if (ag_opt.report_nvtx)
        ag_log(AG_LOG_ALWAYS, "report.nvtx: the library was built without the headers of NVTX");
}

void ag_range_begin(uint32_t ops)
{
    (void)ops;
}

void ag_range_end(void) {}

#endif
