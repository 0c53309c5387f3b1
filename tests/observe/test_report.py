# SPDX-License-Identifier: MIT
"""The exit report: its content, and where it goes."""
import fcntl
import json
import os
import re
import select
import socket
import stat
import subprocess
import time

import pytest

import compiled
import helpers
from trace_records import Trace

PROBE = helpers.build_dir() / "tests/unit/probe"


def report(env, cwd=None):
    """Runs the probe, which writes a report of known numbers."""
    return helpers.run([PROBE, "report"], preload=False, sim=False, env=env, cwd=cwd)


def test_nothing_is_written_unless_asked(tmp_path):
    done = report({}, cwd=tmp_path)
    assert done.stderr == "" and os.listdir(tmp_path) == []


def test_content(tmp_path):
    file = tmp_path / "report.json"
    with subprocess.Popen([PROBE, "report"], stdout=subprocess.DEVNULL,
                          env=helpers.environment(False, False, {"AUTOGRAPH_REPORT": file})) as p:
        assert p.wait(helpers.TIMEOUT) == 0
        pid = p.pid
    names = [*helpers.reasons("REASON")]
    assert "side_exit" in names and len(names) == len(set(names))
    data = json.loads(file.read_text())
    assert 0 <= time.time() - data.pop("date") < 2 * helpers.TIMEOUT
    assert data == {
        "format": 2,
        "run": None,
        "arguments": ["report"],
        "stopped": "no reason",
        "seconds": 1.5,
        "complete": True,
        "partial": True,
        "barred": True,
        "streams": [{"number": 3, "kind": "blocking", "lives": 2, "ops": 1000, "replayed": 900,
                     "replays": 15, "traces": 2}],
        "trace_list": [
            {"number": 2, "stream": 3, "length": 20, "replays": 10, "patches": 1, "saved_us": -955.6,
             "kernels": [{"name": '_Z3"mix', "count": 15}, {"name": None, "count": 5}]},
            {"number": 1, "stream": 3, "length": 10, "replays": 5, "patches": 7, "saved_us": -238.9,
             "kernels": [{"name": "memset", "count": 10}]}],
        "trace_list_left_out": 4,
        "cuts": [
            {"function": "cuStreamSynchronize", "reason": "host_wait", "why": "short", "calls": 2, "ops": 30},
            {"function": None, "reason": "watchdog", "why": None, "calls": 1, "ops": 20}],
        "callsites": [],
        "regions": [],
        "trace_file": None,
        "version": helpers.config()["version"],
        "pid": pid,
        "program": str(PROBE),
        "config": "",
        "options": {"report.file": str(file)},
        "ops": {"total": 1000, "replayed": 900, "eager": 100},
        "replays": 15,
        "waited": 3,
        "patches": 8,
        "updates": 5,
        "updates_refused": {name: i + 1 for i, name in enumerate(
            ["error", "topology_changed", "node_type_changed", "function_changed",
             "parameters_changed", "not_supported", "unsupported_function_change",
             "attributes_changed"])},
        "traces": 2,
        "making_us": 2500.0,
        "evictions": 1,
        "graph_memory_kb": 200,
        "side_exits": 2**64 - 1,
        "duels": 9,
        "duels_lost": 4,
        "held_ns": 4500,
        "eager_ns": 2500,
        "duel_variance": 0.25,
        "saved_us": [-7450, -4300, -1150],
        "saved_unknown": None,
        "gpus": ['A "GPU"'],
        "pool": {"allocations": 70, "behind_waits": 60, "keeps": 4096},
        "eager_ops": {**{word: 100 + i for i, word in enumerate(helpers.reasons("WHY"))},
                      **{word: 200 + i for i, word in enumerate(names)}},
        "flushes": {name: (i + 1 if i else 2**64 - 1) for i, name in enumerate(names)},
        "errors": 1,
    }
    assert os.listdir(tmp_path) == ["report.json"], "the temporary file is gone"


@pytest.mark.parametrize("command,length,left,ended", [
    (["constant-sim", "--kernels", "5"], 128, 0, 0), (["events-sim", "--iterations", "200"], 8, 15, 0)])
def test_side_exits_are_one_number(command, length, left, ended):
    """Times that the program left a trace, here while its loop is learnt. Where the library ends a sequence of which
    not all can be replayed, since a loop begins anew or it is full, that is no side exit."""
    name, *options = command
    found = helpers.run_logged([helpers.sample(name), *options],
                               env={"AUTOGRAPH_TRACE_MAX_LENGTH": length, "AUTOGRAPH_TRACE_FORKS": "false"}).report
    calls = {cut["reason"]: cut["calls"] for cut in found["cuts"]}
    assert found["side_exits"] == found["flushes"]["side_exit"] == calls.get("side_exit", 0) == left
    assert found["flushes"]["sequence_end"] == calls.get("sequence_end", 0) == ended


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


OLDER = '{\n  "format": 2,' + "x" * 10000


def test_an_older_report_is_replaced(tmp_path):
    file = tmp_path / "r"
    for older in OLDER, '{\n  "version": "0.1"', "":
        file.write_text(older)
        assert report({"AUTOGRAPH_REPORT": file}).stderr == ""
        assert json.loads(file.read_text())["ops"]["total"] == 1000


def left_alone(done, file, before):
    (line,) = done.stderr.splitlines()
    assert line.endswith("is not written: the file there is no report of yours")
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", ["x", "{}", '{\n "format": 2', '{"format": 2}', "AGTRACE\n", "\n"])
@pytest.mark.parametrize("linked", [False, True])
def test_another_file_is_left_alone(tmp_path, text, linked):
    file, link = tmp_path / "r", tmp_path / "l"
    file.write_text(text)
    link.symlink_to(file)
    done = report({"AUTOGRAPH_REPORT": link if linked else file})
    left_alone(done, file, text.encode())
    assert link.is_symlink() and len(os.listdir(tmp_path)) == 2


GUESSED = """
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Somebody guesses the first new name that a file is opened by, and has a link there. */
int open(const char *name, int flags, ...)
{
    static int guessed;
    int (*real)(const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    *(void **)&real = dlsym(RTLD_NEXT, "open");
    if (strstr(name, ".tmp") != NULL && !guessed++ && symlink(getenv("VICTIM"), name) != 0)
        abort();
    return real(name, flags, mode);
}
"""


def test_nobody_chooses_what_is_written_over_on_the_way(tmp_path):
    """The report is a file of another name first. Where somebody has guessed it, another name is taken."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    done = report({"AUTOGRAPH_REPORT": tmp_path / "r", "VICTIM": victim,
                   "LD_PRELOAD": helpers.preloads(compiled.text(GUESSED, *compiled.PRELOADED))})
    assert done.stderr == "" and json.loads((tmp_path / "r").read_text())["ops"]["total"] == 1000
    assert victim.read_text() == "theirs"
    (link,) = set(os.listdir(tmp_path)) - {"r", "victim"}
    assert os.readlink(tmp_path / link) == str(victim)


@pytest.mark.parametrize("same", [False, True], ids=["own", "equal"])
def test_many_processes_write_one(tmp_path, same):
    """In containers that share a folder processes have equal numbers. The last one's report is there, whole."""
    env = {"AUTOGRAPH_REPORT": tmp_path / "r", "LD_PRELOAD": helpers.preloads(compiled.same_number() if same else None)}
    env = helpers.environment(False, False, env)
    for _ in range(helpers.by_scale(4, 8, 16)):
        processes = [subprocess.Popen([PROBE, "report"], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE) for _ in range(16)]
        assert [process.communicate()[1] for process in processes] == 16 * [b""]
        assert json.loads((tmp_path / "r").read_text())["ops"]["total"] == 1000
        assert os.listdir(tmp_path) == ["r"]


@pytest.mark.parametrize("name, own", [("r.json", "r.{}.json"), ("r", "r.{}"), ("a.b/r", "a.b/r.{}")])
def test_each_process_of_a_run_has_its_report(tmp_path, name, own):
    """Also where all end at one time. The next run replaces what has its name."""
    (tmp_path / "a.b").mkdir()
    for run in "7.5-1", "7.5-2":
        env = helpers.environment(False, False, {"AUTOGRAPH_REPORT": tmp_path / name, "AUTOGRAPH_RUN": run})
        processes = [subprocess.Popen([PROBE, "report"], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True) for _ in range(8)]
        said = [process.communicate()[1] for process in processes]
        numbers = {process.pid for process in processes}
        first = json.loads((tmp_path / name).read_text())
        assert first["run"] == run and first["pid"] in numbers
        others = {number: tmp_path / own.format(number) for number in numbers - {first["pid"]}}
        assert all(json.loads(path.read_text())["pid"] == number for number, path in others.items())
        assert sorted(said) == sorted(
            f"libautograph[{number}]: the report is written: autograph report {path} shows it\n"
            for number, path in {**others, first["pid"]: tmp_path / name}.items())
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("run", ["", "a", '"', "1" * 65])
def test_what_is_no_name_of_a_run(tmp_path, run):
    for _ in range(2):
        assert report({"AUTOGRAPH_REPORT": tmp_path / "r", "AUTOGRAPH_RUN": run}).stderr == ""
    assert json.loads((tmp_path / "r").read_text())["run"] is None and os.listdir(tmp_path) == ["r"]


def test_only_the_first_rank_tells_of_reports(tmp_path):
    for rank, told in ("0", True), ("3", False):
        done = report({"AUTOGRAPH_REPORT": tmp_path / "r-%r", "AUTOGRAPH_RUN": "7.5-1", "SLURM_PROCID": rank})
        assert (done.stderr != "") == told and (tmp_path / f"r-{rank}").exists()


@pytest.mark.parametrize("word", ["größe \"x\"", "-", "x" * 5000])
def test_the_arguments(tmp_path, word):
    """As many bytes of them as there is room for."""
    helpers.run([PROBE, "report", word, "last"], preload=False, sim=False, env={"AUTOGRAPH_REPORT": tmp_path / "r"})
    found = json.loads((tmp_path / "r").read_text())["arguments"]
    assert found == ["report", word, "last"] if len(word) < 100 else found[1] in word and len(found[1]) > 1500


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of another user")
@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("public", [True, False])
def test_where_everybody_may_write_what_is_somebody_else_s_is_left_alone(tmp_path, kind, public):
    """It may be readable by them, or lead elsewhere. Elsewhere who may make files there is trusted."""
    place, target = tmp_path / "place", tmp_path / "target"
    place.mkdir()
    os.chmod(place, 0o1777 if public else 0o755)
    for file in (target, place / "r"):
        file.write_text(OLDER)
    if kind == "link":
        (place / "r").unlink()
        (place / "r").symlink_to(target)
    os.chown(place / "r", 65534, 65534, follow_symlinks=False)
    done = report({"AUTOGRAPH_REPORT": place / "r"})
    if public:
        left_alone(done, place / "r", OLDER.encode())
    else:
        assert json.loads((place / "r").read_text())["ops"]["total"] == 1000
    assert target.read_text() == OLDER


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    before = os.stat("/dev/null")
    assert report({"AUTOGRAPH_REPORT": "/dev/null"}).stderr == ""
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode) and after.st_ino == before.st_ino


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_program_s_own_output_is_written_to_and_not_replaced(tmp_path, stream):
    """As /dev/stdout is a link, to a file here."""
    link, output = tmp_path / "link", tmp_path / "output"
    link.symlink_to(f"/proc/self/fd/{dict(stdout=1, stderr=2)[stream]}")
    with open(output, "wb") as file:
        file.write(b"text\n")
        file.flush()
        subprocess.run([PROBE, "report"], check=True, **{stream: file},
                       env=helpers.environment(False, False, {"AUTOGRAPH_REPORT": link}))
    text = output.read_text()
    assert link.is_symlink() and text.startswith("text\n")
    assert json.loads(text[text.index("{"):text.rindex("}") + 1])["ops"]["total"] == 1000


def test_a_file_that_cannot_be_replaced_is_written_to(tmp_path):
    """A name that nothing else can be made beside."""
    with open(tmp_path / "r", "w+b") as file:
        file.write(OLDER.encode())
        file.flush()
        done = helpers.run([PROBE, "report"], preload=False, sim=False, pass_fds=[file.fileno()],
                           env={"AUTOGRAPH_REPORT": f"/proc/self/fd/{file.fileno()}"})
    assert done.stderr == ""
    assert json.loads((tmp_path / "r").read_text())["ops"]["total"] == 1000


def test_a_fifo_without_a_reader_does_not_stop_the_exit(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    done = report({"AUTOGRAPH_REPORT": tmp_path / "fifo"})
    assert len(done.stderr.splitlines()) == 1


def test_a_pipe_gets_all_of_it(tmp_path):
    """Also where it is more than fits, and the reader is slow; stderr may be a pipe as a FIFO is."""
    os.mkfifo(tmp_path / "fifo")
    with open(os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        fcntl.fcntl(reader, 1031, 4096)  # F_SETPIPE_SZ, which Python has from 3.10 on
        env = {"AUTOGRAPH_REPORT": tmp_path / "fifo", "AUTOGRAPH_TRACE_FILE": "\1" * 1000}
        with subprocess.Popen([PROBE, "report"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=helpers.environment(False, False, env)) as process:
            assert select.select([reader], [], [], helpers.TIMEOUT)[0]
            time.sleep(0.2)
            os.set_blocking(reader.fileno(), True)
            assert json.loads(reader.read())["options"]["trace.file"] == "\1" * 1000
            assert process.communicate()[1] == b"" and process.returncode == 0


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


def test_the_launcher_of_a_parallel_program_leaves_its_ranks_files_alone(tmp_path):
    clean = dict.fromkeys(["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"])
    done = helpers.run([compiled.program("observe_launcher"), 2, *LOOP], env={
        **clean, "AUTOGRAPH_REPORT": tmp_path / "%r.json", "AUTOGRAPH_TRACE_FILE": tmp_path / "%r.trace"})
    assert done.stderr == ""
    assert sorted(os.listdir(tmp_path)) == ["0.json", "0.trace", "1.json", "1.trace"]
    for rank in range(2):
        data = json.loads((tmp_path / f"{rank}.json").read_text())
        assert data["ops"]["total"] > 0
        assert Trace(tmp_path / f"{rank}.trace").pid == data["pid"]


def test_a_report_of_nothing_replaces_an_older_one(tmp_path):
    file = tmp_path / "report.json"
    file.write_text(OLDER)
    os.utime(file, (1, 1))
    helpers.run([compiled.program("observe_launcher"), 0], env={"AUTOGRAPH_REPORT": file})
    assert json.loads(file.read_text())["ops"]["total"] == 0


# -- What stands in the way -------------------------------------------------------

def cuts(env=None, steps=70):
    done = helpers.run_logged([compiled.program("observe_cuts"), steps],
                              env={"AUTOGRAPH_TRACE_UNROLL": 12, "AUTOGRAPH_TRACE_MIN_LENGTH": 2,
                                   **(env or {})})
    assert done.stderr == ""
    return done.report


def test_streams_and_traces_add_up():
    data = cuts()
    streams = data["streams"]
    assert [s["number"] for s in sorted(streams, key=lambda s: s["number"])] == [1, 2]
    assert {s["kind"] for s in streams} == {"nonblocking", "blocking"}
    for key in ("ops", "replayed", "replays", "traces"):
        total = data["ops"][{"ops": "total"}.get(key, key)] if key in ("ops", "replayed") else data[key]
        assert sum(s[key] for s in streams) == total, key
    traces = data["trace_list"]
    assert len(traces) == data["traces"] > 0 and data["trace_list_left_out"] == 0
    assert sum(t["replays"] for t in traces) == data["replays"]
    assert sum(t["patches"] for t in traces) == data["patches"]
    assert sum(t["replays"] * t["length"] for t in traces) == data["ops"]["replayed"]
    for t in traces:
        assert t["stream"] == 1 and t["kernels"] == [{"name": "ag_mix", "count": t["length"]}]
    assert data["complete"] is True and 0 < data["seconds"] < helpers.TIMEOUT


def test_a_stream_made_anew_shares_a_row():
    data = helpers.run_logged([compiled.program("live_life"), "streams"]).report
    assert max(s["lives"] for s in data["streams"]) > 1


def test_cuts_name_the_call():
    data = cuts()
    first, *others = data["cuts"]
    assert first == {"function": "cuMemcpyDtoHAsync_v2", "reason": "stream_barrier", "why": None,
                     "calls": 70, "ops": 70}
    assert {"function": "cuStreamDestroy_v2", "reason": "destroy", "why": "short", "calls": 1, "ops": 1} in others
    assert sum(c["ops"] for c in data["cuts"]) <= data["ops"]["eager"]
    assert data["callsites"] == []


def test_what_pauses_is_the_program_s_wish():
    data = helpers.run_logged([compiled.program("observe_api")]).report
    assert any(c["function"] == "autograph_pause" and c["reason"] == "request" and c["ops"] > 0
               for c in data["cuts"]), data["cuts"]


def test_the_gpu_has_a_name():
    assert cuts()["gpus"] == ["Simulated GPU"]
    assert helpers.run_logged(LOOP, env={"CUDA_LAUNCH_BLOCKING": "1"}).report["gpus"] == []


@pytest.mark.parametrize("mode, keeps", [("gives", 0), ("keeps", 2**63 - 1), ("own", None)])
def test_a_pool_that_gives_memory_back(mode, keeps):
    data = helpers.run_logged([compiled.program("observe_pool"), mode]).report
    number = 0 if mode == "own" else 100  # the first one comes before all waits
    assert data["pool"] == {"allocations": number, "behind_waits": max(0, number - 1), "keeps": keeps}


@pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                    reason="a sanitizer's own functions stand between")
def test_call_sites_name_the_program():
    (site,) = [s for s in cuts({"AUTOGRAPH_REPORT_CALLSITES": 1})["callsites"]
               if s["function"] == "cuMemcpyDtoHAsync_v2" and s["samples"] > 1]
    program = str(compiled.program("observe_cuts"))
    inner, outer = site["frames"][:2]
    assert inner["module"] == outer["module"] == program
    assert inner["symbol"] == "read_back" and outer["symbol"] == "main"
    symbols = {name: int(address, 16) for address, _, name in
               (line.split() for line in helpers.tool("nm", "--defined-only", program).splitlines())}
    assert inner["offset"] == symbols["read_back"] + inner["symbol_offset"]


@pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="a sanitizer's own functions stand between")
def test_call_sites_do_not_wait_for_a_library_that_begins():
    """Its constructor waits for a thread that makes such calls, and the loader holds a lock meanwhile."""
    plugin = compiled.program("observe_constructor.so", "-shared", "-DCONSTRUCTOR", source="observe_constructor")
    done = helpers.run_logged([compiled.program("observe_constructor"), plugin],
                              env={"AUTOGRAPH_REPORT_CALLSITES": 1, "AUTOGRAPH_GRAPH_READ_BACKS": "false",
                                   "AUTOGRAPH_TRACE_MIN_LENGTH": 2, "AGSIM_STRICT": None})
    assert done.stdout == "while it begins: done\n"
    symbols = {site["frames"][0]["symbol"] for site in done.report["callsites"]}
    assert {"first_read_back", "later_read_back"} <= symbols


def test_each_nth_call_is_sampled():
    every, tenth = (sum(s["samples"] for s in cuts({"AUTOGRAPH_REPORT_CALLSITES": n})["callsites"])
                    for n in (1, 10))
    assert 71 <= every < 100 and tenth == (every + 9) // 10


def test_the_trace_file_is_in_the_report(tmp_path):
    file = tmp_path / "trace"
    data = cuts({"AUTOGRAPH_TRACE_FILE": file})
    assert data["trace_file"] == {"file": str(file), "bytes": file.stat().st_size, "lost": 0,
                                  "error": None}
