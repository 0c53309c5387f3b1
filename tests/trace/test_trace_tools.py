# SPDX-License-Identifier: MIT
"""autograph trace and autograph compare, on trace files that are made by hand."""
import json
import re
import struct

import pytest

import compiled
import helpers
from commands import PLURAL_OF_ONE, WIDE, autograph, message, script
from helpers import reasons
from tracefiles import COPY, EVENT_RECORD, MEMSET, VALUE, WAIT, Writer, example, pointer


# -- trace --------------------------------------------------------------------

def text(path, *options, status=0):
    lines = autograph("trace", path, *options, status=status).stdout.splitlines()
    assert lines[0].startswith("# ") and lines[1].startswith("# ")
    return [re.split(r"\s+", line.strip(), maxsplit=1)[1] for line in lines if not line.startswith("# ")]


def test_text(tmp_path):
    lines = text(example().write(tmp_path / "t"))
    assert lines[:3] == ["alloc 0x7f0000000000, 4,096 bytes", "alloc 0x7f0000010000, 4,096 bytes",
                         "7        >> a region"]
    assert lines[3:8] == [
        "7      1 memset 4,096 bytes  [replayed, graph 1]",
        "7      1 mix<<<1,128>>>  [replayed, graph 1]",
        "7      1 absorb<<<1,128>>>  [replayed, graph 1]",
        "7      1 -- launch of graph 1: 3 operations, 1 patched",
        "7        == cuStreamSynchronize"]
    assert lines[-4:] == ["7      2 mix<<<1,128>>>  [eager]",
                          "7      2 absorb<<<1,128>>>  [held, then watchdog]",
                          "7      2 -- 1 operation one by one: watchdog", "7        << a region"]


NOT_REPEATED, TRIALS, PAGEABLE, NEWER = (*map([*reasons("WHY")].index, ["not_repeated", "trials", "pageable"]), 250)


def told(path):
    """The reasons that the text explains, {words: meaning}, and how each op was submitted."""
    lines = autograph("trace", path).stdout.splitlines()
    return (dict(line[2:].split(": ", 1) for line in lines[1:] if re.match(r"# [\w ]+: ", line)),
            [line.partition("  [")[2][:-1] for line in lines if line.endswith("]")])


def test_why_ops_were_eager(tmp_path):
    """A sentence for each reason stands once, above all."""
    w = Writer().function(1, "k").stream(1)
    for why in (NOT_REPEATED, TRIALS, PAGEABLE, NEWER, 0):
        w.kernel(1, why=why)
    w.kernel(1, why=TRIALS, result=719).kernel(1, took=None).submit(1, 0, reason=2).end()
    assert told(w.write(tmp_path / "t")) == (
        {words: reasons(kind)[words.replace(" ", "_")] for kind, words in
         [("WHY", "not repeated"), ("WHY", "pageable"), ("WHY", "trials"), ("REASON", "host wait")]},
        ["eager, not repeated", "eager, trials", "eager, pageable", "eager, unknown 250", "eager",
         "eager, trials, failed with 719", "held, then host wait"])


def test_why_ops_of_streams_that_are_not_followed_were_eager(tmp_path):
    """They have no numbers. Another thread's op is not meant."""
    w = Writer().function(1, "k")
    w.kernel(1, stream=0, why=PAGEABLE, took=2000).kernel(1, stream=0, took=None, thread=8)
    w.record(6, TRIALS, 0, struct.pack("<QQ", 0, 0), 7).end()
    assert told(w.write(tmp_path / "t"))[1] == ["eager, pageable", "eager"]


def test_text_of_one_stream(tmp_path):
    path = example().write(tmp_path / "t")
    assert len(text(path, "--stream", "2")) == 3
    assert "its streams are 1, 2" in message(autograph("trace", path, "--stream", "9", status=2))


def test_times_and_grids(tmp_path):
    w = Writer().function(1, "k").stream(1).kernel(1, grid=(7, 3, 1), took=2000, result=719).end()
    out = autograph("trace", w.write(tmp_path / "t")).stdout
    assert "       0.0030        7      1 k<<<7x3,128>>>  [eager, failed with 719]\n" in out


def test_a_trace_that_was_cut_off_is_read_to_there(tmp_path):
    """Wherever it was cut: one line, status 2, and what is there is shown."""
    data = example().data()
    whole = len(text(example().write(tmp_path / "t")))
    seen = set()
    for size in [*range(64, len(data), 97), len(data) - 1]:
        (tmp_path / "t").write_bytes(data[:size])
        done = autograph("trace", tmp_path / "t", status=2)
        assert "it is not complete" in message(done)
        seen.add(sum(not line.startswith("# ") for line in done.stdout.splitlines()))
    assert min(seen) == 0 and max(seen) == whole


@pytest.mark.parametrize("content,words", [
    (b"", "is not a trace file"), (b"some text", "is not a trace file"), (b"AGTRACE\n\1", "in its header"),
    (example(version=2).data(), "has format 2, this command reads format 1"),
    (example().data()[:64] + b"x" * 100, "is damaged at byte 64"),
    (Writer().record(5, size=8).data(), "a record of 8 bytes"),
    (Writer().record(5, size=16, body=b"").data(), "is damaged"),
    (Writer().record(2, body=struct.pack("<QII", 1, 1 << 30, 0)).data(), "is damaged"),
    (Writer().stream(1).kernel(1).submit((1 << 32) - 1, 0).data(), "4,294,967,295 operations submitted at once")])
def test_files_that_are_no_trace(tmp_path, content, words):
    (tmp_path / "t").write_bytes(content)
    for command in (["trace", tmp_path / "t"], ["trace", tmp_path / "t", "--chrome", tmp_path / "o"],
                    ["compare", tmp_path / "t", tmp_path / "t"]):
        assert words in message(autograph(*command, status=2))


def test_a_trace_that_memory_is_too_small_for(tmp_path):
    (tmp_path / "t").write_bytes(example().header + struct.pack("<IIIIQ", 0x4b434741, 0xfffffff8, 1, 0, 0))
    command = f"ulimit -v 1000000; exec {helpers.build_dir()}/autograph trace {tmp_path}/t"
    done = helpers.run(["sh", "-c", command], preload=False, status=2)
    assert message(done) == "there is not enough memory"


@pytest.mark.parametrize("arguments", [[], ["/no/such"], ["--chrome"], ["/"], ["a", "b"]])
def test_trace_cannot_work(arguments):
    message(autograph("trace", *arguments, status=2))


def test_a_place_that_cannot_be_written(tmp_path):
    path = example().write(tmp_path / "t")
    for place, words in (("/no/such/dir", "No such file"), ("/dev/full", "No space left")):
        done = autograph("trace", path, "--chrome", place, status=2)
        assert words in message(done)


def test_a_trace_is_not_written_over(tmp_path):
    path = example().write(tmp_path / "t")
    assert "stays as it is" in message(autograph("trace", path, "--chrome", path, status=2))
    assert path.read_bytes() == example().data()


def test_names_cannot_reach_the_terminal_as_commands(tmp_path):
    w = Writer().function(1, "k\x1b[31m").stream(1).kernel(1, took=1000).end()
    assert "\x1b" not in autograph("trace", w.write(tmp_path / "t")).stdout


# -- compare ----------------------------------------------------------------------

def compare(tmp_path, a, b, status):
    return autograph("compare", a.write(tmp_path / "a"), b.write(tmp_path / "b"), env=WIDE,
                     status=status).stdout


def test_the_same_work(tmp_path):
    """At other addresses, submitted in another way."""
    out = compare(tmp_path, example(), example(base=0x7e1200000000, replayed=False), 0)
    assert out.endswith("The same work: 26 operations in 2 streams.\n")
    rows = {re.split(r"\s{2,}", line)[0]: re.split(r"\s{2,}", line)[1:] for line in out.splitlines()}
    assert rows["operations"] == ["26", "26"] and rows["replayed"] == ["92.3 %", "0.0 %"]
    assert rows["CPU time in submissions"] == ["8.50 us", "80.0 us"]


def test_a_trace_from_a_pipe(tmp_path):
    path, program = example().write(tmp_path / "a.trace"), helpers.build_dir() / "autograph"
    done = helpers.run(["sh", "-c", f"cat {path} | {program} compare /dev/stdin {path}"], preload=False)
    assert done.stdout.endswith("The same work: 26 operations in 2 streams.\n")


def test_another_argument(tmp_path):
    out = compare(tmp_path, example(), example(last=10), 1)
    assert "stream 1 (non-blocking), operation 23 (A has 24 operations, B 24):\n" in out
    assert "    argument 4: 0x9 in A, 0xa in B\n" in out
    assert out.endswith("Different: 1 of 2 streams differs.\n")
    context = out.split("B 24):\n")[1].split("  A ")[0].splitlines()
    assert context == ["    absorb<<<1,128>>>", "    memset 4,096 bytes", "    mix<<<1,128>>>",
                       "    absorb<<<1,128>>>", "    memset 4,096 bytes"]


@pytest.mark.parametrize("wrong,words", [
    (lambda w: w.held(1).held(1).submit(1, 0), "operation 1 was never submitted"),
    (lambda w: w.held(1).submit(1, 0).submit(1, 0), "operation 1 was submitted twice"),
    (lambda w: w.held(1).held(2).submit(2, 2), "not those of graph 1"),
    (lambda w: w.held(1).submit(1, 1, trace=7), "not those of graph 7"),
    (lambda w: w.held(1).kernel(2).submit_late(1, 1), "operation 2 overtook those"),
    (lambda w: w.held(1).submit(1, 0).held(1).barrier(1), "operation 2 was never submitted"),
    (lambda w: w.held(1).held(1).submit_late(2, 1).submit_late(1, 1), "operation 2 was submitted twice, or"),
    (lambda w: w.held(1).skip().submit(1, 0), "operations are missing or double")])
def test_ops_that_were_not_submitted_as_they_came(tmp_path, wrong, words):
    class Wrong(Writer):
        def held(self, function):
            return self.kernel(function, took=None)

        def submit_late(self, last, held):
            return self.record(7, 0, 1, struct.pack("<QIIIIQ", last, held, 0, 0, 0, 10))

        def skip(self):
            self.sequences[1] += 1
            return self.held(1)

    w = Wrong().function(1, "a").function(2, "b").stream(1).definition(1, (0, 1), (0, 1))
    wrong(w).end()
    out = compare(tmp_path, w, w, 1)
    assert words in out
    assert out.endswith("Different: operations were not submitted as the program issued them.\n")


def test_a_process_that_ended_amid_a_call(tmp_path):
    """Another thread has called exit()."""
    w = Writer().function(1, "a").stream(1).kernel(1, took=None, thread=8).kernel(1).end()
    out = compare(tmp_path, w, w, 0)
    assert out.startswith(f"{tmp_path}/a: 1 call did not return\n")


def small(*add, base=0x7f0000000000):
    w = Writer().function(1, "_Z1aPv", (0, 8)).function(2, "_Z1bm", (0, 8)).function(
        3, "raw", known=0).stream(1).stream(2, 0).alloc(base, 256).alloc(base + 4096, 256).alloc(
        base + 8192, 512, kind=1)
    for name, *arguments in add:
        getattr(w, name)(*arguments)
    return w.end()


A, B = 0x7f0000000000, 0x7e0000000000


@pytest.mark.parametrize("left,right,words", [
    (("kernel", 1, pointer(A)), ("kernel", 1, pointer(B)), None),
    (("kernel", 1, pointer(A + 8)), ("kernel", 1, pointer(B + 16)),
     "argument 1: byte 8 of allocation 1 of 256 bytes in A, byte 16 of allocation 1 of 256 bytes in B"),
    (("kernel", 1, pointer(A)), ("kernel", 1, pointer(B + 4096)), "allocation 2 of 256 bytes in B"),
    (("kernel", 1, pointer(A)), ("kernel", 1, pointer(B + 8192)), "allocation 1 of 512 bytes in B"),
    (("kernel", 1, pointer(A + 256)), ("kernel", 1, pointer(B + 256)), None),  # past its end
    (("kernel", 1, pointer(0)), ("kernel", 1, pointer(B)), "argument 1: 0x0 in A"),
    (("kernel", 1, pointer(A)), ("kernel", 2, pointer(B)), "another op"),
    (("kernel", 2, pointer(5)), ("kernel", 2, pointer(6)), "argument 1: 0x5 in A, 0x6 in B"),
    (("kernel", 1, pointer(A), 1, (1, 1, 1)), ("kernel", 1, pointer(B), 1, (2, 1, 1)), "another grid"),
    (("kernel", 1, pointer(A), 1, (1, 1, 1), 900), ("kernel", 1, pointer(B), 1, (1, 1, 1), 900, 7, 719),
     "result 0 in A, 719 in B"),
    (("kernel", 3, b""), ("kernel", 3, b""), None),
    (("other", COPY, A, A + 8192, 64, 1, 1, 0, 0, 2, 1), ("other", COPY, B, B + 8192, 64, 1, 1, 0, 0, 2, 1),
     None),
    (("other", COPY, A, A + 8192, 64, 1, 1, 0, 0, 2, 1), ("other", COPY, B, B + 8200, 64, 1, 1, 0, 0, 2, 1),
     "argument 2: byte 0"),
    (("other", COPY, A, 0x1234560, 64, 1, 1, 0, 0, 2, 1), ("other", COPY, B, 0x6543210, 64, 1, 1, 0, 0, 2, 1),
     None),
    (("other", COPY, A, A, 64, 1, 1, 0, 0, 2, 2), ("other", COPY, B, B, 65, 1, 1, 0, 0, 2, 2),
     "argument 3: 0x40 in A, 0x41 in B"),
    (("other", VALUE, 1, A, 3, 0), ("other", VALUE, 1, B, 4, 0), "argument 3: 0x3 in A, 0x4 in B"),
])
def test_what_makes_a_difference(tmp_path, left, right, words):
    out = compare(tmp_path, small(left), small(right, base=B), 1 if words else 0)
    if words:
        assert words in out


def test_what_cannot_be_compared_is_said(tmp_path):
    out = compare(tmp_path, small(("kernel", 1, pointer(0x7fff00000000))),
                  small(("kernel", 1, pointer(0x7fee00000000)), base=B), 0)
    assert "1 argument could not be compared" in out


def test_kernels_that_the_driver_does_not_describe(tmp_path):
    """Where the driver does not tell of parameters, arguments are not in the trace, so that any may differ."""
    sample = helpers.sample("constant-sim")
    for name, version in (("old", 12030), ("older", 12000)):
        autograph(f"--trace={tmp_path / name}", sample, *SMALL, env={"AGSIM_DRIVER_VERSION": version})
        out = autograph("compare", tmp_path / name, tmp_path / name, env=WIDE).stdout
        assert re.match(r"[1-9][\d,]+ arguments could not be compared: .*does not describe\n", out)


def test_memory_that_is_used_again(tmp_path):
    """The third allocation of that size, wherever it lies."""
    def run(base, last):
        return small(("free", base), ("alloc", base + last, 256), ("kernel", 1, pointer(base + last)),
                     base=base)
    compare(tmp_path, run(A, 0), run(B, 0x9000), 0)
    out = compare(tmp_path, run(A, 0), small(("kernel", 1, pointer(B)), base=B), 1)
    assert "allocation 3 of 256 bytes in A, byte 0 of allocation 1" in out
    # The same address twice, with a new allocation there in between.
    again = [("kernel", 1, pointer(A)), ("free", A), ("alloc", A, 256), ("kernel", 1, pointer(A))]
    out = compare(tmp_path, small(*again), small(again[0], again[0]), 1)
    assert "operation 2 (A has 2 operations, B 2):" in out


def test_events_are_what_was_recorded_in_them(tmp_path):
    def run(first, second, waits_for):
        return small(("kernel", 1, pointer(A)), ("other", EVENT_RECORD, first),
                     ("kernel", 1, pointer(A)), ("other", EVENT_RECORD, second),
                     ("kernel", 1, pointer(A), 2), ("op", WAIT, 0, b"", pointer(waits_for), 2, 900, 7))
    compare(tmp_path, run(0x10, 0x20, 0x20), run(0x88, 0x66, 0x66), 0)
    out = compare(tmp_path, run(0x10, 0x20, 0x20), run(0x10, 0x20, 0x10), 1)
    assert "stream 2" in out


def test_one_stream_goes_on(tmp_path):
    more = [("kernel", 1, pointer(A))]
    out = compare(tmp_path, small(*more), small(*more * 2), 1)
    assert "operation 2 (A has 1 operation, B 2):" in out and "  A ends here\n  B a<<<1,128>>>" in out
    out = compare(tmp_path, small(*more), small(*more, ("kernel", 1, pointer(A), 2)), 1)
    assert "stream 2 (blocking), 1 operation, is only in B" in out


def test_streams_with_other_numbers(tmp_path):
    """Threads may come in another order."""
    def run(first, second):
        w = Writer().function(1, "a").function(2, "b").stream(1).stream(2)
        return w.kernel(1, stream=first).kernel(1, stream=first).kernel(2, stream=second).end()
    compare(tmp_path, run(1, 2), run(2, 1), 0)


def test_threads_that_take_turns(tmp_path):
    """No order is promised between them; the order of each is."""
    def run(*turns):
        w = Writer().function(1, "a", (0, 8)).stream(1)
        for thread, argument in turns:
            w.kernel(1, pointer(argument), thread=thread)
        return w.end()

    one = [(7, 1), (7, 2), (8, 3), (8, 4)]
    out = compare(tmp_path, run(*one), run((17, 1), (18, 3), (17, 2), (18, 4)), 0)
    assert out.startswith("stream 1: its threads took turns in another way")
    out = compare(tmp_path, run(*one), run((7, 2), (7, 1), (8, 3), (8, 4)), 1)
    assert "operation 1 (A has 4 operations, B 4):" in out


@pytest.mark.parametrize("make,words", [
    (lambda: example().end(full=1), "it is full"), (lambda: example().end(lost=5), "5 records are lost"),
    (lambda: Writer().end(), "has no operations"), (lambda: Writer().stream(1), "it is not complete")])
def test_traces_that_say_nothing(tmp_path, make, words):
    good, bad = example().write(tmp_path / "good"), make().write(tmp_path / "bad")
    for pair in ((good, bad), (bad, good)):
        assert words in message(autograph("compare", *pair, status=2))


@pytest.mark.parametrize("arguments", [[], ["a"], ["/no/such", "/no/such"]])
def test_compare_cannot_work(arguments):
    message(autograph("compare", *arguments, status=2))


def test_one_of_each_is_said_in_the_singular(tmp_path):
    w = Writer().function(1, "k").stream(1).alloc(A, 1).other(MEMSET, A, 1, 1, 7, 0, 1, took=None)
    path = w.submit(1, 1, patches=1).end(lost=1).write(tmp_path / "t")
    said = autograph("trace", path)
    texts = [said.stdout, said.stderr, autograph("trace", path, "--chrome", tmp_path / "c").stdout]
    assert not any(PLURAL_OF_ONE.search(text) for text in texts)
    assert "1 record is lost" in said.stderr and "memset 1 byte " in said.stdout
    out = compare(tmp_path, small(("kernel", 1, pointer(A))), small(("kernel", 2, pointer(A))), 1)
    assert out.endswith("Different: 1 of 1 stream differs.\n") and not PLURAL_OF_ONE.search(out)


# -- Traces that the library writes ---------------------------------------------------

PROGRAMS = ["constant", "events", "memset", "pingpong", "scalars", "perthread", "jacobi"]
SMALL = ["--iterations", "40", "--warmup", "2"]


def traced(path, program, *arguments, **options):
    command = [helpers.sample(f"{program}-sim"), *SMALL, *arguments]
    autograph(f"--trace={path}", *command, **options)
    return path


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_sample_does_the_same_with_and_without_graphs(tmp_path, program):
    eager = traced(tmp_path / "eager", program, env={"AUTOGRAPH_GRAPH_EXECS": "0"})
    ours = traced(tmp_path / "ours", program)
    out = autograph("compare", eager, ours).stdout
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["replayed"][1] == "0.0" and float(rows["replayed"][3]) > 50, out
    assert "could not be compared" not in out


def test_samples_that_do_not_do_the_same(tmp_path):
    one = traced(tmp_path / "one", "scalars", "--kernels", "8")
    more = traced(tmp_path / "more", "scalars", "--kernels", "9")
    other = traced(tmp_path / "other", "scalars", "--kernels", "8", "--size", "100")
    assert "operation 337 (A has 336 operations, B 378):" in autograph("compare", one, more, status=1).stdout
    assert "argument" in autograph("compare", one, other, status=1).stdout


def test_verify_compares_traces():
    command = [helpers.sample("events-sim"), *SMALL]
    out = autograph("verify", "--traces", "--filter", "us_per.*", "--", *command).stdout
    assert re.search(r"^The same work in the traces: [\d,]+ operations in 2 streams(, and .*)?\.$", out, re.M)


READS = pytest.mark.skipif(not helpers.config()["nvcc"], reason="no graph has copies to the host")


@pytest.mark.parametrize("program", ["sync", "jacobi", pytest.param("legacy", marks=READS),
                                     pytest.param("pinned_random", marks=READS)])
def test_operations_are_one_number(tmp_path, program):
    """In the report and in the commands for traces; other copies to the host are told apart."""
    path, report, sample = tmp_path / "t", tmp_path / "r.json", helpers.sample(f"{program}-sim")
    run = [sample, *SMALL] if sample.exists() else [compiled.program("read_back"), program]
    autograph(f"--report={report}", f"--trace={path}", "--set", "trace.buffer_kb=8192", *run)
    total = f"{json.loads(report.read_text())['ops']['total']:,} operations"
    assert total in autograph("report", report, env=WIDE).stdout
    for command in ["compare", path, path], ["trace", path], ["trace", path, "--chrome", tmp_path / "c"]:
        assert total in autograph(*command, env=WIDE).stdout
    if sample.exists():  # and no threads or chance
        verified = autograph("verify", "--traces", "--filter", "(?s).*", "--", *run, env=WIDE).stdout
        assert total in verified.splitlines()[-1]


def test_processes_that_end_in_another_order(tmp_path):
    first, second = (" ".join(map(str, [helpers.sample("constant-sim"), *SMALL, "--kernels", n]))
                     for n in (3, 4))
    path = script(tmp_path / "both", f"""n=$(wc -l <{tmp_path}/runs); echo >>{tmp_path}/runs
        {{ sleep $((n % 2)); {first}; }} & {{ sleep $((1 - n % 2)); {second}; }} & wait""")
    (tmp_path / "runs").touch()
    done = autograph("verify", "--traces", "--filter", "(?s).*", "--", path)
    assert done.stdout.count("The same work in the traces") == 2


def test_the_page_of_a_run_has_its_timeline(tmp_path):
    autograph("--report", "--trace", helpers.sample("events-sim"), *SMALL, cwd=tmp_path)
    path, = tmp_path.glob("*.trace")
    autograph("report", "--trace", path, "--html", "p.html", cwd=tmp_path)
    assert '<rect x="' in (tmp_path / "p.html").read_text()
    lines = autograph("trace", path).stdout.splitlines()
    assert any("[replayed, graph " in line for line in lines)
