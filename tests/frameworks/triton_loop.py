# SPDX-License-Identifier: MIT
"""Triton: one kernel launched in a loop with changing arguments, result and time printed."""
import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def mix(data, size, k, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(data + i, mask=i < size)
    tl.store(data + i, value * 1664525 + k, mask=i < size)


data = torch.arange(4096, device="cuda", dtype=torch.int32)


def step(i):
    for k in range(16):
        mix[(triton.cdiv(data.numel(), 256),)](data, data.numel(), i * 16 + k + 2, BLOCK=256)


for i in range(20):
    step(i)
torch.cuda.synchronize()
start = time.perf_counter()
for i in range(500):
    step(i)
torch.cuda.synchronize()
print(f"time triton {(time.perf_counter() - start) / 500 * 1e6:.1f} us", file=sys.stderr)
print("triton", data.long().sum().item())
