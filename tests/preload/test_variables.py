# SPDX-License-Identifier: MIT
"""Environment variables of CUDA that say how work is submitted and reported: docs/semantics.md, and
src/config/cuda.def, which names those because of which nothing is held."""
import re
import sys

import pytest

import compiled
import helpers

sys.path.insert(0, str(helpers.SOURCE / "tests/lint"))

import semantics  # noqa: E402  (needs the path above)

NAMED = [name for row in semantics.table(semantics.PARTS["Environment variables of CUDA"])
         for name in re.findall(r"`(\w+)`", row[0])]
FORBIDS = re.findall(r'^AG_CUDA_\w+\((\w+), "(.+)"\)$',
                     (helpers.SOURCE / "src/config/cuda.def").read_text(), flags=re.M)
ALONE = dict.fromkeys(NAMED)


def blocking(*words, env=None, **options):
    return helpers.run_logged([compiled.program("blocking"), *words], env={**ALONE, **(env or {})},
                              **options)


@pytest.mark.parametrize("value", ["1", "2", "true"])
def test_a_launch_returns_when_its_kernel_has_ended(value):
    """So the host finds what the kernel has written, and the launch that fails says so itself."""
    env = {"CUDA_LAUNCH_BLOCKING": value}
    assert blocking("read", env=env).stdout == "stale reads 0\n"
    assert blocking("fail", env=env).stdout == "launch 0 behind the one that fails reports 700\n"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_launches_are_held(value):
    ran = blocking("read", env={"CUDA_LAUNCH_BLOCKING": value})
    assert ran.report["stopped"] is None and ran.report["ops"]["replayed"] > 600


def test_the_program_may_set_it_itself():
    """What the driver finds in cuInit, or when it makes a context, counts, not what the process was
    started with."""
    for late in [], ["late"]:
        ran = blocking("read", *late, "CUDA_LAUNCH_BLOCKING=1")
        assert ran.stdout == "stale reads 0\n"
        assert ran.report["stopped"].startswith("CUDA_LAUNCH_BLOCKING is set: ")
    ran = blocking("read", "CUDA_LAUNCH_BLOCKING=0", env={"CUDA_LAUNCH_BLOCKING": "1"})
    assert ran.report["stopped"] is None and ran.report["ops"]["replayed"] > 600


@pytest.mark.parametrize("name, why", FORBIDS)
def test_what_keeps_the_library_from_holding(name, why, tmp_path):
    """The report and the log say so; the driver gets the program's calls and none of the library's."""
    calls = {}
    for preload in (True, False):
        file = tmp_path / f"calls{preload}"
        ran = blocking("read", preload=preload, env={
            name: "1", "AGSIM_CALLS": file, "AUTOGRAPH_LOG_LEVEL": "1"})
        calls[preload] = sorted(line for line in file.read_text().splitlines()
                                # Which driver it is has been asked by then.
                                if not line.startswith(("cuGetProcAddress", "cuDriverGetVersion")))
        if preload:
            assert ran.report["stopped"] == f"{name} is set: {why}"
            assert ran.report["replays"] == 0
            assert re.fullmatch(rf"libautograph\[\d+\]: nothing is held: {name} is set: {why}\n",
                                ran.stderr)
    assert calls[True] == calls[False]


@pytest.mark.parametrize("own", [[], ["own"]])
@pytest.mark.parametrize("value", [None, "0", "1"])
def test_priorities_are_those_of_the_launches(value, own):
    """Whether all graphs' kernels have their nodes' priorities, or none, or as the library asks."""
    env = {"CUDA_GRAPHS_USE_NODE_PRIORITY": value}
    with_it = blocking("priorities", *own, env=env)
    assert with_it.log == blocking("priorities", *own, env=env, preload=False).log
    assert (with_it.report["ops"]["replayed"] > 400) == (value != "0" or not own)


@pytest.mark.parametrize("name", [n for n in NAMED if n not in dict(FORBIDS)])
def test_with_other_variables_launches_are_held(name):
    """They change nothing that the library may do, whatever their value."""
    ran = blocking("priorities", env={name: "1"})
    assert ran.report["stopped"] is None and ran.report["ops"]["replayed"] > 400


def test_document_names_each_variable_once():
    assert len(NAMED) == len(set(NAMED)) and set(dict(FORBIDS)) <= set(NAMED)
    read = re.findall(r'"(CUDA_\w+)"', (helpers.SOURCE / "src/config/cuda.c").read_text())
    assert read and set(read) <= set(NAMED)
