# SPDX-License-Identifier: MIT
"""Saved time: one rule in the report, in the lines at exit and in the commands (src/observe/saving.h)."""
import json
import re

import pytest

import commands
import compiled
import helpers

report, verdict = commands.module("report"), commands.module("verdict")

NOTHING = "nothing went out in graphs"
SIMULATED = "the driver is the simulated one, whose times say nothing about a GPU"
NO_TRIAL = "no trial measured it"
UNFIT = "by one trial it is more than the whole run took, which needs a better measurement"


def ended(tmp_path, command, env=(), **options):
    """(report, what the last line says of the time saved), of a process."""
    file = tmp_path / "r.json"
    done = helpers.run(command, env={"AUTOGRAPH_REPORT": file, "AUTOGRAPH_VERBOSE": "1", **dict(env)}, **options)
    return report.completed(json.loads(file.read_text())), done.stderr.splitlines()[-1].partition("time saved: ")[2]


@pytest.mark.parametrize("numbers, found", [
    ({}, [1737, 1800, 1863]),
    ({"variance": 0}, [1800, 1800, 1800]),
    ({"replayed": 1, "seconds": 1e-3}, [1.9, 2, 2.1]),
    ({"variance": 0.0225}, [855, 1800, 2745]),  # of one pair
    ({"variance": 0.09, "seconds": 1e-3}, [-90, 1000, 1000]),
    ({"seconds": 1e-3}, UNFIT),
    ({"replayed": 20000, "eager": 921815, "seconds": 1.17}, UNFIT),
    ({"held": 6500}, [-1899, -1800, -1701]),
    ({"held": 6500, "seconds": 1e-3}, UNFIT),
    ({"held": 4500, "variance": 1}, [-8100, 0, 8100]),
    ({"making_ns": 2e6}, [-263, -200, -137]),
    ({"held": 0, "eager": 0}, NO_TRIAL),
    ({"replayed": 0}, NOTHING),
    ({"simulated": 1}, SIMULATED)])
def test_the_rule(tmp_path, numbers, found):
    """Of 900 ops that take 2500 ns in graphs and 4500 without, in 1.5 s, unless something else is said."""
    data, line = ended(tmp_path, [helpers.build_dir() / "tests/unit/probe", "end",
                                  *(f"{name}={value}" for name, value in numbers.items())], preload=False, sim=False)
    ours, (trace,) = verdict.saving(data), data["trace_list"]
    if isinstance(found, str):
        assert data["saved_us"] is ours is trace["saved_us"] is None
        assert data["saved_unknown"] == found and line == f"not known: {found}"
        assert verdict.unknown(data).startswith({NOTHING: "Nothing was saved", SIMULATED: verdict.simulated.NO_TIMES, UNFIT: (
            "By one trial that saved more"), NO_TRIAL: "How much time that saved was not measured"}[found])
        return
    assert data["saved_us"] == found == pytest.approx(ours, abs=0.051) and data["saved_unknown"] is None
    assert max(map(abs, ours)) <= 1e6 * data["seconds"]
    low, middle, high = found
    assert line == f"{middle / 1e3:.1f} ms, from {low / 1e3:.1f} to {high / 1e3:.1f} ms"
    if data["ops"]["replayed"] == 900:
        assert trace["saved_us"] == pytest.approx(verdict.part_of(data, trace), abs=0.051) == middle


@pytest.mark.parametrize("faster", [True, False])
def test_the_lines_of_a_run_agree(tmp_path, faster):
    """Report, line and commands, of trials by a clock that does not go by the machine."""
    slow = {"AGSIM_LAUNCH_US": 20} if faster else {}  # 160 us for the eight launches of a step
    data, line = ended(tmp_path, [helpers.sample("sync-sim"), "--iterations", 3000, "--kernels", 8], clock=compiled.clock(),
                       env={"AGSIM_GPU": "A GPU", "AGSIM_GRAPH_LAUNCH_US": 100 if faster else 3000, "AGSIM_DELAY_US": 0,
                            "AUTOGRAPH_TRACE_DUEL": None, **helpers.PATIENT, **slow})
    ours = verdict.saving(data)
    assert data["duels"] and ours and (ours.us > 0) == faster
    assert ours == pytest.approx(data["saved_us"], rel=1e-4)
    shown = [float(n) for n in re.fullmatch(r"(\S+) ms, from (\S+) to (\S+) ms", line).groups()]
    assert shown == pytest.approx([us / 1e3 for us in (ours.us, ours.low, ours.high)], abs=0.051)
    assert sum(t["saved_us"] for t in data["trace_list"]) == pytest.approx(ours.us, rel=0.01)
