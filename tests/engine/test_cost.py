# SPDX-License-Identifier: MIT
"""What the library adds to a call, in CPU instructions (tests/bench/instructions.py): no more than was
measured when this was written, and some 5 %. Who makes a path cheaper lowers its ceiling."""
import platform
import shutil
import sys

import pytest

import helpers

sys.path.insert(0, str(helpers.SOURCE / "tests/bench"))

import instructions  # noqa: E402  (needs the path above)

# Instructions of the library and of libc below it, per call, by gcc 12 -O2 on x86-64 and glibc 2.36.
CEILINGS = {
    "held-runtime": 342,
    "held-runtime-changing": 354,
    "held-kernels": 342,
    "setters": 870,
    "held-runtime13": 442,
    "held-driver": 295,
    "held-driver-changing": 303,
    "held-memset": 505,
    "held-copy": 935,
    "held-upload": 1095,
    "held-event": 728,
    "whole-runtime": 397,
    "whole-runtime-changing": 520,
    "whole-driver": 345,
    "whole-driver-changing": 462,
    "recorded-runtime": 540,
    "recorded-driver": 307,
    "novel-runtime": 990,
    "novel-driver": 745,
    "novel-events": 908,
    "await": 1105,
    "resting-runtime": 124,
    "resting-driver": 71,
    "resting-after": 110,
    "resting-memset": 42,
    "resting-copy": 36,
    "resting-upload": 36,
    "resting-event": 36,
    "foreign": 41,
    "later": 36,
    "token": 800,
    "disabled-runtime": 0,
    "disabled-driver": 0,
    "query": 16,
    "poll": 570,
    "alone": 1920,
    "beside": 1925,
    "stream": 3470,
    "young": 1510,
    "crowd": 3470,
    "fork": 1140,
    "uploads": 5550,
}

# One of each kind: a contributor sees what most changes do; the full check sees the rest.
SOME = {"held-runtime", "held-driver-changing", "held-memset", "held-event", "whole-runtime-changing",
        "recorded-driver", "novel-driver", "resting-driver", "disabled-driver", "poll", "alone", "stream"}

# What a path must not reach the driver with: then it would not be the path that it is called.
LAUNCHES = {"cuLaunchKernel", "cudaLaunchKernel", "__cudaLaunchKernel", "cuGraphLaunch",
            "cuMemsetD8Async", "cuMemcpyAsync", "cuMemcpyDtoDAsync_v2", "cuEventRecord"}


def unmeasurable():
    if helpers.config()["sanitize"]:
        return "a sanitizer's instructions would be counted"
    if "-O2" not in helpers.config()["cflags"].split() or platform.machine() != "x86_64":
        return "the ceilings are for -O2 on x86-64"
    if "clang" in helpers.tool(*helpers.config()["cc"].split(), "--version"):
        return "the ceilings are for gcc"
    return None if shutil.which("valgrind") else "no valgrind"


pytestmark = pytest.mark.skipif(unmeasurable() is not None, reason=str(unmeasurable()))


def test_every_case_has_a_ceiling():
    assert CEILINGS.keys() == instructions.CASES.keys() and SOME < CEILINGS.keys()


@pytest.mark.parametrize("name", helpers.by_scale(*2 * [[n for n in CEILINGS if n in SOME]], list(CEILINGS)))
def test_instructions(name):
    result = instructions.measure(name, helpers.build_dir())
    if result["own"] + result["libc"] > CEILINGS[name]:  # threads may meet at a lock
        result = instructions.measure(name, helpers.build_dir())
    total = result["own"] + result["libc"]
    assert total <= CEILINGS[name], f"{total:.1f} instructions per call: {result['functions']}"
    if name == "token":  # thirteen are the program's
        assert sum(result["driver"].values()) < 15
    elif name == "held-copy":
        assert "cuGraphLaunch" in result["driver"], "a graph has 8 copies: some are launched among the 30"
    elif name.startswith("held"):
        assert not result["driver"], "what is held asks the driver nothing"
    elif name.startswith(("whole", "alone")):
        assert "cuGraphLaunch" in result["driver"] and "cuLaunchKernel" not in result["driver"]
    if name in ("stream", "young", "crowd", "uploads"):
        assert "cuStreamGetFlags" not in result["driver"], "who has created a stream knows them"
    if name.startswith(("recorded", "novel", "resting", "foreign", "uploads", "later")):
        assert (LAUNCHES | {"cuMemcpyHtoDAsync_v2"}) & result["driver"].keys()
        assert "cuGraphLaunch" not in result["driver"]
