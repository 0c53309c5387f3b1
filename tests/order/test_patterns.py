# SPDX-License-Identifier: MIT
"""The patterns that people write by hand, on the simulated driver: what a program does with graphs
of its own runs untouched, and the same work by ordinary launches becomes replays."""
import re

import pytest

from helpers import HASTY, SOURCE, config, library, run, run_logged, sample, work

# How much of a pattern's work the library must submit by replays where nothing delays it. In decode
# and scan the sequence changes every few steps, on purpose.
PATTERNS = {
    "construct": 0.3,  # traces with one kernel and an event are not made
    "modes": 0.8,
    "refused": 0.8,
    "decode": 0.6,
    "node_params": 0.8,
    "scan": 0.6,
    "staged": 0.8,
    "other_stream": 0.8,
    "allocator": 0.4,
    "pipeline": 0.8,
    "settings": 0.8,
    "shapes": 0.8,
    "contexts": 0.8,
    "steps": 0.8,
    "no_stream": 0.8,
}
# These allocate in the loop. Allocations pass ahead of held work, and get other addresses then; frees
# go behind it. (The simulated device overwrites what is freed.)
ALLOCATING = ["construct", "allocator"]
FORKED = ["other_stream"]  # ops of a branch are in the graph of the stream that forked
MEMORY_OP = re.compile("op=(alloc|free) ")
OPTIONS = ["--iterations", "160", "--warmup", "4", "--size", "24"]
BY_HAND = ["--graph"]

every_pattern = pytest.mark.parametrize("name", PATTERNS)
every_variant = pytest.mark.parametrize("variant", [[], BY_HAND], ids=["plain", "hand"])


def run_pattern(name, variant, preload, tmp_path, **env):
    """The run, and how often each driver function was called in it."""
    calls = tmp_path / "calls"
    done = run_logged([sample(f"patterns/{name}-sim"), *OPTIONS, *variant], preload=preload,
                      env={"AGSIM_CALLS": calls, **env})
    assert done.stderr == ""
    count = {line.split()[0]: int(line.split()[1]) for line in calls.read_text().splitlines()}
    return done, count


def output(done):
    """All that was printed but the time."""
    lines = [line.split() for line in done.stdout.splitlines()]
    found = {line[0]: line[1] for line in lines}
    assert len(found) == len(lines) and all(len(line) == 2 for line in lines), done.stdout
    assert re.fullmatch("[0-9a-f]{16}", found["checksum"]), done.stdout
    assert float(found.pop("us_per_iteration")) > 0
    return found


def executed(name, done):
    """What each stream executed, as far as it must be the same."""
    if name in FORKED:
        return work(done.log)
    if name not in ALLOCATING:
        return done.log
    in_order = sorted if name == "construct" else list  # its graph has branches, which run in any order
    return {stream: (in_order(re.sub(" args=.*", "", op) for op in ops if not MEMORY_OP.match(op)),
                     sorted(MEMORY_OP.match(op)[1] for op in ops if MEMORY_OP.match(op)))
            for stream, ops in done.log.items()}


def called(count, function):
    """Calls of a driver function, in all its forms."""
    return sum(n for name, n in count.items() if re.fullmatch(rf"{function}(_v\d+)?(_ptsz)?", name))


@every_pattern
@every_variant
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_library_changes_nothing(name, variant, seed, tmp_path):
    without, _ = run_pattern(name, variant, False, tmp_path, AGSIM_SEED=seed)
    within, _ = run_pattern(name, variant, True, tmp_path, AGSIM_SEED=seed, **HASTY)
    assert output(within) == output(without)
    assert executed(name, within) == executed(name, without)
    assert sum(map(len, without.log.values())) > 400


@every_pattern
def test_by_hand_and_plain_do_the_same(name, tmp_path):
    plain, plain_calls = run_pattern(name, [], False, tmp_path)
    hand, hand_calls = run_pattern(name, BY_HAND, False, tmp_path)
    assert output(hand)["checksum"] == output(plain)["checksum"]
    assert called(plain_calls, "cuGraphLaunch") == 0
    assert called(hand_calls, "cuGraphLaunch") >= 160


@every_pattern
def test_checksum_depends_on_the_work(name, tmp_path):
    """A checksum that is the same with one step more would prove nothing."""
    base, _ = run_pattern(name, [], False, tmp_path)
    more, _ = run_pattern(name, ["--warmup", "5"], False, tmp_path)
    assert output(more)["checksum"] != output(base)["checksum"]


@every_pattern
def test_plain_loop_is_replayed(name, tmp_path):
    slow = 2 if config()["sanitize"] else 1  # the slower the program, the shorter the traces
    report = run_pattern(name, ["--iterations", 800], True, tmp_path,
                         AGSIM_DELAY_US=0)[0].report
    assert report["replays"] > 0
    assert report["ops"]["replayed"] >= PATTERNS[name] / slow * report["ops"]["total"]
    assert report["errors"] == 0


@every_pattern
def test_the_program_s_own_graphs_run_untouched(name, tmp_path):
    """Launches, graphs, captures and updates reach the driver as without the library; more of them
    are the library's own, and it says how many."""
    _, without = run_pattern(name, BY_HAND, False, tmp_path, AGSIM_DELAY_US=0)
    within, count = run_pattern(name, BY_HAND, True, tmp_path, AGSIM_DELAY_US=0)
    report = within.report
    assert report["errors"] == 0
    assert called(count, "cuGraphLaunch") == called(without, "cuGraphLaunch") + report["replays"]
    assert (called(count, "cuGraphInstantiate(WithFlags|WithParams)?") ==
            called(without, "cuGraphInstantiate(WithFlags|WithParams)?") + report["traces"])
    for function in ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphAddNode",
                     "cuGraphNodeSetEnabled", "cuGraphAddEmptyNode", "cuGraphAddHostNode",
                     "cuGraphAddChildGraphNode", "cuGraphAddMemAllocNode", "cuGraphKernelNodeGetParams",
                     "cuGraphMemsetNodeGetParams", "cuGraphNodeGetType"):
        assert called(count, function) == called(without, function), function


def test_update_that_is_refused(tmp_path):
    """The decode loop has three numbers of parts in turn, each for 16 steps of 164."""
    assert output(run_pattern("decode", BY_HAND, True, tmp_path)[0])["refused"] == "10"


def test_what_the_simulator_leaves_out_is_said(tmp_path):
    hand, _ = run_pattern("construct", BY_HAND, False, tmp_path)
    assert output(hand)["left_out"] == "conditional"


# -- The script that runs them on a GPU ------------------------------------------

def run_script(directory, status):
    return run([SOURCE / "tests" / "samples" / "patterns" / "run-gpu", "-n", 60, directory, library()],
               preload=False, status=status).stdout.splitlines()


unsanitized = pytest.mark.skipif(bool(config()["sanitize"]),
                                 reason="the script preloads no sanitizer's runtime")


@unsanitized
def test_script_compares_all(tmp_path):
    for name in PATTERNS:
        (tmp_path / f"{name}-shared").symlink_to(sample(f"patterns/{name}-sim"))
    lines = run_script(tmp_path, 0)
    assert sorted(line.split()[:2] for line in lines) == [[f"{n}-shared", "equal"]
                                                          for n in sorted(PATTERNS)]
    assert all(re.search(r"plain: [\d.]+ -> [\d.]+ us, [1-9]\d* replays", line) for line in lines)


@unsanitized
@pytest.mark.parametrize("body, verdict", [
    ("echo checksum 1; echo us_per_iteration 1", "equal"),
    ("echo checksum $LD_PRELOAD; echo us_per_iteration 1", "DIFFERENT"),
    ("echo checksum $#; echo us_per_iteration 1", "DIFFERENT"),  # by hand, not plain
    ("echo checksum 1; exit 3", "FAILED"),
    ("echo checksum 1; echo no >&2", "FAILED"),
    ("exit 0", "FAILED"),
])
def test_script_sees_what_is_wrong(body, verdict, tmp_path):
    program = tmp_path / "fake-static"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    lines = run_script(tmp_path, 0 if verdict == "equal" else 1)
    assert lines[0].split()[:2] == ["fake-static", verdict]


def test_script_wants_programs(tmp_path):
    assert run_script(tmp_path, 2) == []
