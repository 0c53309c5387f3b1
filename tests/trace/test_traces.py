# SPDX-License-Identifier: MIT
"""The trace of every sample and test program: compared between runs with and without graphs. Where time decides what
the program does, each trace is compared with itself."""
import re

import pytest

import compiled
import helpers
import test_between
import test_irregular
from commands import autograph

SAMPLES = helpers.build_dir() / "tests/samples"
LOOP = ["--iterations", "60", "--warmup", "2", "--kernels", "8", "--size", "24"]
# Enough iterations for read-backs: each is one of the last ops of a graph.
SAMPLE_OPTIONS = {"jacobi": ["--iterations", "2000", "--warmup", "1", "--kernels", "4", "--size", "40"]}

# What programs without a table of scenarios are given; those that are not here get nothing.
ARGUMENTS = {
    "between": [[word, "1"] for word in test_between.QUESTIONS + test_between.CALLS],
    "blocking": [["read"], ["priorities"]],
    "early_kernels": [["kernel"], ["copy"], ["event"]],
    "foreign_copies": [["4", "60"]],
    "initial": [["none"]],
    "irregular": [[word, "1", "200"] for word in test_irregular.FLOORS],
    "live_shared": [["40", "20"]],
    "live_slow": [["40", "20"]],
    "live_soak": [["20000"]],
    "long_loop": [["20", "100"]],
    "fork_random": [["1", "6"]],
    "newer": [["modes"], ["functions"]],
    "own_graph": [["200"]],
    "peer_copies": [[], ["one"]],
    "peer_order": [["upload"]],
    "short_streams": [["100"]],
    "small_stack": [["copies"], ["uploads"], ["reads"], ["pinned"], ["events"], ["turns"], ["per_thread"], ["tasks"]],
    "shared_queues": [["sets", "4", "100"]],
    "trace_phases": [["4", "2", "64", "60"]],
    "two_loops": [["60", "60"]],
    "wide_forks": [["4", "2"]],
    "trace_rests": [["400"]],
    "duel_copies": [["200"]],
    "variant_sets": [["3", "200"]],
}
MORE = {"live_spin": ["120"], "step_streams": ["60"], "step_streams-many": ["2"]}  # behind the scenario

# Programs and scenarios that are not run here, and why.
LEFT_OUT = {
    "door_deep": "wants libraries", "door_lookup": "has a driver of its own", "door_several": "has a driver of its own",
    "door_threads": "has a driver of its own", "hooked": "patches functions", "pointers": "wants libraries",
    "live_sandbox": "may not write a file", "observe_closes": "is traced by its own test",
    "observe_constructor": "wants a library",
    "observe_ends": "looks for a descriptor that the trace file has",
    "observe_launcher": "only starts others", "observe_live": "goes on until its input ends",
    "observe_signal": "launches nothing", "observe_reasons-reports": "sends itself a signal that ends it without a report",
    "fault_loops-relay_lost": "waits for what fails",
    **dict.fromkeys(("live_spin-poll_both", "live_spin-poll_event", "live_spin-poll_stream", "uploads-never_idle"),
                    "polls: a slow machine fills the file"),
    **dict.fromkeys(("own_clock", "report_clock-goes_back", "report_clock-changes"),
                    "has no clock by which records come in order"),
    "live_life-leaves_at_once": "writes no trace",
    **dict.fromkeys(("sim_basic", "sim_graph", "sim_order", "sim_rules", "sim_threads"), "is for the driver alone"),
}
# Those of whose processes some, or all, launch nothing that is an op; nothing is to be compared there.
WITHOUT_OPS = {"graph_branches-orders", "graph_branches-across", "graph_branches-apart", "graph_branches-ordered",
               "limits-registers", "limits-attributes", "report_life-look_ups", "report_life-child_exits"}
# Scenarios whose ops are not the same in two runs without the library, since time decides: not verified.
UNSTEADY = {f"live_beside-{word}_beside" for word in ("released", "lost", "streams")} | {
    f"live_life-{word}" for word in ("signals", "captures", "leaves_others_behind")} | {
    "report_graph-captures_beside", "report_life-unload_beside", "report_callbacks-allocator",
    "read_back-fails", "read_back-pinned_fails", "live_clock-captured", "live_order-failing"}


def sources():
    """{name of a test program: its source}."""
    found = {path.stem: path.read_text() for path in compiled.PROGRAMS.glob("*.c")}
    return {name: text for name, text in found.items() if re.search(r"^int main\(", text, re.M)}


def cases():
    """(name, program, arguments) of all that is run."""
    for path in sorted(SAMPLES.glob("**/*-sim")):
        name = path.name.removesuffix("-sim")
        options = [] if path.parent.name == "reports" else SAMPLE_OPTIONS.get(name, LOOP)
        yield f"{path.parent.name}-{name}", path, options
    for name, text in sorted(sources().items()):
        found = [[word, *MORE.get(f"{name}-{word}", MORE.get(name, []))] for word in re.findall(r'\{"(\w+)", \w+(?:, \w+)?\}', text)]
        for arguments in ARGUMENTS.get(name) or found or [[]]:
            yield "-".join([name, *arguments[:1]]), name, arguments


CASES = {case[0]: case[1:] for case in cases() if case[1] not in LEFT_OUT and case[0] not in LEFT_OUT}


def own_trace(command, env, tmp_path):
    """Each process's trace is compared with itself. Whether some have no ops."""
    autograph(f"--trace={tmp_path}/%p", *command, env=env, status=None)
    traces, empty = list(tmp_path.iterdir()), False
    for path in traces:
        done = autograph("compare", path, path, status=None)
        assert "The same work: " in done.stdout or "no operations" in done.stderr, (done.stdout, done.stderr)
        empty |= "no operations" in done.stderr
    assert traces
    return empty


@pytest.mark.parametrize("name", CASES)
def test_without_graphs_the_work_is_the_same(name, tmp_path):
    program, arguments = CASES[name]
    command = [program if program not in sources() else compiled.program(program),
               *arguments]
    env = {**helpers.HASTY, **helpers.NO_LEAK_CHECK, "AGSIM_DEVICES": 3, "AGSIM_IPC": 1, "AGSIM_SETTERS_PASS": 1,
           "AUTOGRAPH_TRACE_BUFFER_KB": 65536,
           "REPORT_PLUGIN": compiled.program("report_plugin.so", "-shared", source="report_plugin"),
           "LIVE_PLUGIN": compiled.program("live_plugin.so", "-shared", source="live_plugin")}
    if name in UNSTEADY or name in WITHOUT_OPS:
        assert own_trace(command, env, tmp_path) == (name in WITHOUT_OPS)
        return
    done = autograph("verify", "--traces", "--filter", "(?s).*", "--", *command, env=env, status=None)
    told = set(re.findall(r"^(\w.*) work in the traces: ", done.stdout, re.M))
    assert told == {"The same"} and "nothing can be said" not in done.stdout + done.stderr, (done.stdout, done.stderr)
