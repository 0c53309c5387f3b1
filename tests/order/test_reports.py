# SPDX-License-Identifier: MIT
"""What public reports say goes wrong with interposers, graphs and launch order: docs/reports.md names
them. Each has a small program, whose output is the same with the library as without it."""
import re

import pytest

import compiled
import helpers

DOCUMENT = helpers.SOURCE / "docs/reports.md"
SAMPLES = helpers.SOURCE / "tests/samples/reports"
# Programs, and what their environment needs.
PROGRAMS = {"report_order": {}, "report_graph": {}, "report_life": {},
            # The simulated driver's pauses go by the program's clock.
            "report_clock": {**helpers.HASTY, "AGSIM_DELAY_US": 0},
            "report_timed": helpers.HASTY, "report_fibers": {}, "report_callbacks": {}}
SCENARIOS = [(program, scenario) for program in PROGRAMS for scenario in
             re.findall(r'\{"(\w+)", \w+\}', (compiled.PROGRAMS / f"{program}.c").read_text())]
HELD = {"AUTOGRAPH_HOLD_BOUND_US": 20000, "AUTOGRAPH_TRACE_LENGTH": "fixed", "AUTOGRAPH_TRACE_UNROLL": 12}
# Nothing of these has to be replayed: they ask and do not launch, launch what is soon gone, or have a clock
# by which no graph pays.
UNREPEATED = {"look_ups", "unload_beside", "stands_still", "goes_back", "fails"}
# What executes is not the same in each run: allocations and the streams of the library's own are in
# the log, and so is what a thread launches until another one has finished.
OWN_LOG = {"interleaved", "substream", "orphan_memory", "captures_beside", "default_streams", "unload_beside", "no_context",
           "thread_locals", "constructor", "child_exits", "exit_calls", "allocator"}
STATUS = {"exit_calls": 7}
TRIES = 5  # on a busy machine a short loop may be over before the thread that makes graphs has made one


def options(scenario, **env):
    plugin = compiled.program("report_plugin.so", "-shared", source="report_plugin")
    return {"env": {"REPORT_PLUGIN": plugin, "AGSIM_DEVICES": 2, "AGSIM_GRAPH_FREE": 31,
                    **helpers.NO_LEAK_CHECK, **env},
            "status": STATUS.get(scenario, 0)}


@pytest.mark.parametrize("program, scenario", SCENARIOS)
def test_report(program, scenario):
    if program == "report_fibers" and helpers.config()["sanitize"]:
        pytest.skip("a sanitizer needs more stack")
    command = [compiled.program(program), scenario]
    plain = helpers.run_logged(command, preload=False, **options(scenario, **PROGRAMS[program]))
    assert plain.stdout != "" and plain.stderr == ""
    for settings in ({}, HELD):
        replays, tries = 0, 0
        while tries == 0 or (replays == 0 and scenario not in UNREPEATED and tries < TRIES):
            done = helpers.run_logged(command, **options(scenario, **PROGRAMS[program] | settings))
            assert (done.stdout, done.stderr) == (plain.stdout, "")
            if scenario not in OWN_LOG:
                assert done.log == plain.log
            assert done.report["errors"] == 0
            replays, tries = done.report["replays"], tries + 1
        assert replays > 0 or scenario in UNREPEATED


@pytest.mark.parametrize("sample", ["last_error", "loader", "callbacks"])
def test_report_of_the_runtime(sample):
    command = [helpers.sample(f"reports/{sample}-sim")]
    plain = helpers.run_logged(command, preload=False, **options(sample))
    done = helpers.run_logged(command, **options(sample))
    assert (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0 and done.report["replays"] > 0


def sanitizer_of(program):
    """The sanitizer's library that the program needs, a list; empty where the compiler puts it into the program."""
    names = re.findall(r"NEEDED.*\[(libasan\.\S+)\]", helpers.tool("readelf", "-d", program))
    return [helpers.tool(*helpers.config()["cc"].split(), f"-print-file-name={name}").strip() for name in names]


@helpers.unsanitized
def test_report_of_a_sanitized_program():
    """Such a program starts only if the sanitizer's library comes first."""
    program = compiled.program("report_order_sanitized", "-fsanitize=address", source="report_order")
    command, first = [program, "fan_out"], sanitizer_of(program)
    order = ":".join([*first, str(helpers.library())])
    plain = helpers.run_logged(command, preload=False, **options("fan_out"))
    done = helpers.run_logged(command, own_clock=False, **options("fan_out", LD_PRELOAD=order))
    assert plain.stdout != "" and (done.stdout, done.stderr, done.log) == (plain.stdout, "", plain.log)
    assert done.report["errors"] == 0 and done.report["replays"] > 0
    if first:
        done = helpers.run(command, **options("fan_out") | {"status": 1})
        assert "does not come first" in done.stderr


def rows():
    """The programs that the document's table names, as its third column says."""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("| https://"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_document_names_each_program():
    named = {name for row in rows() for name in re.findall(r"`([\w ]+)`", row[2])}
    there = {" ".join(pair) for pair in SCENARIOS} | {path.stem for path in SAMPLES.glob("*.cu")}
    assert named == there


def test_each_report_has_an_address_of_its_own():
    addresses = [row[0] for row in rows()]
    assert len(addresses) == len(set(addresses)) >= 20
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", address)
               for address in addresses)
