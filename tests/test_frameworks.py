# SPDX-License-Identifier: MIT
"""What the programs of the frameworks measure by; they themselves need a GPU."""
import json
import sys

import helpers

PROGRAM = """
import ctypes, sys
sys.path.append(sys.argv[1])
import in_turn
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096)):
    assert status == 0
steps = 0
def step():
    global steps
    for k in range(16):
        assert cuda.cuMemsetD32Async(memory, k, 64, None) == 0
    steps += 1
    return steps
print(in_turn.timed("memsets", step, 400, cuda.cuCtxSynchronize))
"""


def test_steps_are_timed_in_turn_with_the_library_paused(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-P", "-c", PROGRAM, helpers.SOURCE / "tests/frameworks"]
    without = helpers.run(command, preload=False)
    done = helpers.run(command, env={"AUTOGRAPH_REPORT": report, "AUTOGRAPH_TRACE_TRIAL": "false"})
    assert done.stdout == without.stdout == f"{20 + 400 + 16 * 50}\n"
    for each in without, done:
        names = [line.split(" ")[:-2] for line in each.stderr.splitlines() if line.startswith("time ")]
        assert [" ".join(words[1:]) for words in names] == \
            ["memsets", "memsets, in turn, active", "memsets, in turn, paused"]
    ops = json.loads(report.read_text())["ops"]
    assert 16 * 600 < ops["replayed"] <= 16 * 820 and ops["total"] >= 16 * 1220 - 16 * 400
