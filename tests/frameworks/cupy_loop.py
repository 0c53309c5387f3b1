# SPDX-License-Identifier: MIT
"""CuPy: ufuncs, a raw kernel and a reduction in a loop, results and times printed."""
import sys
import time

import cupy

mix = cupy.RawKernel(r"""
extern "C" __global__ void mix(unsigned *data, unsigned size, unsigned k)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}
""", "mix")

data = cupy.arange(4096, dtype=cupy.uint32)
x = cupy.arange(4096, dtype=cupy.float64)


def timed(name, step, iterations):
    for i in range(20):
        step(i)
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    for i in range(iterations):
        step(i)
    cupy.cuda.Device().synchronize()
    print(f"time {name} {(time.perf_counter() - start) / iterations * 1e6:.1f} us", file=sys.stderr)


def raw(i):
    for k in range(16):
        mix((16,), (256,), (data, cupy.uint32(data.size), cupy.uint32(i * 16 + k)))


def ufuncs(_):
    for _ in range(4):
        cupy.multiply(x, 0.5, out=x)
        cupy.add(x, 1.0, out=x)
        cupy.sqrt(x, out=x)


timed("raw kernel", raw, 500)
timed("ufuncs", ufuncs, 500)
with cupy.cuda.Stream(non_blocking=True):
    timed("raw kernel, own stream", raw, 500)
print("raw", int(data.astype(cupy.uint64).sum()))
print("ufuncs", repr(float(x.sum())))
