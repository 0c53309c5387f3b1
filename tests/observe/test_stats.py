# SPDX-License-Identifier: MIT
"""report.stats: six lines when a process ends."""
import json
import re
import signal

import pytest

import commands
import compiled
import helpers
import test_watch

STATS = {**helpers.HELD, "AUTOGRAPH_STATS": "1"}
NAMES = ["operations", "launches", "time saved", "most in the way", "memory of graphs", "report"]
SENTENCES = {**helpers.reasons("REASON"), **helpers.reasons("WHY")}


def parts(stderr):
    """[(process, name, text)] of the lines."""
    return [re.fullmatch(r"libautograph\[(\d+)\]: ([^:]+): (.*)", line).groups() for line in stderr.splitlines()]


def stats(*arguments, env=None):
    """{name: text} of a process's lines, which are six or none."""
    done = helpers.run([compiled.program("observe_verbose"), *arguments], env={**STATS, **(env or {})})
    found = parts(done.stderr)
    assert [name for _, name, _ in found] in (NAMES, []) and len({number for number, _, _ in found}) < 2
    return {name: text for _, name, text in found}


@pytest.mark.parametrize("how", ["work", "exit", "signal"])
def test_the_lines_are_those_of_the_report(tmp_path, how):
    """However the program comes to its end: main returns, it calls exit, or the handler of a signal does."""
    lines, data = stats(how, env={"AUTOGRAPH_REPORT": tmp_path / "r"}), json.loads((tmp_path / "r").read_text())
    ops, most = data["ops"], max(data["eager_ops"].values())
    share = commands.module("common").share(ops["replayed"], ops["total"])
    assert ops["total"] == 300 and 150 < ops["replayed"] < 300
    assert lines == {
        "operations": f"{share} of 300 went out in graphs",
        "launches": f"{data['replays']} of graphs, {ops['eager']} of single operations",
        "time saved": f"not known: {data['saved_unknown']}",
        "most in the way": lines["most in the way"],
        "memory of graphs": f"{data['graph_memory_kb'] / 1024:.1f} MiB of the device at most, by an estimate",
        "report": str(tmp_path / "r")}
    assert lines["most in the way"] in {f"{SENTENCES[word]} (operations: {most})"
                                        for word, n in data["eager_ops"].items() if n == most}


def test_they_need_no_report(tmp_path):
    with_report = stats(env={"AUTOGRAPH_REPORT": tmp_path / "r"})
    assert stats() == {**with_report, "report": "none; autograph --report ./app writes one"}


@pytest.mark.parametrize("env", [{"AUTOGRAPH_STATS": None}, {"AUTOGRAPH_STATS": "0"}, {"AUTOGRAPH_DISABLE": "1"},
                                 {"AUTOGRAPH_GENERAL_ENABLE": "no"}])
def test_no_line(env):
    assert stats(env=env) == {}


def test_what_makes_no_context_is_silent():
    assert stats("devices") == {}
    assert helpers.run(["sh", "-c", "ls / >/dev/null; true"], env=STATS).stderr == ""


@pytest.mark.parametrize("way", ["_exit", "quick_exit", "closed"])
def test_ends_that_no_handler_sees(way):
    assert stats(way) == {}


@pytest.mark.parametrize("scenario, processes", [("child_before", 2), ("child_after", 1)])
def test_children(scenario, processes):
    """A child that was forked from a process with CUDA is none of its own; before, it is one."""
    done = helpers.run([compiled.program("observe_verbose"), scenario], env={**STATS, **helpers.NO_LEAK_CHECK})
    assert [name for _, name, _ in parts(done.stderr)] == NAMES * processes


@pytest.mark.parametrize("scenario, env, why", [
    ("work", {"AUTOGRAPH_GRAPH_EXECS": "0"}, "graph.execs is 0"),
    ("work", {"AGSIM_FAIL": "cuGraphCreate:*:2"}, "calls of the library into the driver failed"),
    ("work", {"AUTOGRAPH_TRACE_HOT": "1000"}, f"{SENTENCES['not_repeated']} (operations: 300)"),
    ("idle", {}, "the program launched nothing itself")])
def test_without_a_graph(scenario, env, why):
    lines = stats(scenario, env=env)
    assert lines["most in the way"] == why and lines["launches"].startswith("0 of graphs")
    assert lines["time saved"] == "not known: nothing went out in graphs"


def test_where_nothing_is_watched_the_reason_stands_alone():
    done = helpers.run([compiled.program("observe_verbose")], env={**STATS, "CUDA_LAUNCH_BLOCKING": "1"})
    assert [line[1:] for line in parts(done.stderr)] == [
        ("nothing is held", "CUDA_LAUNCH_BLOCKING is set: a launch is to return when its kernel has ended")]


@pytest.mark.parametrize("numbers, lines", [
    ({}, {"operations": "90.0 % of 1000 went out in graphs", "launches": "15 of graphs, 100 of single operations",
          "time saved": "1.8 ms, from 1.7 to 1.9 ms", "memory of graphs": "2.0 MiB of the device at most, by an estimate",
          "most in the way": f"{SENTENCES['not_repeated']} (operations: 60)"}),
    ({"novel": 39}, {"most in the way": f"{SENTENCES['host_wait']} (operations: 40)"}),
    ({"ops": 9999, "replayed": 9998}, {"operations": "99.9 % of 9999 went out in graphs"}),
    ({"replayed": 1000}, {"operations": "100.0 % of 1000 went out in graphs"}),
    ({"partial": 1}, {"operations": "90.0 % of 1000 went out in graphs, but a stream is missing that was in use"})])
def test_known_numbers(numbers, lines):
    done = helpers.run([helpers.build_dir() / "tests/unit/probe", "end", *(f"{k}={v}" for k, v in numbers.items())],
                       preload=False, sim=False, env={"AUTOGRAPH_STATS": "1"})
    found = {name: text for _, name, text in parts(done.stderr)}
    assert list(found) == NAMES and lines.items() <= found.items()


def test_a_report_that_cannot_be_written(tmp_path):
    done = helpers.run([compiled.program("observe_verbose")], env={**STATS, "AUTOGRAPH_REPORT": tmp_path / "no/r"})
    assert "cannot be written" in done.stderr and parts(done.stderr)[-1][1:] == ("report", "none was written")


def test_the_command(tmp_path):
    """It says once where the report is, and what the lines replace is not printed as well."""
    done = commands.autograph("--stats", "-v", f"--report={tmp_path}/r", *commands.LOOP)
    found = parts("\n".join(done.stderr.splitlines()[-6:]))
    assert [name for _, name, _ in found] == NAMES and found[-1][2] == f"{tmp_path}/r"
    assert done.stderr.count("graph launches") == 0 and "shows it" not in done.stderr
    assert "there will be no statistics" in commands.autograph("--stats", "--disable", *commands.LOOP).stderr


def test_a_signal_asks_for_them():
    """As often as it comes: no bound on messages counts."""
    asks = {"AUTOGRAPH_STATS": "1", "AUTOGRAPH_REPORT_SIGNAL": "true", "AUTOGRAPH_REPORT_LIVE": "true"}
    with test_watch.running(asks) as process:
        test_watch.wait_for(lambda: test_watch.is_live(process.pid), "it does not run")
        found = []
        for _ in range(4):
            process.send_signal(signal.SIGUSR2)
            found += [process.stderr.readline() for _ in NAMES]
        found += test_watch.ends(process)[1].splitlines(True)
    assert [name for _, name, _ in parts("".join(found))] == 5 * NAMES
