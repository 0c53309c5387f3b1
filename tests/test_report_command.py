# SPDX-License-Identifier: MIT
"""autograph report, on the terminal and as a page, and autograph top."""
import html.parser
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

import commands
import helpers
import tracefiles
from commands import LOOP, autograph, message


def first_format(**changes):
    """A report of the first library, which had no "format"."""
    return {"version": "0.1.0", "pid": 77, "program": "/opt/solver", "config": "",
            "options": {"trace.hot": 5}, "ops": {"total": 1000, "replayed": 900, "eager": 100},
            "replays": 30, "patches": 8, "updates": 5, "updates_refused": {"error": 0}, "traces": 2,
            "side_exits": 3, "flushes": {"side_exit": 0, "watchdog": 2, "legacy_order": 7},
            "errors": 0, **changes}


def second_format(**changes):
    return first_format(**{
        "format": 2, "seconds": 4.5, "complete": True, "making_us": 750,
        "streams": [
            {"number": 1, "kind": "nonblocking", "lives": 1, "ops": 800, "replayed": 800,
             "replays": 25, "traces": 1},
            {"number": 2, "kind": "legacy", "lives": 1, "ops": 200, "replayed": 100, "replays": 5,
             "traces": 1}],
        "trace_list": [{"number": 4, "stream": 1, "length": 32, "replays": 25, "patches": 8,
                        "saved_us": 1500.5,
                        "kernels": [{"name": "memset", "count": 2},
                                                        {"name": "_ZN1a4stepIfEEvPT_", "count": 30}]},
                       {"number": 5, "stream": 1, "length": 4, "replays": 0, "patches": 0,
                        "saved_us": 0, "kernels": [{"name": "unused", "count": 4}]}],
        "trace_list_left_out": 3,
        "cuts": [{"function": "cuStreamSynchronize", "reason": "host_wait", "calls": 20, "ops": 40},
                 {"function": "cuMemcpyHtoDAsync_v2", "reason": "stream_barrier", "calls": 9, "ops": 50},
                 {"function": None, "reason": "watchdog", "calls": 1, "ops": 10}],
        "callsites": [{"function": "cuMemcpyHtoDAsync_v2", "samples": 6, "frames": [
            {"module": "/opt/solver", "offset": 4660, "symbol": "_Z4loadi", "symbol_offset": 52}]}],
        "regions": [{"name": "step <b>", "count": 10, "seconds": 1.5, "ops": 500, "replayed": 400}],
        "trace_file": {"file": "/tmp/x", "bytes": 2500000, "lost": 3, "error": None}, **changes})


def test_why_nothing_was_held(shown, tmp_path):
    why = "a reason <i>"
    for data in second_format(stopped=why), second_format(stopped=why, cuts=[], ops={
            "total": 0, "replayed": 0, "eager": 0}):
        assert f"the library stopped holding: {why}" in shown(data).stdout
        shown(data, "--html", tmp_path / "page.html")
        assert "the library stopped holding: a reason &lt;i&gt;" in (tmp_path / "page.html").read_text()


@pytest.fixture
def shown(tmp_path):
    def show(data, *options, **how):
        (tmp_path / "r.json").write_text(json.dumps(data))
        return autograph("report", tmp_path / "r.json", *options, **how)
    return show


def sections(text):
    """{title: lines}; the lines before the first section are under ""."""
    found, title = {"": []}, ""
    for line in text.splitlines():
        if line and not line.startswith(" ") and not found[title] and title == "":
            found[""].append(line)
        elif line.startswith("  "):
            found[title].append(line.strip())
        elif line:
            if re.match(r"[A-Z][\w ]+$", line):
                title = line
                found[title] = []
            else:
                found[""].append(line)
    return found


# -- Terminal -----------------------------------------------------------------------

def test_what_keeps_the_library_from_holding(shown):
    ops = {"total": 0, "replayed": 0, "eager": 0}
    text = shown(second_format(ops=ops, stopped="CUDA_X is set: so it is")).stdout
    assert sections(text)["What stands in the way"][0] == \
        "the library stopped holding: CUDA_X is set: so it is"
    text = shown(second_format(ops=ops, stopped=None)).stdout
    assert "launched nothing itself" in sections(text)["What stands in the way"][0]


def test_a_report_of_the_first_format(shown):
    found = sections(shown(first_format()).stdout)
    assert found[""][:4] == [
        "/opt/solver (process 77, libautograph 0.1.0)",
        "90.0 % of 1,000 ops were replayed, in 30 graph launches (30.0 ops each)",
        "2 traces, 8 arguments patched, 3 side exits, 0 errors", "options: trace.hot = 5"]
    rows = [re.split(r"\s{2,}", line) for line in found["What stands in the way"]]
    assert rows[0] == ["times", "because of", "what to do"]
    assert rows[1][:2] == ["7", "legacy order"] and "cudaStreamNonBlocking" in rows[1][2]
    assert rows[2][:2] == ["2", "watchdog"] and "hold.bound_us" in rows[2][2] and len(rows) == 3


def test_one_of_each_is_said_in_the_singular(shown, tmp_path):
    trace = {"number": 4, "stream": 1, "length": 1, "replays": 1, "patches": 1, "saved_us": 1,
             "kernels": [{"name": "memset", "count": 1}]}
    data = second_format(
        ops={"total": 1, "replayed": 1, "eager": 0}, replays=1, traces=1, patches=1, side_exits=1, errors=1,
        duels=1, duels_lost=1, trace_list=[trace, {**trace, "replays": 0}], trace_list_left_out=0,
        trace_file={"file": "/tmp/x", "bytes": 1, "lost": 1, "error": None})
    out = shown(data).stdout
    assert out.splitlines()[1] == "100.0 % of 1 op was replayed, in 1 graph launch (1.0 ops each)"
    assert "1 other, which did less" in out and "1 record lost" in out
    shown(data, "--html", tmp_path / "page.html")
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</b>", " ", (tmp_path / "page.html").read_text()))
    assert not commands.PLURAL_OF_ONE.search(out)
    assert not commands.PLURAL_OF_ONE.search(re.sub(r"(?s)<style>.*?</style>", "", text))


def test_a_report_of_the_second_format(shown):
    found = sections(shown(second_format()).stdout)
    assert found[""][2].startswith("about 1.50 ms of launching saved, ")
    assert found[""][2].endswith("; it ran for 4.50 s")
    assert found[""][3].startswith("2 traces made in 750 us, 8 arguments patched, ")

    def rows(title):
        return [re.split(r"\s{2,}", line) for line in found[title]]
    assert rows("Streams")[1:] == [
        ["1", "nonblocking", "800", "100.0 %", "#" * 20, "25", "1"],
        ["2", "legacy", "200", "50.0 %", "#" * 10 + "." * 10, "5", "1"]]
    assert rows("Traces")[1] == ["4", "1", "32", "25", "8", "1.50 ms", "30 a::step<float>, 2 memset"]
    assert found["Traces"][-1] == "... and 4 others, which did less or nothing"
    assert [r[:3] for r in rows("What stands in the way")[1:]] == [
        ["50", "9", "cuMemcpyHtoDAsync_v2"], ["40", "20", "cuStreamSynchronize"],
        ["10", "1", "watchdog"]]
    assert "pinned" in rows("What stands in the way")[1][3]
    assert rows("Where these calls come from")[1] == [
        "6", "cuMemcpyHtoDAsync_v2", "load + 0x34 in solver"]
    assert rows("Regions")[1] == ["step <b>", "10", "1.500", "500", "80.0 %"]
    assert found[""][-1] == "Trace file: /tmp/x, 2.5 MB, 3 records lost"


def test_ops_that_no_call_is_to_blame_for(shown):
    data = second_format(ops={"total": 2000, "replayed": 900, "eager": 1100})
    rows = sections(shown(data).stdout)["What stands in the way"]
    assert re.split(r"\s{2,}", rows[1])[:2] == ["1,000", "not repeated"]


def test_a_trace_of_more_kernels_than_are_told_apart(shown):
    data = second_format()
    data["trace_list"][0]["kernels"].append({"name": None, "count": 100})
    assert "30 a::step<float>, 2 memset, 100 others\n" in shown(data, env={"COLUMNS": "90"}).stdout


def test_a_long_row_of_traces_ends_with_the_line(shown):
    """80 columns, as the output is no terminal, or what the terminal says."""
    data = second_format()
    data["trace_list"][0]["kernels"][1]["name"] = "k" * 200
    for columns, env in ((80, {"COLUMNS": None}), (120, {"COLUMNS": "120"})):
        row, = (line for line in shown(data, env=env).stdout.splitlines() if "kkk" in line)
        assert len(row) == columns and row.endswith("...")


def test_without_a_demangler(shown, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "30 _ZN1a4stepIfEEvPT_, 2 memset" in shown(second_format()).stdout


@pytest.mark.parametrize("changes,words", [
    ({"ops": {"total": 0, "replayed": 0, "eager": 0}}, "the program launched nothing itself"),
    ({"ops": {"total": 9, "replayed": 0, "eager": 9}, "flushes": {}, "replays": 0}, "a short run?"),
    ({"flushes": {"exit": 0}}, "nothing")])
def test_nothing_stands_in_the_way(shown, changes, words):
    assert words in sections(shown(first_format(**changes)).stdout)["What stands in the way"][0]


def test_little_that_stands_in_the_way(shown):
    rows = sections(shown(first_format(ops={"total": 1000, "replayed": 981, "eager": 19})).stdout)
    assert rows["What stands in the way"][0] == "little: only 1.9 % of the ops were not replayed"


def test_every_reason_has_advice(shown):
    names = re.findall(r'^\s+X\(\w+, "(\w+)"', (helpers.SOURCE / "src/observe/counters.h").read_text(),
                       flags=re.M)
    lines = shown(first_format(flushes=dict.fromkeys(names, 1))).stdout.splitlines()
    for name in names:
        line, = (x for x in lines if x.split("  ")[-1] and f"  {name.replace('_', ' ')}  " in x)
        assert len(re.split(r"\s{2,}", line.strip())) == 3, f"no advice for {name}"


def test_many_reports_and_those_that_lie_here(shown, tmp_path):
    for rank in range(2):
        (tmp_path / f"autograph-report-{rank}.json").write_text(json.dumps(first_format(pid=rank)))
    done = autograph("report", cwd=tmp_path)
    assert "(process 0," in done.stdout and "(process 1," in done.stdout


@pytest.mark.parametrize("content,words", [
    ("", "not valid JSON"), ("{", "not valid JSON"), ("[1]", "is no report of libautograph"),
    ("{}", "is no report of libautograph"), ('{"ops": 3}', "is no report of libautograph"),
    ('{"ops": {}}', "is no complete report"), ("[" * 100000, "not valid JSON"),
    (json.dumps(first_format(format=3)), "has format 3, this command reads up to 2"),
    (json.dumps(first_format(flushes=[1])), "is no complete report"),
    (json.dumps(second_format(streams=[{}])), "is no complete report"),
    (json.dumps(second_format(cuts="x")), "is no complete report")])
def test_files_that_are_no_report(tmp_path, content, words):
    (tmp_path / "r").write_text(content)
    assert words in message(autograph("report", tmp_path / "r", status=2))
    assert words in message(autograph("report", "--html", tmp_path / "o", tmp_path / "r", status=2))
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("arguments,words", [
    ([], "which report?"), (["/no/such"], "No such file"), (["/"], "Is a directory"),
    (["--html"], "expected one argument"), (["--trace", "x", "r"], "give --html too")])
def test_report_cannot_work(tmp_path, arguments, words):
    assert words in message(autograph("report", *arguments, status=2, cwd=tmp_path))


def test_what_a_program_reports(tmp_path):
    autograph("--report", *LOOP, cwd=tmp_path)
    first, second, *_ = autograph("report", cwd=tmp_path).stdout.splitlines()
    assert first.startswith(f"{LOOP[0]} (process ")
    assert re.match(r"\d\d\.\d % of \d+ ops were replayed, in \d+ graph launches", second)


def test_where_calls_come_from(tmp_path):
    """The function and line of the program, if it was built with -g."""
    sync = helpers.sample("sync-sim")
    autograph("--report", "--set", "report.callsites=1", sync, *LOOP[1:], cwd=tmp_path)
    lines = sections(autograph("report", cwd=tmp_path).stdout)["Where these calls come from"]
    waits = [line for line in lines if "cuStreamSynchronize" in line]
    assert waits
    if shutil.which("addr2line") and b".debug_info" in sync.read_bytes():
        assert any(re.search(r"  main.* \(sync\.cu:\d+\) in sync-sim$", line) for line in waits), waits


# -- Page ---------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """Checks that every element ends where it should, and that nothing is loaded."""
    VOID = {"meta", "hr", "line"}

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.tags, self.styles = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] == "style":
            self.styles.append(data)


def test_the_page(shown, tmp_path):
    tracefiles.example(pid=77).write(tmp_path / "t")
    done = shown(second_format(), "--html", tmp_path / "p.html", "--trace", tmp_path / "t")
    assert done.stdout == f"{tmp_path}/p.html: open it in a browser\n"
    text = (tmp_path / "p.html").read_text()
    page = Page(text)
    assert {t for t, _ in page.tags} & {"script", "link", "img", "iframe", "object"} == set()
    assert "http" not in text and "url(" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in page.styles[0]
    for words in ("90.0 %", "1.50 ms", "30 a::step<float>, 2 memset", "cuMemcpyHtoDAsync_v2",
                  "load + 0x34 in solver", "step <b>", "Timeline"):
        assert words in page.words, words
    bars = [a["style"] for t, a in page.tags if t == "i"]
    assert "width:100.0%" in bars and "width:50.0%" in bars and "width:80.0%" in bars
    kinds = [a["class"] for t, a in page.tags if t == "rect"]
    assert {"good", "held", "eager", "call"} == set(kinds)
    for tag, a in page.tags:
        if tag == "rect":
            assert 0 <= float(a["x"]) <= 1000 and float(a["width"]) >= 0, a


def test_the_page_finds_the_reports_own_trace(shown, tmp_path):
    path = tracefiles.example(pid=77).write(tmp_path / "t")
    own = {"file": str(path), "bytes": 1, "lost": 0, "error": None}
    shown(second_format(trace_file=own), "--html", tmp_path / "p")
    assert "<svg" in (tmp_path / "p").read_text()
    shown(second_format(trace_file=own, pid=78), "--html", tmp_path / "p")
    assert "<svg" not in (tmp_path / "p").read_text(), "it is that of another process"


@pytest.mark.parametrize("data", [
    first_format(), first_format(ops={"total": 0, "replayed": 0, "eager": 0}),
    second_format(streams=[], trace_list=[], cuts=[], regions=[], callsites=[], trace_file=None)])
def test_pages_of_little(shown, tmp_path, data):
    shown(data, "--html", tmp_path / "p")
    Page((tmp_path / "p").read_text())


def test_names_cannot_become_markup(shown, tmp_path):
    evil = "<script>alert(1)</script>"
    data = second_format(program=evil)
    data["trace_list"][0]["kernels"][0]["name"] = data["cuts"][0]["function"] = evil
    data["callsites"][0]["frames"][0]["module"] = evil
    data["regions"][0]["name"] = evil
    data["options"] = {evil: evil}
    shown(data, "--html", tmp_path / "p")
    assert "<script" not in (tmp_path / "p").read_text()


def test_names_cannot_reach_the_terminal_as_commands(shown):
    evil = "\x1b[31m"

    def spoilt(data):
        if isinstance(data, dict):
            return {k: evil if isinstance(v, str) else spoilt(v) for k, v in data.items()}
        return list(map(spoilt, data)) if isinstance(data, list) else data
    data = spoilt(second_format(pid=evil, options={evil: evil}))
    out = shown({**data, "options": {evil: evil}}).stdout
    assert "?[31m" in out and "\x1b" not in out


def test_a_report_is_not_written_over(tmp_path):
    """As by `autograph report --html REPORT`, where the page's name is forgotten."""
    path = tmp_path / "autograph-report-0.json"
    path.write_text(json.dumps(second_format()))
    for page in (path.name, path):
        assert "would be written over" in message(
            autograph("report", "--html", page, cwd=tmp_path, status=2))
    assert json.loads(path.read_text()) == second_format()


def test_a_page_that_cannot_be_written(shown):
    assert "No such file" in message(shown(first_format(), "--html", "/no/such/p", status=2))


# -- top ----------------------------------------------------------------------------

@pytest.fixture
def live():
    """A process that sleeps, and a function that writes its file of counters."""
    process = subprocess.Popen(["sleep", "1000"])
    path = f"/dev/shm/autograph.{os.getuid()}.{process.pid}"

    def write(version=1, magic=b"AGLIVE\n\0", sequence=2, size=4096):
        counters = [5000, 4000, 100, 7, 1, 3, 2, 0, 4, 0, 0]
        data = struct.pack("<8sIIQQQQ11Q16Q64s256s", magic, version, process.pid, sequence, 0,
                           10**9, 3 * 10**9, *counters, 9, *[0] * 15, b"a region", b"/opt/solver")
        with open(path, "wb") as file:
            file.write((data + bytes(4096))[:size])
        return process.pid
    yield write
    process.kill()
    process.wait()
    if os.path.exists(path):
        os.unlink(path)


def test_top(live):
    pid = live()
    lines = autograph("top", "--once", pid).stdout.splitlines()
    assert lines[0] == f"/opt/solver (process {pid}), 2 s, 4 streams, in a region"
    assert lines[1].split() == ["ops", "5,000", "2,500/s"]
    assert lines[2].split() == ["replayed", "4,000", "2,000/s", "80.0", "%"]
    assert lines[-1].split() == ["side_exit", "9", "flushes"]


def test_top_ends_with_the_process(live):
    pid = live()
    command = [helpers.build_dir() / "autograph", "top", "--interval", "0.1", str(pid)]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          env=helpers.environment(preload=False)) as top:
        assert top.stdout.readline().startswith("/opt/solver")
        for line in iter(top.stdout.readline, "unread"):
            assert line, "the second look tells what came since the first"
            if "80.0 % in all, - now" in line:
                break
        os.unlink(f"/dev/shm/autograph.{os.getuid()}.{pid}")
        assert top.communicate(timeout=helpers.TIMEOUT)[0].endswith("The process has ended.\n")
    assert top.returncode == 0


def test_top_ends_with_a_process_that_is_killed(live):
    """Its file stays."""
    pid = live()
    command = [helpers.build_dir() / "autograph", "top", "--interval", "0.1", str(pid)]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          env=helpers.environment(preload=False)) as top:
        assert top.stdout.readline().startswith("/opt/solver")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        try:
            assert top.communicate(timeout=helpers.TIMEOUT)[0].endswith("The process has ended.\n")
        finally:
            top.kill()
    assert top.returncode == 0


@pytest.mark.parametrize("wrong,words", [
    ({"version": 2}, "has format 2"), ({"magic": b"something"[:8]}, "is not a file of counters"),
    ({"sequence": 3}, "changes all the time"), ({"size": 100}, "is cut off"), ({"size": 0}, "is not a file")])
def test_files_that_are_no_counters(live, wrong, words):
    assert words in message(autograph("top", "--once", live(**wrong), status=2))


def test_counters_that_somebody_else_made(live, tmp_path):
    """Anybody may make links in /dev/shm, also between a look and the next."""
    pid = live()
    path = f"/dev/shm/autograph.{os.getuid()}.{pid}"
    shutil.move(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)
    assert "symbolic links" in message(autograph("top", "--once", pid, status=2))
    os.unlink(path)
    os.mkfifo(path)
    assert "is not of the process's user" in message(autograph("top", "--once", pid, status=2))


def test_top_without_counters():
    assert "--set report.live=true" in message(autograph("top", os.getpid(), status=2))
    assert "there is no process" in message(autograph("top", 2**22 + 5, status=2))
    assert "'x' is not a number" in message(autograph("top", "x", status=2))
    message(autograph("top", status=2))


def test_top_of_a_program():
    """Whose counters grow while it runs."""
    program = [helpers.build_dir() / "autograph", "--set", "report.live=true",
               helpers.sample("constant-sim"), "--iterations", "100000000"]
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime(),
                                                  "AGSIM_DELAY_US": "0"})
    with subprocess.Popen(list(map(str, program)), env=env, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + helpers.TIMEOUT
            counts = []
            # A stream whose thread waits for the device shows what it had before.
            while len(counts) < 2 or counts[0] == counts[-1]:
                assert time.monotonic() < deadline
                done = autograph("top", "--once", process.pid, status=None, env=commands.WIDE)
                if done.returncode == 0:
                    lines = done.stdout.splitlines()
                    assert lines[0].startswith(f"{program[3]} (process {process.pid}), ")
                    counts += [int(lines[1].split()[1].replace(",", ""))]
                    if counts == [0]:
                        counts = []
                time.sleep(0.3)
            assert counts == sorted(counts)
        finally:
            process.kill()
    if os.path.exists(f"/dev/shm/autograph.{os.getuid()}.{process.pid}"):
        os.unlink(f"/dev/shm/autograph.{os.getuid()}.{process.pid}")
