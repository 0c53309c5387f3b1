# SPDX-License-Identifier: MIT
"""Why ops are eager: each reason of src/observe/reasons.def is reached, and all tell the same."""
import collections

import pytest

import compiled
import helpers
from helpers import reasons
from trace_records import RETURN, Trace

LOOP = [helpers.sample("constant-sim"), "--iterations", "50", "--warmup", "2", "--kernels", "8"]


def adds_up(data):
    """The reasons of a run that is over: {word: ops}. Each eager op has one, and no op has two."""
    assert sum(data["eager_ops"].values()) == data["ops"]["eager"] == data["ops"]["total"] - data["ops"]["replayed"]
    by_word = {}
    for cut in data["cuts"]:
        by_word[cut["why"] or cut["reason"]] = by_word.get(cut["why"] or cut["reason"], 0) + cut["ops"]
    assert all(ops <= data["eager_ops"][word] for word, ops in by_word.items()), by_word
    return {word: ops for word, ops in data["eager_ops"].items() if ops}


def is_over(data):
    return data["eager_ops"]["pending"] == 0 and data["partial"] is False


# -- Each reason ------------------------------------------------------------------

OWN = {"AGSIM_CALLER": helpers.own_calls}  # faults of the library's calls alone
ANY = "any"  # whoever is to blame


class Case(collections.namedtuple("Case", "word command function least env")):
    """A program for which so many ops at least are eager for that reason, by that function's fault (None: nobody's).
    A command of one word is a scenario of observe_reasons.c."""

    def run(self, cwd=None, **env):
        command = self.command.split()
        if len(command) == 1:
            program = compiled.program("observe_reasons")
        elif command[0].endswith("-sim"):
            program = helpers.sample(command.pop(0))
        else:
            program = compiled.program(command.pop(0))
        mine = {name: value() if callable(value) else value for name, value in self.env.items()}
        return helpers.run_logged([program, *command], env={**helpers.HELD, **mine, **env}, cwd=cwd)


def case(word, command, function=ANY, least=5, **env):
    return Case(word, command, function, least, env)


def failing(calls):
    """All these calls of the library fail."""
    return {"AGSIM_FAIL": f"{calls}:*:701", **OWN}


ONE_QUEUE = {"CUDA_DEVICE_MAX_CONNECTIONS": 1}
SLOW_GRAPHS = {"AGSIM_GRAPH_LAUNCH_US": 3000, "AUTOGRAPH_TRACE_DUEL": "true", "AGSIM_DELAY_US": 0, **helpers.OWN_SHAPES}

CASES = [
    # Ops were held, and went out one by one.
    case("side_exit", "side_exits", None),
    case("stream_barrier", "host_function", "cuLaunchHostFunc"),
    case("host_wait", "waits", "cuStreamSynchronize"),
    case("barrier", "frees"),
    case("legacy_order", "legacy", None),
    case("watchdog", "looks", None, AUTOGRAPH_HOLD_BOUND_US=1000),
    case("event", "waited_for_elsewhere", "cuStreamWaitEvent", AUTOGRAPH_TRACE_FORKS="false"),
    case("capture", "captures", "cuStreamBeginCapture_v2"),
    case("destroy", "destroys", "cuStreamDestroy_v2"),
    case("attributes", "sets_attributes", "cuStreamSetAttribute", 3),
    case("exit", "ends", None, 3),
    case("request", "flushes", "autograph_flush"),
    case("shared_queue", "turns_to_another_stream", None, **ONE_QUEUE),
    case("sequence_end", "fork_random 1955 1", CUDA_DEVICE_MAX_CONNECTIONS=7, AGSIM_DELAY_US=0),
    # No graph has them.
    case("pending", "reports", least=3, AUTOGRAPH_REPORT_SIGNAL="true"),
    case("not_repeated", "kernels_alone", AUTOGRAPH_TRACE_HOT=100),
    case("first_rounds", "kernels_alone"),
    case("short", "kernels_alone", AUTOGRAPH_TRACE_MIN_LENGTH=8),
    case("no_room", "kernels_alone", AUTOGRAPH_GRAPH_EXECS=0),
    case("graph_waits", "trace_phases 2 8 64 300 busy", AUTOGRAPH_GRAPH_FREE_EXECS=2),
    case("many_copies", "foreign_copies 0 20"),
    case("many_branches", "fork_random 1955 1", CUDA_DEVICE_MAX_CONNECTIONS=7, AGSIM_DELAY_US=0),
    case("unjoined", "fork_shapes endless"),
    case("graph_refused", "kernels_alone", **failing("cuGraphInstantiateWithFlags")),
    case("behind_flush", "looks", AUTOGRAPH_HOLD_BOUND_US=1000),
    case("graph_delayed", "before_a_capture"),
    # The library looks away, or tries.
    case("trials", "two_loops 2000 0", **SLOW_GRAPHS),
    case("unwatched", "two_loops 2000 0", **SLOW_GRAPHS),
    case("unfollowed", "live_untracked copies", AUTOGRAPH_TRACE_YOUNG=16),
    case("not_looked_at", "large_upload"),
    # Nothing may be held.
    case("paused", "while_paused", "autograph_pause"),
    case("banned", "beside_a_capture"),
    case("barred", "sets_attributes"),
    case("other_context", "strange_context", "cuMemsetD32Async"),
    case("green_context", "green_context", "cuMemsetD32Async"),
    case("no_relay", "per_thread", **ONE_QUEUE),
    # The call itself.
    case("unknown_function", "kernels_alone", "cuLaunchKernel", **failing("cuFuncGetParamInfo")),
    case("launch_attributes", "many_attributes", "cuLaunchKernel"),
    case("function_settings", "more_than_the_limit", "cuLaunchKernel"),
    case("hidden_arguments", "half_a_buffer", "cuLaunchKernel"),
    case("empty", "nothing_to_set", "cuMemsetD32Async"),
    case("empty", "nothing_to_copy", "cuMemcpyDtoDAsync_v2"),
    case("refusable", "odd_pitch", "cuMemcpy2DAsync_v2"),
    case("refused", "refused memset32", least=3),
    case("new_shape", "other_block", least=1),
    case("host_waits", "managed_memset", "cuMemsetD32_v2"),
    case("host_waits", "blocking_copy", "cuMemcpy"),
    case("to_host", "rows_to_host", "cuMemcpy2DAsync_v2"),
    case("array", "mipmap", "cuMemcpy3DAsync_v2"),
    case("other_memory", "managed_copy", "cuMemcpyDtoDAsync_v2"),
    case("other_memory", "managed_word", "cuStreamWriteValue32_v2"),
    case("pageable", "large_upload", "cuMemcpyHtoDAsync_v2"),
    case("pageable", "upload_of_rows", "cuMemcpy2DAsync_v2"),
    case("no_staging", "small_upload", "cuMemcpyHtoDAsync_v2", **failing("cuMemHostAlloc")),
    case("new_event", "new_event", "cuEventRecord"),
    case("other_event", "wait_for_other_context", "cuStreamWaitEvent"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.word}-{case.command.replace(' ', '-')}")
def test_an_op_that_is_not_held_has_a_reason(case):
    data = case.run().report
    assert adds_up(data).get(case.word, 0) >= case.least, adds_up(data)
    assert is_over(data) or case.word == "pending"
    blamed = {cut["function"]: cut["ops"] for cut in data["cuts"] if (cut["why"] or cut["reason"]) == case.word}
    assert case.function == ANY or blamed.get(case.function, 0) >= case.least, data["cuts"]


# Nothing is held when an eager op fails. So this reason only ends sequences.
NO_OPS = {"failure"}


def test_each_reason_has_a_case():
    """And no word is in both tables."""
    words = [*reasons("REASON"), *reasons("WHY")]
    assert len(words) == len(set(words)) > 50 and {c.word for c in CASES} == set(words) - NO_OPS


def test_an_op_that_fails_ends_its_sequence():
    data = case("", "too_many_threads", AUTOGRAPH_TRACE_MIN_LENGTH=8).run().report
    assert any(cut["reason"] == "failure" and cut["calls"] >= 5 for cut in data["cuts"]), data["cuts"]


@pytest.mark.parametrize("command", [["constant-sim"], ["jacobi-sim"], ["events-sim", "--iterations", "200"]],
                         ids=lambda c: c[0])
@pytest.mark.parametrize("env", [{}, helpers.HELD, {"AUTOGRAPH_GRAPH_EXECS": "1"}, {"AUTOGRAPH_TRACE_FORKS": "false"},
                                 {"AUTOGRAPH_HOLD_BOUND_US": "1"}], ids=["usual", "held", "one", "apart", "late"])
def test_the_reasons_of_all_eager_ops_add_up(command, env):
    name, *options = command
    data = helpers.run_logged([helpers.sample(name), *options], env=env).report
    assert adds_up(data) and is_over(data)


def test_the_first_rounds_of_a_loop_are_nobody_s_fault():
    """Each round ends with a read, and graphs are made of rounds that have come before."""
    data = helpers.run_logged([helpers.sample("jacobi-sim")], env=helpers.HELD).report
    read, = (c for c in data["cuts"] if c["function"] == "cuMemcpyDtoHAsync_v2")
    assert read["calls"] > 0 and sum(c["ops"] for c in data["cuts"]) < data["eager_ops"]["first_rounds"]
    assert adds_up(data).get("not_repeated", 0) < 0.1 * data["ops"]["eager"]
    assert data["eager_ops"]["trials"] == data["eager_ops"]["unwatched"] == 0


def test_what_never_comes_again_is_nobody_s_fault():
    """There is no graph, so no round was the first of a loop, and no call is to blame."""
    data = helpers.run_logged(LOOP, env={"AUTOGRAPH_GRAPH_EXECS": "0"}).report
    assert adds_up(data) == {"no_room": 416, "not_repeated": 8} and data["ops"]["replayed"] == 0
    assert not any(cut["ops"] for cut in data["cuts"])


# -- Whoever looks ---------------------------------------------------------------

OBSERVERS = {"trace": {"AUTOGRAPH_TRACE_FILE": "t"}, "live": {"AUTOGRAPH_REPORT_LIVE": "true"},
             "ranges": {"AUTOGRAPH_REPORT_NVTX": "true"}, "callsites": {"AUTOGRAPH_REPORT_CALLSITES": 1},
             "profile": {"AUTOGRAPH_TRACE_PROFILE": "p"}}
# The watchdog goes by the machine's time, and so does what of a graph with branches has run.
BY_TIME = {"looks", "reports", "fork_random", "fork_shapes"}
# With a trace file no streams become one graph (docs/semantics.md), and none is young (untracked.h).
NOT_TRACED = {"live_untracked"}
LONGER = [case("", "two_loops 4000 2000", **SLOW_GRAPHS), case("", "foreign_copies 300 20"), case("", "trace_rests 20000"),
          case("", "trace_rests 20000 10 15", AGSIM_LAUNCH_US=3, AUTOGRAPH_TRACE_DUEL="true"),
          case("", "irregular two_holes 1 400"), case("", "irregular hole 0 400")]
LOOKED_AT = {(c.command, str(c.env)): c for c in [*CASES, *LONGER] if c.command.split()[0] not in BY_TIME}.values()


def counts(report):
    return {key: report[key] for key in ("ops", "eager_ops", "flushes", "replays", "duels", "duels_lost")}


@pytest.mark.parametrize("case", LOOKED_AT, ids=lambda case: case.command.replace(" ", "-"))
def test_whoever_looks_reasons_and_counts_are_the_same(case, tmp_path):
    """All with one observer each but for the trace file, which makes ops go by other ways."""
    traced = case.command.split()[0] not in NOT_TRACED
    plain = counts(case.run().report)
    for some in ({"trace"} & set(OBSERVERS if traced else ()), set(OBSERVERS) - {"trace"}):
        env = {name: value for observer in some for name, value in OBSERVERS[observer].items()}
        assert counts(case.run(cwd=tmp_path, **env).report) == plain, some


# What the call of an op cannot tell: only the end of its sequence says why there was no graph.
AT_THE_END = {"not_repeated", "first_rounds", "short", "no_room", "graph_waits", "many_copies", "many_branches",
              "unjoined", "graph_refused", "graph_delayed"}


def by_end(eager):
    """{word: ops}, those that the end of a sequence tells of together."""
    ops = collections.Counter()
    for word, n in eager.items():
        ops["at the end" if word in AT_THE_END else word] += n
    return +ops


@pytest.mark.parametrize("case", [c for c in LOOKED_AT if c.command.split()[0] not in NOT_TRACED],
                         ids=lambda case: case.command.replace(" ", "-"))
def test_the_trace_file_has_the_reasons_of_the_report(case, tmp_path):
    report = case.run(AUTOGRAPH_TRACE_FILE=tmp_path / "t").report
    trace = Trace(tmp_path / "t")
    held = {(stream, last - i) for stream, _, last, n, *_ in trace.submits for i in range(n)}
    words, told = [*reasons("WHY")], collections.Counter()
    for record in trace.of(RETURN):
        if (record.id, int.from_bytes(record.body[:8], "little")) not in held:
            told[words[record.sub]] += 1
    for _, reason, _, n, replayed, *_ in trace.submits:
        told[[*reasons("REASON")][reason]] += n - replayed
    assert by_end(told) == by_end(report["eager_ops"])
