# SPDX-License-Identifier: MIT
"""The samples on the simulated driver: the hand-written graph and the library change nothing but
the way in which the work is submitted."""
import re

import pytest

from helpers import HASTY, HELD, run, run_logged, sample

# Few enough operations for random delays between them, enough iterations for a loop to get hot.
LOOP = ["--iterations", "60", "--warmup", "4", "--kernels", "8", "--size", "40"]
SAMPLES = {
    "constant": LOOP,
    "scalars": LOOP,
    "pingpong": LOOP,
    "sync": LOOP,
    "memset": LOOP,
    "events": LOOP,
    "perthread": LOOP,
    "jacobi": ["--iterations", "2000", "--warmup", "1", "--kernels", "8", "--size", "12"],
}
# The same with other options: threads; odd sweeps, which swap the grids between iterations; a loop
# that is shorter than any trace.
VARIANTS = {**{name: (name, options) for name, options in SAMPLES.items()},
            "threads": ("perthread", LOOP + ["--threads", "3", "--iterations", "400"]),
            "odd-sweeps": ("jacobi", [*SAMPLES["jacobi"], "--kernels", "7"]),
            "one-kernel": ("constant", LOOP + ["--kernels", "1", "--iterations", "600"])}
SEEDS = [1, 2, 3]

every_sample = pytest.mark.parametrize("name", SAMPLES)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def command(variant, *more):
    name, options = VARIANTS[variant]
    return [sample(f"{name}-sim"), *options, *more]


def values(output):
    """The printed lines `name value`, without the time."""
    found = dict(line.split() for line in output.splitlines())
    assert re.fullmatch("[0-9a-f]{16}", found["checksum"]), output
    assert float(found.pop("us_per_iteration")) > 0, output
    return found


def sequences(variant, log):
    """What each stream executed; threads may create their streams in any order.

    On a per-thread default stream the library records an event of its own when it begins to hold, for
    the case that another thread must submit what it holds. (That goes into another stream: a long
    bound keeps it out of these runs.) The sample itself records none there.
    """
    own = "op=record " if VARIANTS[variant][0] == "perthread" else None
    return sorted([op for op in ops if not (own and op.startswith(own))] for ops in log.values())


# -- Command line ---------------------------------------------------------------

@every_sample
def test_help_names_the_options(name):
    text = run([sample(f"{name}-sim"), "--help"], preload=False).stdout
    for option in ("--iterations", "--kernels", "--size", "--warmup", "--graph"):
        assert option in text
    assert ("--threads" in text) == (name == "perthread")


@pytest.mark.parametrize("options", [["--bogus"], ["--threads", "2"], ["--kernels"],
                                     ["--kernels", "0"], ["--size", "1x"], ["--size", ""], ["extra"]])
def test_bad_option_is_refused(options):
    done = run([sample("constant-sim"), *options], preload=False, status=2)
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1


def test_cuda_error_is_reported():
    done = run(command("constant"), preload=False, status=1,
               env={"AGSIM_FAIL": "cuMemAlloc_v2:1:2"})
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "cudaMalloc" in done.stderr and "cudaErrorMemoryAllocation" in done.stderr


# -- The same results -------------------------------------------------------------

@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "jacobi"])
@pytest.mark.parametrize("option", ["--iterations", "--kernels", "--warmup"])
def test_checksum_depends_on_every_operation(name, option):
    """A checksum that is the same with one iteration or kernel more would prove nothing."""
    options = dict(zip(SAMPLES[name][::2], SAMPLES[name][1::2]))
    base = values(run(command(name), preload=False).stdout)
    more = values(run(command(name, option, int(options[option]) + 1), preload=False).stdout)
    assert base["checksum"] != more["checksum"]


@every_variant
@pytest.mark.parametrize("preload", [False, True], ids=["plain", "library"])
def test_hand_written_graph_gives_the_same(variant, preload):
    plain = run(command(variant), preload=False)
    graph = run(command(variant, "--graph"), preload=preload)
    assert values(graph.stdout) == values(plain.stdout)


# A graph that several streams share has the ops of all: their order is that of data (test_branches.py).
APART = {"AUTOGRAPH_TRACE_FORKS": "false"}


@every_variant
@pytest.mark.parametrize("seed", SEEDS)
def test_library_changes_nothing(variant, seed):
    env = {"AGSIM_SEED": seed, **APART, **({} if VARIANTS[variant][0] == "perthread" else HASTY)}
    plain = run_logged(command(variant), preload=False, env=env)
    library = run_logged(command(variant), env=env)
    assert values(library.stdout) == values(plain.stdout)
    assert library.stderr == plain.stderr == ""
    assert sequences(variant, library.log) == sequences(variant, plain.log)
    assert sum(map(len, plain.log.values())) > 100


@every_variant
def test_loop_is_replayed(variant):
    report = run_logged(command(variant), env={"AGSIM_DELAY_US": 0}).report
    assert report["replays"] > 0
    assert report["ops"]["replayed"] > report["ops"]["total"] // 5
    assert report["ops"]["replayed"] + report["ops"]["eager"] == report["ops"]["total"]


@pytest.mark.parametrize("version", [12000, 12030])
def test_without_parameter_layouts(version):
    """They came with driver 12.4: before, no kernel is held."""
    env = {"AGSIM_DRIVER_VERSION": version, "AGSIM_DELAY_US": 0}
    plain = run_logged(command("constant"), preload=False, env=env)
    library = run_logged(command("constant"), env=env)
    assert values(library.stdout) == values(plain.stdout) and library.log == plain.log
    assert library.report["ops"]["replayed"] == 0


def test_changing_arguments_are_patched():
    report = run_logged(command("scalars"), env={"AGSIM_DELAY_US": 0}).report
    assert report["patches"] >= report["replays"] // 2 > 0


def test_events_cut_no_sequence_once_submitted():
    """Two streams that wait for each other, each with graphs of its own: one replay each per iteration, and none
    more. An event that is still looked for in a sequence long submitted would end the sequences of later ones."""
    name, options = VARIANTS["events"]
    report = run_logged([sample(f"{name}-sim"), *options, "--iterations", "400"],
                        env={"AGSIM_DELAY_US": 0, **APART, **HELD}).report
    assert report["ops"]["replayed"] > report["ops"]["total"] * 0.9
    assert report["replays"] <= 2 * 404
