# SPDX-License-Identifier: MIT
"""Numba: kernels compiled as the program runs, in a loop, results and times printed."""
import sys
import time
import warnings

import numpy

if not hasattr(numpy, "row_stack"):  # newer than this Numba, which names it
    numpy.row_stack = numpy.vstack

from numba import cuda  # noqa: E402  (needs the name)
from numba.core.errors import NumbaPerformanceWarning  # noqa: E402

warnings.simplefilter("ignore", NumbaPerformanceWarning)  # short kernels are what is measured


@cuda.jit
def mix(data, k):
    i = cuda.grid(1)
    if i < data.size:
        data[i] = data[i] * numpy.uint32(1664525) + k


@cuda.jit
def shift(data, other):
    i = cuda.grid(1)
    if i < data.size:
        other[i] = data[data.size - 1 - i]


data = cuda.to_device(numpy.arange(4096, dtype=numpy.uint32))
other = cuda.to_device(numpy.zeros(4096, dtype=numpy.uint32))


def steps(count):
    for i in range(count):
        for k in range(4):
            mix[16, 256](data, numpy.uint32(i + k))
        shift[16, 256](data, other)
        shift[16, 256](other, data)


steps(50)
cuda.synchronize()
start = time.perf_counter()
steps(500)
cuda.synchronize()
print(f"time numba {(time.perf_counter() - start) / 500 * 1e6:.1f} us", file=sys.stderr)
print("numba", data.copy_to_host().astype(numpy.uint64).sum())
