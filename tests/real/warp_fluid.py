#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NVIDIA Warp's example of a fluid: a result and the time of its loop, printed.

usage: warp_fluid.py [--width N] [--steps N]; the grid is half as high

A step launches about 210 kernels, of which 200 are iterations for the pressure. The example makes a graph of these
itself; with WARP_GRAPH=0 it launches them one by one.
"""
import argparse
import os
import time

import warp
import warp.examples.core.example_fluid as fluid


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split(";")[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    warp.ScopedTimer.enabled = False     # the example prints the time of each step
    fluid.grid_width, fluid.grid_height = warp.constant(options.width), warp.constant(options.width // 2)
    example = fluid.Example()
    example.use_graph_capture = os.environ.get("WARP_GRAPH") != "0"
    for _ in range(5):                   # kernels are compiled at their first launch
        example.step()
    warp.synchronize()
    start = time.perf_counter()
    for _ in range(options.steps):
        example.step()
    warp.synchronize()
    seconds = time.perf_counter() - start
    print(f"density: {example.rho0.numpy().astype(float).sum():.9e}")
    print(f"speed: {abs(example.u0.numpy().astype(float)).sum():.9e}")
    print(f"loop: {seconds:.6f} s")


if __name__ == "__main__":
    main()
