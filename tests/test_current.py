# SPDX-License-Identifier: MIT
"""Report and profile are current while the program runs: it may end by the system call, or be killed."""
import json
import os
import pathlib
import subprocess
import time

import pytest

import compiled
import helpers
from test_profile import Profile

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                reason="a sanitizer has descriptors of its own, and makes a loop slow")

STATUS = {"killed": -9}


def run(how, ms, env, **options):
    """(kernels of all but the last second, all kernels)"""
    done = helpers.run([compiled.program("observe_ends"), how, ms], env={**helpers.HELD, **env},
                       status=STATUS.get(how, 0), **options)
    assert done.stderr == ""
    return map(int, done.stdout.split())


def started(how, ms, env, **options):
    return subprocess.Popen([str(compiled.program("observe_ends")), how, str(ms)], stdin=subprocess.PIPE, text=True,
                            env=helpers.environment(env={**helpers.HELD, **env}), **options)


@pytest.mark.parametrize("how", ["group", "leaves", "killed", "stuck"])
def test_at_most_the_last_second_is_missing(tmp_path, how):
    """Also where a thread waits for room in a launch, with all that it may hold."""
    before, ops = run(how, 2500, {"AUTOGRAPH_REPORT": tmp_path / "r", "AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"})
    data = json.loads((tmp_path / "r").read_text())
    assert data["complete"] is data["partial"] is False and data["errors"] == 0
    assert any(0 < before <= stream["ops"] <= ops for stream in data["streams"])
    assert data["ops"]["total"] == sum(stream["ops"] for stream in data["streams"])
    assert 0 < data["ops"]["replayed"] == sum(s["replayed"] for s in data["streams"])
    assert sum(t["replays"] * t["length"] for t in data["trace_list"]) >= 0.5 * data["ops"]["replayed"]
    assert data["cuts"] and Profile(tmp_path / "p").sequences
    assert set(os.listdir(tmp_path)) == {"r", "p"}


def test_the_next_run_knows_what_a_killed_one_has_learnt(tmp_path):
    for _ in range(2):
        run("killed", 1500, {"AUTOGRAPH_REPORT": tmp_path / "r", "AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"})
        told = json.loads((tmp_path / "r").read_text())["eager_ops"]["first_rounds"]
    assert told <= 2 * 30  # of a sequence of 30 kernels


def test_whoever_reads_meanwhile_finds_a_whole_report(tmp_path):
    """The numbers only grow. The last report is complete, and replaces the others."""
    seen = []
    with started("returns", 2500, {"AUTOGRAPH_REPORT": tmp_path / "r"}, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if (tmp_path / "r").exists():
                seen.append(json.loads((tmp_path / "r").read_text()))
    totals = [data["ops"]["total"] for data in seen]
    assert totals == sorted(totals) and len(set(totals)) > 2 and not seen[0]["complete"]
    assert json.loads((tmp_path / "r").read_text())["complete"] is True


def test_nothing_is_written_where_nothing_changes(tmp_path):
    with started("idle", 100, {"AUTOGRAPH_REPORT": tmp_path / "r"}, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(1.5)
        before = (tmp_path / "r").stat()
        time.sleep(1.5)
        after = (tmp_path / "r").stat()
        process.communicate("")
    assert process.returncode == 0 and (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_short_program_writes_once(tmp_path):
    """What ends soon by the system call has no report: it would cost others as much as it tells."""
    run("group", 50, {"AUTOGRAPH_REPORT": tmp_path / "r"})
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("kind", ["link", "output", "rank"])
def test_what_can_only_be_written_at_the_end_is(tmp_path, kind):
    """A link stays one, the program's output is its own, and a rank may come later."""
    place, file = tmp_path / "r", tmp_path / "file"
    file.touch()
    if kind == "link":
        place.symlink_to(file)
    elif kind == "output":
        place = file
    clean = dict.fromkeys(["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"])
    name = place if kind != "rank" else tmp_path / "%r"
    with open(file, "w") as output:
        with started("killed", 1500, {**clean, "AUTOGRAPH_REPORT": name}, stdout=output) as process:
            assert process.wait(helpers.TIMEOUT) == -9
    assert os.path.islink(place) == (kind == "link")
    assert len(file.read_text().split()) == 2 and not (tmp_path / "0").exists()


@pytest.mark.parametrize("variable, text", [("AUTOGRAPH_REPORT", "report"), ("AUTOGRAPH_TRACE_PROFILE", "profile")])
def test_what_cannot_be_written_is_said_once(tmp_path, variable, text):
    done = helpers.run([compiled.program("observe_ends"), "returns", 1500],
                       env={**helpers.HELD, variable: tmp_path / "none/file"})
    (line,) = done.stderr.splitlines()
    assert f"the {text} {tmp_path}/none/file cannot be written: No such file" in line
    assert os.listdir(tmp_path) == []


def test_it_is_said_before_a_program_is_killed(tmp_path):
    done = helpers.run([compiled.program("observe_ends"), "killed", 1500], status=-9,
                       env={**helpers.HELD, "AUTOGRAPH_REPORT": tmp_path / "none/file"})
    assert "cannot be written: No such file" in done.stderr


def test_a_thread_only_where_a_file_is_kept(tmp_path):
    def keepers(env):
        with started("idle", 1, env, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            names = [task.read_text().strip() for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm")]
            process.communicate("")
        return names.count("ag-keeper")
    assert keepers({"AUTOGRAPH_REPORT": tmp_path / "r"}) == keepers({"AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"}) == 1
    assert keepers({"AUTOGRAPH_REPORT": "stderr"}) == keepers({"AUTOGRAPH_REPORT_LIVE": "true"}) == keepers({}) == 0
