# SPDX-License-Identifier: MIT
"""log.verbose: one line at the first graph of a process, and one at its end."""
import re

import pytest

import compiled
import helpers

VERBOSE = {**helpers.HELD, "AUTOGRAPH_VERBOSE": "1"}
FIRST = re.compile(r"version \S+ is at work: the first graph, of \d+ ops, is made")
END = re.compile(r"(\d+\.\d) % of 300 ops were replayed, in \d+ graph launches; time saved: "
                 r"not known: the driver is the simulated one, whose times say nothing about a GPU")


def lines(*command, env=None, **options):
    """(process, message) of each line on standard error."""
    done = helpers.run(command, env={**VERBOSE, **(env or {})}, **options)
    found = [re.fullmatch(r"libautograph\[(\d+)\]: (.*)", line) for line in done.stderr.splitlines()]
    assert None not in found, done.stderr
    return [match.groups() for match in found]


def program(*arguments, env=None):
    return lines(compiled.program("observe_verbose"), *arguments, env=env)


def test_two_lines():
    (first_pid, first), (end_pid, end) = program()
    assert FIRST.fullmatch(first) and first_pid == end_pid
    assert float(END.fullmatch(end).group(1)) > 50


@pytest.mark.parametrize("env", [{"AUTOGRAPH_VERBOSE": None}, {"AUTOGRAPH_VERBOSE": "0"},
                                 {"AUTOGRAPH_DISABLE": "1"}])
def test_no_line(env):
    assert program(env=env) == []


def test_the_option_says_so_too():
    assert len(program(env={"AUTOGRAPH_VERBOSE": None, "AUTOGRAPH_LOG_VERBOSE": "true"})) == 2


@pytest.mark.parametrize("scenario, env, why", [
    ("work", {"AUTOGRAPH_TRACE_HOT": "1000"}, "no graph was made: no sequence of its 300 ops came back often enough"),
    ("work", {"AUTOGRAPH_GRAPH_EXECS": "0"}, "no graph was made: graph.execs is 0"),
    ("idle", {}, "no graph was made: the program launched nothing itself"),
    ("work", {"AGSIM_FAIL": "cuGraphCreate:*:2"}, "no graph was made: calls of the library into the driver failed"),
    ("work", {"CUDA_LAUNCH_BLOCKING": "1"},
     "nothing is held: CUDA_LAUNCH_BLOCKING is set: a launch is to return when its kernel has ended"),
    ("work", {"AUTOGRAPH_GENERAL_ENABLE": "no"}, "nothing is held: general.enable is false")])
def test_why_there_is_no_graph(scenario, env, why):
    ((_, line),) = program(scenario, env=env)
    assert line == why


def test_what_makes_no_context_is_silent():
    assert program("devices") == []
    assert lines("sh", "-c", "ls / >/dev/null; true") == []


@pytest.mark.parametrize("scenario", ["child_before", "child_after"])
def test_children(scenario):
    """A child that was forked from a process with CUDA is none of its own; before, it is one."""
    found = program(scenario, env=helpers.NO_LEAK_CHECK)
    numbers = [number for number, _ in found]
    if scenario == "child_after":
        assert len(found) == 2 and numbers[0] == numbers[1]
    else:
        assert len(found) == 4 and numbers[0] == numbers[1] != numbers[2] == numbers[3]


@pytest.mark.parametrize("way", ["_exit", "quick_exit", "closed"])
def test_ends_that_no_handler_sees(way):
    ((_, line),) = program(way)
    assert FIRST.fullmatch(line)


def test_nothing_is_written_to_a_file_of_the_program(tmp_path):
    """Which has the descriptor of the standard error that it closed."""
    assert program("file", tmp_path / "data") == []
    assert (tmp_path / "data").read_text() == "data"
    assert program("socket") == []


def test_numbers_that_are_not_known():
    """A process may end in a signal handler, within a call that has locks."""
    done = helpers.run([helpers.build_dir() / "tests/unit/probe", "end", "partial=1"], preload=False, sim=False,
                       env={"AUTOGRAPH_VERBOSE": "1"})
    assert done.stderr.endswith(": how much was replayed is not known: the process ended within a call\n")
