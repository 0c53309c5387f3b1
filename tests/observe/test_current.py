# SPDX-License-Identifier: MIT
"""Report and profile are current while the program runs: it may end by the system call, or be killed."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import compiled
import helpers
from test_profile import Profile
from test_watch import wait_for

STATUS = {"killed": -9}
CLEAN = dict.fromkeys(["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"])


def run(how, report, env=None):
    """(kernels that the report must know, all kernels) of a program that ends when its report is current"""
    done = helpers.run([compiled.program("observe_ends"), how, report], status=STATUS.get(how, 0),
                       env={**helpers.HELD, "AUTOGRAPH_REPORT": report, **(env or {})})
    assert done.stderr == ""
    return map(int, done.stdout.split())


@contextlib.contextmanager
def running(how, until, env, **options):
    """The program while it runs, until its standard input ends."""
    with subprocess.Popen([str(compiled.program("observe_ends")), how, until], stdin=subprocess.PIPE, text=True,
                          env=helpers.environment(env={**helpers.HELD, **env}),
                          **{"stdout": subprocess.PIPE, **options}) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def keepers(process):
    """The numbers of the threads that keep files current."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return [int(task.name) for task in tasks if (task / "comm").read_text() == "ag-keeper\n"]


@pytest.mark.parametrize("how", ["group", "leaves", "killed", "stuck"])
def test_at_the_end_report_and_profile_are_there(tmp_path, how):
    """Also where a thread waits for room in a launch, with all that it may hold."""
    before, ops = run(how, tmp_path / "r", {"AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"})
    data = json.loads((tmp_path / "r").read_text())
    assert data["complete"] is data["partial"] is False and data["errors"] == 0
    assert any(0 < before <= stream["ops"] <= ops for stream in data["streams"])
    assert data["ops"]["total"] == sum(stream["ops"] for stream in data["streams"])
    assert 0 < data["ops"]["replayed"] == sum(s["replayed"] for s in data["streams"])
    assert sum(t["replays"] * t["length"] for t in data["trace_list"]) >= 0.5 * data["ops"]["replayed"]
    assert data["cuts"] and Profile(tmp_path / "p").sequences
    assert {"r", "p"} <= set(os.listdir(tmp_path))


@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")
def test_at_most_the_last_second_is_missing(tmp_path):
    """Two waits of the thread are a second. It writes behind each, the first one included, or behind each second one
    after much work."""
    env = helpers.environment(env={**helpers.HELD, "AUTOGRAPH_REPORT": tmp_path / "r"})
    preloaded = env.pop("LD_PRELOAD")
    done = subprocess.run(["strace", "-f", "-e", "trace=futex,prctl,rename", "-o", tmp_path / "log", "-E",
                           f"LD_PRELOAD={preloaded}", compiled.program("observe_ends"), "group", tmp_path / "r"],
                          env=env, capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip(f"strace does not work here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text()
    thread, = re.findall(r'^(\d+) +prctl\(PR_SET_NAME, "ag-keeper"', log, re.M)
    calls = re.findall(rf"^{thread} +(futex\(.*FUTEX_WAIT_PRIVATE.* \{{.*\}}|rename\(.*/r\")", log, re.M)
    waits = [call for call in calls if call.startswith("futex")]
    assert calls[0] in waits and len(calls) > len(waits)
    assert all("{tv_sec=0, tv_nsec=500000000}" in call for call in waits)


def test_the_next_run_knows_what_a_killed_one_has_learnt(tmp_path):
    for report in tmp_path / "first", tmp_path / "next":
        run("killed", report, {"AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"})
        told = json.loads(report.read_text())["eager_ops"]["first_rounds"]
    assert told <= 2 * 30  # of a sequence of 30 kernels


def test_whoever_reads_meanwhile_finds_a_whole_report(tmp_path):
    """The numbers only grow. The last report is complete, and replaces the others."""
    totals = [0]

    def grows():
        if (tmp_path / "r").exists():
            data = json.loads((tmp_path / "r").read_text())
            assert not data["complete"] and data["ops"]["total"] >= totals[-1]
            totals.append(data["ops"]["total"])
        return len(set(totals)) > 3
    with running("returns", "told", {"AUTOGRAPH_REPORT": tmp_path / "r"}) as process:
        wait_for(grows, "the report does not change")
        last = int(process.communicate("end", helpers.TIMEOUT)[0].split()[1])
    data = json.loads((tmp_path / "r").read_text())
    assert process.returncode == 0 and data["complete"] is True and data["ops"]["total"] == last >= totals[-1]


def test_nothing_is_written_where_nothing_changes(tmp_path):
    """The thread goes to sleep behind each look. At last it does so several times without a new file."""
    last = [None, 0]

    def looks_in_vain():
        status = pathlib.Path(f"/proc/{process.pid}/task/{keeper}/status").read_text()
        sleeps = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.M)[1])
        file = (tmp_path / "r").stat()
        if last[0] != (file.st_ino, file.st_mtime_ns):
            last[:] = (file.st_ino, file.st_mtime_ns), sleeps
        return sleeps >= last[1] + 3
    with running("idle", str(tmp_path / "r"), {"AUTOGRAPH_REPORT": tmp_path / "r"}) as process:
        ops = int(process.stdout.readline().split()[1])
        keeper, = keepers(process)
        wait_for(looks_in_vain, "the report is written again and again")
        assert json.loads((tmp_path / "r").read_text())["ops"]["total"] == ops
        process.communicate("", helpers.TIMEOUT)
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["link", "output", "rank"])
def test_what_can_only_be_written_at_the_end_is(tmp_path, kind):
    """A link stays one, the program's output is its own, and a rank may come later. No thread keeps them."""
    place, file = tmp_path / "r", tmp_path / "file"
    file.touch()
    if kind == "link":
        place.symlink_to(file)
    elif kind == "output":
        place = file
    name = place if kind != "rank" else tmp_path / "%r"
    with open(file, "w") as output:
        with running("idle", "short", {**CLEAN, "AUTOGRAPH_REPORT": name}, stdout=output) as process:
            wait_for(lambda: len(file.read_text().split()) == 2, "the program does nothing")
            assert keepers(process) == []
            process.kill()
            assert process.wait(helpers.TIMEOUT) == -9
    assert os.path.islink(place) == (kind == "link")
    assert len(file.read_text().split()) == 2 and not (tmp_path / "0").exists()


@pytest.mark.parametrize("variable, text", [("AUTOGRAPH_REPORT", "report"), ("AUTOGRAPH_TRACE_PROFILE", "profile")])
@pytest.mark.parametrize("killed", [False, True])
def test_what_cannot_be_written_is_said_once(tmp_path, variable, text, killed):
    """While the program runs: it may be killed."""
    with running("returns", "told", {variable: tmp_path / "none/file"}, stderr=subprocess.PIPE) as process:
        line = process.stderr.readline()
        assert f"the {text} {tmp_path}/none/file cannot be written: No such file" in line
        if killed:
            process.kill()
        assert process.communicate("end", helpers.TIMEOUT)[1] == ""
    assert process.returncode == (-9 if killed else 0)
    assert os.listdir(tmp_path) == []


def test_a_thread_only_where_a_file_is_kept(tmp_path):
    def count(env):
        with running("idle", "short", env) as process:
            process.stdout.readline()
            found = keepers(process)
            process.communicate("", helpers.TIMEOUT)
        return len(found)
    assert count({"AUTOGRAPH_REPORT": tmp_path / "r"}) == count({"AUTOGRAPH_TRACE_PROFILE": tmp_path / "p"}) == 1
    assert count({"AUTOGRAPH_REPORT": "stderr"}) == count({"AUTOGRAPH_REPORT_LIVE": "true"}) == count({}) == 0
