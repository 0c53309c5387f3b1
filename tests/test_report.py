# SPDX-License-Identifier: MIT
"""The exit report: its content, and where it goes."""
import json
import os
import re
import socket
import stat
import subprocess

import pytest

import helpers

PROBE = helpers.build_dir() / "tests/unit/probe"


def report(env, cwd=None):
    """Runs the probe, which writes a report of known numbers."""
    return helpers.run([PROBE, "report"], preload=False, sim=False, env=env, cwd=cwd)


def reasons():
    """The names in the table of flush reasons."""
    text = (helpers.SOURCE / "src/observe/counters.h").read_text()
    return re.findall(r'^\s+X\(\w+, "(\w+)"', text, flags=re.M)


def test_nothing_is_written_unless_asked(tmp_path):
    done = report({}, cwd=tmp_path)
    assert done.stderr == "" and os.listdir(tmp_path) == []


def test_content(tmp_path):
    file = tmp_path / "report.json"
    with subprocess.Popen([PROBE, "report"], stdout=subprocess.DEVNULL,
                          env=helpers.environment(False, False, {"AUTOGRAPH_REPORT": file})) as p:
        assert p.wait(helpers.TIMEOUT) == 0
        pid = p.pid
    names = reasons()
    assert "side_exit" in names and len(names) == len(set(names))
    assert json.loads(file.read_text()) == {
        "version": helpers.config()["version"],
        "pid": pid,
        "program": str(PROBE),
        "config": "",
        "options": {"report.file": str(file)},
        "ops": {"total": 1000, "replayed": 900, "eager": 100},
        "replays": 15,
        "patches": 8,
        "updates": 5,
        "updates_refused": {name: i + 1 for i, name in enumerate(
            ["error", "topology_changed", "node_type_changed", "function_changed",
             "parameters_changed", "not_supported", "unsupported_function_change",
             "attributes_changed"])},
        "traces": 2,
        "side_exits": 3,
        "flushes": {name: (i + 1 if i else 2**64 - 1) for i, name in enumerate(names)},
        "errors": 1,
    }
    assert os.listdir(tmp_path) == ["report.json"], "the temporary file is gone"


def test_options_that_differ(tmp_path):
    ini = tmp_path / "my.ini"
    ini.write_text("[general]\nenable = false\n[trace]\nhot = 3\nunroll = 32\n[report]\nfile=stderr\n")
    done = report({"AUTOGRAPH_CONFIG": ini})
    data = json.loads(done.stderr)
    assert data["options"] == {"general.enable": False, "trace.unroll": 32, "report.file": "stderr"}
    assert data["config"] == str(ini)


@pytest.mark.parametrize("name", ['quote"back\\slash', "tab\tnew\nline", "größe €😀", b"bad\xff\xc3",
                                  b"\xed\xa0\x80 \xc0\xaf"])
def test_any_file_name_is_valid_json(tmp_path, name):
    name = os.fsencode(name)
    report({"AUTOGRAPH_REPORT": os.fsdecode(name)}, cwd=tmp_path)
    text = (tmp_path / os.fsdecode(name)).read_bytes().decode("utf-8")
    recorded = json.loads(text)["options"]["report.file"]
    if b"\xff" in name:
        assert recorded == "bad\ufffd\ufffd"
    elif b"\xed" in name:
        assert recorded == "\ufffd\ufffd\ufffd \ufffd\ufffd"
    else:
        assert recorded == os.fsdecode(name)


@pytest.mark.parametrize("env,rank", [
    ({}, "0"), ({"RANK": "3"}, "3"), ({"SLURM_PROCID": "4", "RANK": "3"}, "4"),
    ({"OMPI_COMM_WORLD_RANK": "5"}, "5"), ({"PMI_RANK": "6"}, "6"),
    ({"RANK": "../../etc/x"}, "0")])
def test_patterns_in_the_name(tmp_path, env, rank):
    clean = dict.fromkeys(["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"])
    report({**clean, **env, "AUTOGRAPH_REPORT": tmp_path / "%h-%r-%p-%%-%x-%"})
    (name,) = os.listdir(tmp_path)
    data = json.loads((tmp_path / name).read_text())
    assert name == f"{socket.gethostname()}-{rank}-{data['pid']}-%-%x-%"


def test_an_older_report_is_replaced(tmp_path):
    file = tmp_path / "r"
    file.write_text("x" * 10000)
    report({"AUTOGRAPH_REPORT": file})
    assert json.loads(file.read_text())["ops"]["total"] == 1000


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    before = os.stat("/dev/null")
    assert report({"AUTOGRAPH_REPORT": "/dev/null"}).stderr == ""
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode) and after.st_ino == before.st_ino


def test_a_fifo_without_a_reader_does_not_stop_the_exit(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    done = report({"AUTOGRAPH_REPORT": tmp_path / "fifo"})
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["missing/r.json", ".", "%r" * 20],
                         ids=["missing", "directory", "long"])
def test_what_cannot_be_written_is_one_line(tmp_path, name):
    done = report({"AUTOGRAPH_REPORT": f"{tmp_path}/{name}", "OMPI_COMM_WORLD_RANK": "7" * 100})
    assert re.fullmatch(r"libautograph\[\d+\]: the report .* cannot be written: [^\n]+\n",
                        done.stderr)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_noticed():
    done = report({"AUTOGRAPH_REPORT": "/dev/full"})
    assert "No space left on device" in done.stderr


# -- With the library -------------------------------------------------------------

LOOP = [helpers.sample("constant-sim"), "--iterations", "50", "--warmup", "2", "--kernels", "8"]


def test_a_program_writes_its_report_at_exit(tmp_path):
    helpers.run(LOOP, env={"AUTOGRAPH_REPORT": tmp_path / "%p.json"})
    (name,) = os.listdir(tmp_path)
    data = json.loads((tmp_path / name).read_text())
    assert data["program"] == str(LOOP[0]) and name == f"{data['pid']}.json"
    assert data["ops"]["total"] >= 50 * 8
    assert data["ops"]["total"] == data["ops"]["replayed"] + data["ops"]["eager"]
    assert data["errors"] == 0


def test_a_report_is_wanted_also_when_nothing_was_replayed(tmp_path):
    file = tmp_path / "report.json"
    helpers.run(LOOP, env={"AUTOGRAPH_REPORT": file, "AUTOGRAPH_GRAPH_EXECS": "0"})
    data = json.loads(file.read_text())
    assert data["ops"]["replayed"] == data["replays"] == data["traces"] == 0
    assert data["ops"]["eager"] == data["ops"]["total"] >= 50 * 8


def test_the_report_of_a_parallel_program_is_one_file_each(tmp_path):
    env = helpers.environment(env={"AUTOGRAPH_REPORT": tmp_path / "%r.json"})
    ranks = [subprocess.Popen(list(map(str, LOOP)), env={**env, "PMI_RANK": str(rank)},
                              stdout=subprocess.DEVNULL) for rank in range(3)]
    assert [r.wait(helpers.TIMEOUT) for r in ranks] == [0, 0, 0]
    assert sorted(os.listdir(tmp_path)) == ["0.json", "1.json", "2.json"]
