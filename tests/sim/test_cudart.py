# SPDX-License-Identifier: MIT
"""The simulated CUDA runtime: it looks and behaves like the real one."""
import pathlib

import pytest

from helpers import config, run, sample, sim_dir, tool


def exports(path):
    """Names with their versions."""
    lines = tool("nm", "-D", "--defined-only", "--with-symbol-versions", path).splitlines()
    return {fields[-1] for fields in map(str.split, lines) if fields[-2] == "T"}


def test_names_and_versions_are_those_of_the_real_one():
    real = pathlib.Path(config()["cuda_libdir"], "libcudart.so.13")
    if not real.exists():
        pytest.skip(f"no {real} to compare with")
    simulated = exports(sim_dir() / "libcudart.so.13")
    assert len(simulated) > 100
    assert simulated <= exports(real)


@pytest.mark.parametrize("preload", [False, True], ids=["plain", "library"])
def test_behaviour(preload):
    """The same program runs with the real runtime: runtime-static and runtime-shared."""
    assert run(sample("runtime-sim"), preload=preload).stdout == "failures 0\n"


@pytest.mark.parametrize("name, runtime_call", [("constant-sim", "__cudaLaunchKernel"),
                                                ("scalars-sim", "cudaLaunchKernel"),
                                                ("perthread-sim", "__cudaLaunchKernel_ptsz")])
def test_samples_launch_in_each_way(name, runtime_call):
    undefined = tool("nm", "-D", "--undefined-only", sample(name)).split()
    launches = [symbol.split("@")[0] for symbol in undefined if "LaunchKernel" in symbol]
    assert launches == [runtime_call]
