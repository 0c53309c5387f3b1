# SPDX-License-Identifier: MIT
"""Which run a report is of: what an earlier one has left is not taken for the last one's."""
import json
import os
import re

import pytest

from commands import LOOP, WIDE, autograph, message
from test_report_command import third_format

SHELL = "sh", "-c"
WORDS = " ".join(map(str, LOOP))
NAME = "autograph-report-0.json"


def test_a_run_that_writes_none_leaves_none(tmp_path):
    autograph("--report", *LOOP, cwd=tmp_path)
    autograph("--report", "true", cwd=tmp_path)
    assert "which report?" in message(autograph("report", cwd=tmp_path, status=2))


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_only_a_report_is_taken_away(tmp_path, kind):
    autograph("--report", *LOOP, cwd=tmp_path)
    (tmp_path / NAME).rename(tmp_path / "kept")
    if kind == "file":
        (tmp_path / NAME).write_text("int main(void) {}\n")
    elif kind == "link":
        (tmp_path / NAME).symlink_to("kept")
    else:
        (tmp_path / NAME).mkdir()
    before = (tmp_path / NAME).lstat().st_ino
    autograph("--report", "true", cwd=tmp_path)
    assert (tmp_path / NAME).lstat().st_ino == before and (tmp_path / "kept").exists()


def test_a_program_that_is_not_there_takes_nothing_away(tmp_path):
    autograph("--report", *LOOP, cwd=tmp_path)
    autograph("--report", "/no/such", cwd=tmp_path, status=127)
    assert (tmp_path / NAME).exists()


def test_programs_of_one_run(tmp_path):
    """Each has its report. The next run's is shown without theirs."""
    done = autograph("--report", *SHELL, f"{WORDS}; {WORDS} --kernels 9", cwd=tmp_path)
    names = re.findall(r"the report is written: autograph report \S*/(\S+) shows it", done.stderr)
    assert sorted(names) == sorted(os.listdir(tmp_path)) and names[0] == NAME and len(names) == 2
    assert re.fullmatch(r"autograph-report-0\.\d+\.json", names[1])
    first, second = (json.loads((tmp_path / name).read_text()) for name in names)
    assert first["run"] == second["run"] and second["arguments"] == [*first["arguments"], "--kernels", "9"]
    done = autograph("report", cwd=tmp_path, env=WIDE)
    assert done.stderr == "" and done.stdout.count("constant-sim: ") == 2
    assert re.search(r"arguments: .* --kernels 9\n  written on \d{4}-\d\d-\d\d at \d\d:\d\d:\d\d, run ", done.stdout)

    autograph("--report", *LOOP, cwd=tmp_path)
    done = autograph("report", cwd=tmp_path)
    assert done.stdout.count("constant-sim: ") == 1
    assert message(done) == f"of earlier runs, and left out: {names[1]}; name them to see them"


def test_a_part_of_a_run(tmp_path):
    """`autograph` within the program takes nothing away."""
    command = re.sub("(?m)^", "autograph --report ", f"{WORDS}\n{WORDS}")
    autograph("--report", *SHELL, command, cwd=tmp_path, env={
        "PATH": f"{os.environ.get('AG_BUILD') or os.path.dirname(LOOP[0].parent.parent)}:{os.environ['PATH']}"})
    assert len(os.listdir(tmp_path)) == 2


def ranks(tmp_path, *spans, **changes):
    """Reports of ranks, each by when it began and ended; a run's time may stand before."""
    for rank, (run, began, ended) in enumerate(spans):
        (tmp_path / f"autograph-report-{rank}.json").write_text(json.dumps(third_format(
            run=run, date=ended, seconds=ended - began, pid=rank, **changes)))


@pytest.mark.parametrize("spans, shown", [
    ([(None, 100, 110), (None, 105, 111), (None, 50, 60), (None, 40, 90)], [0, 1]),
    ([("99.5-1", 104, 105), ("99.9-2", 100, 102), ("60.0-3", 70, 80)], [0, 1]),
    ([("99.5-1", 104, 105), ("99.5-1", 110, 112), ("113.0-3", 114, 120)], [2]),
    ([("99.5-1", 104, 105), ("99.5-1", 110, 112)], [0, 1])])
def test_ranks_of_two_jobs(tmp_path, spans, shown):
    ranks(tmp_path, *spans)
    done = autograph("report", cwd=tmp_path, env=WIDE)
    assert [int(pid) for pid in re.findall(r"process (\d+),", done.stdout)] == shown
    others = [f"autograph-report-{rank}.json" for rank in range(len(spans)) if rank not in shown]
    assert done.stderr == "" if not others else f"of earlier runs, and left out: {', '.join(others)}; " in message(done)
    done = autograph("report", *sorted(os.listdir(tmp_path)), cwd=tmp_path, env=WIDE)
    assert done.stdout.count("process ") == len(spans)
    assert done.stderr == "" if not others else message(done) == f"of earlier runs: {', '.join(others)}"


def test_programs_that_differ(tmp_path):
    ranks(tmp_path, (None, 100, 110), (None, 100, 110))
    data = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps({**data, "program": "/opt/other"}))
    assert message(autograph("report", cwd=tmp_path)) == "these are of different programs: other, solver"


@pytest.mark.parametrize("changes", [{"date": "x"}, {"date": 1e300}, {"run": "x", "date": 1}, {"run": [1], "date": 1}])
def test_what_is_no_date(tmp_path, changes):
    (tmp_path / NAME).write_text(json.dumps(third_format(**changes)))
    assert "is no complete report" in message(autograph("report", cwd=tmp_path, status=2))
