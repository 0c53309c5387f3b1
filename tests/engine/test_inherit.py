# SPDX-License-Identifier: MIT
"""Streams that are made in each step go on with what those before them have learnt."""
import pytest

import compiled
import helpers

STEPS = 300
# How many ops are replayed at least.
KINDS = {"one": 0.95, "kinds": 0.95, "crowd": 0.95, "priorities": 0.55, "modules": 0.7, "contexts": 0.7,
         "threads": 0.95, "last": 0.95}


def run(kind, steps=STEPS, **env):
    command = [compiled.program("step_streams"), kind, steps]
    without = helpers.run_logged(command, preload=False)
    done = helpers.run_logged(command, env={**helpers.HELD, **{f"AUTOGRAPH_{name}": value for name, value in env.items()}})
    assert (done.stdout, done.stderr) == (without.stdout, "")
    assert done.log == without.log
    assert done.report["errors"] == 0
    return done.report


def share(data):
    return data["ops"]["replayed"] / data["ops"]["total"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_streams_have_learnt_stays(kind):
    assert share(run(kind)) > KINDS[kind]


def test_the_report_names_the_last_stream():
    data = run("one")
    row, = (s for s in data["streams"] if s["kind"] == "nonblocking")
    assert row["number"] == row["lives"] == STEPS
    assert data["trace_list"][0]["stream"] == STEPS


@pytest.mark.parametrize("kind", ["one", "kinds", "crowd", "threads"])
def test_or_goes_with_them(kind):
    assert share(run(kind, TRACE_INHERIT="false")) < 0.2


def test_graphs_of_streams_that_are_gone_make_room():
    """The stream that stays gets one when its work has come 144 times."""
    stays, = (s for s in run("last", 600, GRAPH_EXECS=1)["streams"] if s["kind"] == "blocking")
    assert stays["replayed"] > 0.3 * stays["ops"]


def test_but_not_for_each_other():
    """Twelve streams in each step, and four graphs: those that have one keep it."""
    data = run("crowd", GRAPH_EXECS=4)
    assert data["traces"] < 20 and share(data) > 0.2 and data["graph_memory_kb"] <= 400


def test_more_streams_than_states():
    """The ops of the others pass; what some have learnt makes place for new ones."""
    data = run("many", 2)
    assert data["ops"]["total"] == 2 * 4200 * 2 and len(data["streams"]) <= 4096
    assert sum(s["ops"] for s in data["streams"]) < data["ops"]["total"]


@pytest.mark.parametrize("kernels,asked", [(0, False), (1, True)])
def test_whether_work_is_left_is_not_asked_behind_a_wait(tmp_path, kernels, asked):
    """But where something has been launched since."""
    calls = tmp_path / "calls"
    program = compiled.text(LIVES % kernels)
    helpers.run(program, env={"AGSIM_CALLS": calls})
    counts = dict(line.split()[:2] for line in calls.read_text().splitlines())
    assert int(counts.get("cuStreamQuery", 0)) in (range(190, 201) if asked else range(10))


LIVES = """
#include "sim_test.h"

int main(void)
{
    start();
    CUdeviceptr at;
    OK(cuMemAlloc(&at, 256));
    for (int life = 0; life < 200; life++) {
        CUstream s;
        OK(cuStreamCreate(&s, 0));
        OK(launch_mix(at, 64, 1, s));
        OK(cuStreamSynchronize(s));
        for (int i = 0; i < %d; i++)
            OK(launch_mix(at, 64, 2, s));
        OK(cuStreamDestroy(s));
    }
    return 0;
}
"""
