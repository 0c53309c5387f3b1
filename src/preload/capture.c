/* SPDX-License-Identifier: MIT */
/*
 * The doors of the program's own captures, into a graph or into the command list of a graphics
 * interface (CIG): either way what is submitted does not run now.
 */
#include "preload/door.h"

/* Here the name means the function of that name, not what cuda.h makes of it. */
#undef cuStreamBeginCapture

/* The rows below are tables of macros, which the formatter does not understand. */
/* clang-format off */

#define BEGIN_CAPTURE(name, ptsz, parameters, arguments)                                           \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        if (!active(#name))                                                                        \
            return REAL(name) arguments;                                                           \
        ag_engine_capture_prepare(stream, ptsz);                                                   \
        CUresult result = REAL(name) arguments;                                                    \
        if (result == CUDA_SUCCESS)                                                                \
            ag_engine_capture_begun(stream, ptsz);                                                 \
        else                                                                                       \
            ag_engine_capture_refused();                                                           \
        return result;                                                                             \
    }

#define MODE_PARAMETERS (CUstream stream, CUstreamCaptureMode mode)
#define GRAPH_PARAMETERS                                                                           \
    (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,       \
     size_t count, CUstreamCaptureMode mode)
#define GRAPH_ARGUMENTS (stream, graph, nodes, edges, count, mode)
BEGIN_CAPTURE(cuStreamBeginCapture, false, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, true, (CUstream stream), (stream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, false, MODE_PARAMETERS, (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, true, MODE_PARAMETERS, (stream, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, false, GRAPH_PARAMETERS, GRAPH_ARGUMENTS)
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true, GRAPH_PARAMETERS, GRAPH_ARGUMENTS)

#define RECAPTURE_PARAMETERS                                                                       \
    (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, void *callback, void *data)
#define RECAPTURE_ARGUMENTS (stream, mode, graph, callback, data)
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph, false, RECAPTURE_PARAMETERS, RECAPTURE_ARGUMENTS)
BEGIN_CAPTURE(cuStreamBeginRecaptureToGraph_ptsz, true, RECAPTURE_PARAMETERS, RECAPTURE_ARGUMENTS)

/* The driver tells of these by no question: nothing may be held on their account alone. */
BEGIN_CAPTURE(cuStreamBeginCaptureToCig, false, (CUstream stream, void *params), (stream, params))
BEGIN_CAPTURE(cuStreamBeginCaptureToCig_ptsz, true, (CUstream stream, void *params), (stream, params))

/* clang-format on */

/* Whatever comes of it, the capture is over, unless none had begun in that stream. */
static CUresult capture_ended(CUstream stream, bool ptsz, CUresult result)
{
    if (active("cuStreamEndCapture") && result != CUDA_ERROR_ILLEGAL_STATE)
        ag_engine_capture_ended(stream, ptsz);
    return result;
}

DOOR(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
{
    return capture_ended(stream, false, REAL(cuStreamEndCapture)(stream, graph));
}

DOOR(cuStreamEndCapture_ptsz, (CUstream stream, CUgraph *graph))
{
    return capture_ended(stream, true, REAL(cuStreamEndCapture_ptsz)(stream, graph));
}

/* What an error leaves behind is not documented: it goes on then, and nothing is held. */
static CUresult cig_ended(CUstream stream, bool ptsz, CUresult result)
{
    if (active("cuStreamEndCaptureToCig") && result == CUDA_SUCCESS)
        ag_engine_capture_ended(stream, ptsz);
    return result;
}

DOOR(cuStreamEndCaptureToCig, (CUstream stream))
{
    return cig_ended(stream, false, REAL(cuStreamEndCaptureToCig)(stream));
}

DOOR(cuStreamEndCaptureToCig_ptsz, (CUstream stream))
{
    return cig_ended(stream, true, REAL(cuStreamEndCaptureToCig_ptsz)(stream));
}
