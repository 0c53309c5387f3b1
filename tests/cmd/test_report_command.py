# SPDX-License-Identifier: MIT
"""autograph report on the terminal, and the reports that test_page.py shows, too."""
import json
import re
import shutil

import pytest

import commands
import compiled
import helpers
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


def third_format(**changes):
    """As libraries write it today: with the GPU, and with reasons for ops that no call is to blame for."""
    return second_format(**{
        "gpus": ["NVIDIA H100 80GB HBM3"], "pool": {"allocations": 0, "behind_waits": 0, "keeps": None},
        "eager_ops": {"first_rounds": 0, "trials": 0, "unwatched": 0}, **changes})


# A duel: with graphs 1 us an op, without them 2 us, by 1 %.
DUEL = {"held_ns": 1000, "eager_ns": 2000, "duel_variance": 0.0001, "duels": 2, "duels_lost": 0, "making_us": 0,
        "ops": {"total": 1000000, "replayed": 900000, "eager": 100000}, "seconds": 2.1}
NOTHING = {"total": 0, "replayed": 0, "eager": 0}


def first_words(done):
    """The verdict and what is next: all before the first table, in one line."""
    return " ".join(done.stdout.split("\n\n")[0].split())


def rows(lines):
    return [re.split(r"\s{2,}", line) for line in lines]


# -- The verdict --------------------------------------------------------------------

def test_the_verdict_comes_first(shown):
    """Two sentences, what to change first, with a line of code: then tables."""
    done = shown(third_format(**DUEL, cuts=[
        {"function": "cuMemcpyHtoDAsync_v2", "reason": "stream_barrier", "calls": 9, "ops": 50000}]))
    assert first_words(done) == (
        "solver: 90.0 % of 1,000,000 operations went out in graphs. That saved about 900 ms (873 to 927 ms), 30.0 % of "
        "the time without graphs. Next: A copy of more than 1 KiB of pageable memory is in no graph: pin the memory "
        "(cuMemcpyHtoDAsync). cudaMallocHost(&buffer, bytes);")
    assert sections(done.stdout)["What stands in the way"]


def test_what_is_not_of_the_end_says_so(shown):
    assert "This is how it stood while the program ran" in first_words(shown(third_format(**DUEL, complete=False)))
    assert "This is how it stood" not in shown(third_format(**DUEL)).stdout


@pytest.mark.parametrize("changes, words", [
    ({"gpus": ["Simulated GPU"], "making_us": None}, "The driver is the simulated one"),
    ({"gpus": ["Simulated GPU"], **DUEL}, "The driver is the simulated one"),
    ({"gpus": ["NVIDIA L4"]}, "How much time that saved was not measured: autograph bench"),
    ({"gpus": ["NVIDIA H200", "NVIDIA L4"]}, "How much time that saved was not measured"),
    ({"gpus": None}, "How much time that saved was not measured"),
    ({"gpus": ["NVIDIA H200"]}, "How much time that saved was not measured"),
    ({**DUEL, "eager_ns": 4000}, "By one trial that saved more time than the whole run took"),
    ({**DUEL, "duel_variance": 1}, "No saving could be measured: it was"),
    ({**DUEL, "held_ns": 3000}, "Graphs were slower than launches"),
    ({**DUEL, "making_us": 2e6}, "a longer run gains more")])
def test_what_is_said_of_the_saving(shown, tmp_path, changes, words):
    """The costs of one GPU say nothing of another one, and those of the simulated driver nothing at all."""
    data = third_format(**changes)
    text = first_words(shown(data))
    assert words in text
    shown(data, "--html", tmp_path / "p")
    tiles = re.findall(r'<div class="tile">.*?<b>(.*?)</b><small>(.*?)</small>', (tmp_path / "p").read_text())
    assert len(tiles) == 3
    if "simulated" in words or "not measured" in words:
        assert tiles[0][0] == tiles[2][0] == "\u2013" and not re.search(r"\d (us|ms|s)\b", text)


@pytest.mark.parametrize("changes, column", [({}, False), (DUEL, True)])
def test_graphs_have_a_part_of_what_was_saved(shown, changes, column):
    """Nothing is estimated: what making graphs took is a fact."""
    out = shown(third_format(**{"making_us": 750, **changes})).stdout
    assert ("saved" in sections(out)["Graphs"][0]) == column and ("750 us" in out) != column


# -- What keeps work eager --------------------------------------------------------------

@pytest.mark.parametrize("option, value, named", [
    ("graph.execs", 0, True), ("trace.hot", 900, True), ("trace.min_length", 100, True), ("hold.bound_us", 20, True),
    ("trace.hot", 2, False), ("graph.execs", 4096, False), ("trace.file", "x", False), ("trace.duel", False, False)])
def test_an_option_that_keeps_work_eager_is_named(shown, option, value, named):
    done = shown(third_format(ops={"total": 50000, "replayed": 0, "eager": 50000}, replays=0, trace_list=[], cuts=[
        {"function": "cuMemcpyDtoHAsync_v2", "reason": "host_wait", "calls": 4196, "ops": 0}], options={option: value}))
    table = sections(done.stdout)["What stands in the way"]
    assert (f"{option}={value}" in first_words(done)) == named == (f"{option}={value}" in " ".join(table))
    if option == "graph.execs" and named:
        assert "cuMemcpyDtoHAsync" not in done.stdout and "graph.execs=256" in first_words(done)


def test_what_stopped_the_library_is_named(shown, tmp_path):
    why = "CUDA_X is set: a reason <i>"
    for data in (third_format(stopped=why), third_format(stopped=why, cuts=[], ops=NOTHING)):
        done = shown(data)
        assert f"The library stopped holding: {why}." in first_words(done)
        assert "env -u CUDA_X autograph ./app" in first_words(done)
        assert "stopped holding" in sections(done.stdout)["What stands in the way"][0]
        shown(data, "--html", tmp_path / "page.html")
        assert "The library stopped holding: CUDA_X is set: a reason &lt;i&gt;" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("options, words", [
    (["--set", "graph.execs=0"], "The option graph.execs=0 forbids all graphs. Next:"),
    ([], "0 % of 4"), (["--set", "trace.hot=1000"], "The reason may be an option: trace.hot=1000.")])
def test_a_program_with_an_option_that_keeps_work_eager(tmp_path, options, words):
    autograph("--report=r", *options, *LOOP, cwd=tmp_path)
    done = autograph("report", "r", cwd=tmp_path)
    assert words in first_words(done) or not options and "went out in graphs. The driver" in first_words(done)


def test_a_variable_of_cuda_that_keeps_work_eager(tmp_path):
    autograph("--report=r", *LOOP, cwd=tmp_path, env={"CUDA_LAUNCH_BLOCKING": "1"})
    done = autograph("report", "r", cwd=tmp_path)
    assert "CUDA_LAUNCH_BLOCKING is set" in first_words(done)
    assert "env -u CUDA_LAUNCH_BLOCKING autograph ./app" in first_words(done)


def test_without_a_report_since_the_library_is_off(tmp_path):
    done = autograph("report", cwd=tmp_path, env={"AUTOGRAPH_DISABLE": "1"}, status=2)
    assert "AUTOGRAPH_DISABLE is set" in message(done)


# -- Advice ---------------------------------------------------------------------------------

def test_one_call_has_one_row(shown):
    out = shown(third_format(cuts=[
        {"function": "cuMemcpyDtoHAsync_v2", "reason": "host_wait", "calls": 140, "ops": 280},
        {"function": "cuMemcpyDtoHAsync_v2", "reason": "stream_barrier", "calls": 127, "ops": 128},
        {"function": "cuMemcpyDtoHAsync_v2_ptsz", "reason": "host_wait", "calls": 1, "ops": 2}])).stdout
    row, = (row for row in rows(sections(out)["What stands in the way"]) if "cuMemcpyDtoHAsync" in row)
    assert row[:3] == ["410", "268", "cuMemcpyDtoHAsync"]


def test_ops_that_no_call_is_to_blame_for(shown, tmp_path):
    """They have no red bar, and do not come before calls."""
    data = third_format(ops={"total": 2000, "replayed": 900, "eager": 1100}, eager_ops={
        "first_rounds": 200, "trials": 100, "unwatched": 50}, options={})
    lines = sections(shown(data).stdout)["What stands in the way"]
    assert rows(lines)[1][:3] == ["50", "9", "cuMemcpyHtoDAsync"]
    tail = lines[lines.index("These were not replayed either, and no call is to blame:") + 1:]
    assert [row[:2] for row in (re.split(r"\s{2,}|: ", line) for line in tail if line[0].isdigit())] == [
        ["200", "first rounds"], ["100", "trials"], ["50", "not watched"], ["10", "other calls"],
        ["650", "not repeated"]]
    shown(data, "--html", tmp_path / "p")
    bars = re.findall(r'<i class="held" style="width:([\d.]+)%"', (tmp_path / "p").read_text())
    assert bars == ["4.5", "2.5", "2.0"], "all calls together, and each of them, of all operations"


def test_nothing_stands_in_the_way_of_first_rounds(shown):
    """The ops that were not replayed are counted beside the word."""
    lines = sections(shown(third_format(
        ops={"total": 10000, "replayed": 9800, "eager": 200}, cuts=[],
        eager_ops={"first_rounds": 190, "trials": 0, "unwatched": 0}, options={})).stdout)["What stands in the way"]
    assert lines[:3] == ["Nothing.", "These operations were not replayed:",
                         "190  first rounds: work that came before there was a graph of it"]
    assert lines[3].startswith("10  not repeated: ")


@pytest.mark.parametrize("changes, words", [
    ({"ops": NOTHING, "cuts": [], "eager_ops": None}, "launched nothing that the library could see"),
    ({"ops": {"total": 9, "replayed": 0, "eager": 9}, "replays": 0, "options": {}}, "The run was too short"),
    ({"ops": {"total": 9999, "replayed": 0, "eager": 9999}, "replays": 0, "cuts": [], "options": {}},
     "The work did not repeat"),
    ({"ops": {"total": 9999, "replayed": 0, "eager": 9999}, "replays": 0, "cuts": [], "options": {}, "barred": True},
     "A stream has attributes"),
    ({"partial": True}, "The process ended within a call, so numbers are missing."),
    ({"ops": {"total": 9999, "replayed": 0, "eager": 9999}, "replays": 0, "cuts": [], "options": {}, "duels_lost": 2,
      "duels": 2}, "Graphs were no faster than launches")])
def test_why_a_run_has_no_graphs(shown, tmp_path, changes, words):
    data = third_format(**changes)
    assert words in first_words(shown(data))
    shown(data, "--html", tmp_path / "p")
    assert words in re.sub("<[^>]*>", "", (tmp_path / "p").read_text())


def test_a_pool_that_gives_its_memory_back(shown):
    for keeps, waits, told in (0, 900, True), (2**63 - 1, 900, False), (None, 9, False), (0, 1, False):
        done = shown(third_format(pool={"allocations": 900, "behind_waits": waits, "keeps": keeps}))
        assert ("cudaMemPoolAttrReleaseThreshold" in first_words(done)) == told
        assert ("The memory pool gives its memory back at each wait." in done.stdout) == told


def test_a_program_whose_pool_gives_its_memory_back(tmp_path):
    autograph("--report=r", compiled.program("observe_pool"), "gives", cwd=tmp_path)
    assert "cudaMemPoolAttrReleaseThreshold" in first_words(autograph("report", "r", cwd=tmp_path))
    autograph("--report=r", compiled.program("observe_pool"), "keeps", cwd=tmp_path)
    assert "cudaMemPoolAttrReleaseThreshold" not in autograph("report", "r", cwd=tmp_path).stdout


def test_a_call_that_makes_graphs_short(shown):
    """All is replayed, in graphs of four ops; with graphs of forty nothing is said."""
    ops = {"total": 10000, "replayed": 10000, "eager": 0}
    cuts = [{"function": "cuStreamSynchronize", "reason": "host_wait", "calls": 2500, "ops": 0}]
    done = shown(third_format(ops=ops, cuts=cuts, replays=2500, options={}))
    assert "cudaStreamSynchronize(stream);" in first_words(done)
    row = rows(sections(done.stdout)["What stands in the way"])[2]
    assert row == ["0", "2,500", "cuStreamSynchronize", "(see above)"]
    done = shown(third_format(ops=ops, cuts=cuts, replays=250, options={}))
    assert sections(done.stdout)["What stands in the way"] == ["Nothing."]


def test_waits_behind_graphs_that_had_gone_out(shown):
    """They have cut nothing; with the cuts that other waits made they are not named twice."""
    ops = {"total": 10000, "replayed": 10000, "eager": 0}
    cuts = [{"function": "cuStreamSynchronize", "reason": "host_wait", "calls": 2400, "ops": 0}]
    for some, named in ([], ["waits for the GPU"]), (cuts, ["cuStreamSynchronize"]):
        lines = sections(shown(third_format(ops=ops, cuts=some, replays=2500, waited=2500)).stdout)
        assert [row[2] for row in rows(lines["What stands in the way"])[2:] if len(row) > 2] == named


def test_every_advice_has_a_line_of_code():
    """Or says that there is nothing to do; each reason has one."""
    advice = commands.module("advice")
    for key, text, code in [*advice.ADVICE, *((why, *words) for why, words in advice.WHY.items())]:
        assert (code == "") == ("nothing to do" in text), key
        assert text[0].isupper() and text[-1] == "." and len(code) <= 70, key
    reasons = commands.module("reasons")
    assert reasons.GIVEN_UP and all(advice.advice(None, name)[0] for name in reasons.GIVEN_UP)
    assert advice.WHY.keys() < reasons.NOT_HELD.keys() - set(reasons.NOBODY)
    assert all(advice.advice(None, None, why)[0] for why in reasons.NOT_HELD.keys() - {*reasons.NOBODY, "short"})


def test_options_keep_work_eager_beyond_their_defaults():
    advice = commands.module("advice")
    for names, step in ((advice.LEAST, -1), (advice.MOST, 1)):
        for name in names:
            usual = advice.default(name)
            assert [advice.holds_back(name, usual + by) for by in (-step, 0, step)] == [False, False, True]


@pytest.mark.parametrize("function, code", [
    ("cuMemcpyHtoDAsync_v2", "cudaMallocHost"), ("cuEventRecord", "cudaEventDisableTiming"),
    ("cuStreamSynchronize", "if (step % 100 == 0) cudaStreamSynchronize(stream);"),
    ("cuMemAllocAsync", "once, before the loop"),
    ("cuMemcpyDtoHAsync_v2", "if (step % 100 == 0)"), ("cuCtxSynchronize", "cudaStreamSynchronize")])
def test_advice_names_what_to_change(shown, function, code):
    done = shown(third_format(cuts=[{"function": function, "reason": "host_wait", "calls": 50, "ops": 90}]))
    assert code in re.sub(r"\s+", " ", done.stdout).replace("; //", ";  //")


@pytest.mark.parametrize("word, code", [
    ("timed", "cudaEventCreateWithFlags(&event, cudaEventDisableTiming);"), ("grid", None),
    ("allocate", "cudaMemPoolAttrReleaseThreshold, &all);"),
    ("waits_for_each", "if (step % 100 == 0) cudaStreamSynchronize(stream);")])
def test_advice_to_programs(tmp_path, word, code):
    """Steps that are regular but for what the word says; all of the last one is replayed."""
    autograph("--report=r", compiled.program("irregular"), word, 1, cwd=tmp_path)
    text = first_words(autograph("report", "r", cwd=tmp_path))
    assert text.endswith(f" {code}" if code else "Next: Run it on a GPU.")


# -- Terminal -----------------------------------------------------------------------

@pytest.mark.parametrize("columns", [None, 60, 120])
def test_rows_fit_the_terminal(shown, columns):
    """80 columns where the output is no terminal."""
    data = third_format(**DUEL, program="/opt/" + "long/" * 40 + "solver")
    data["trace_list"][0]["kernels"][1]["name"] = data["callsites"][0]["frames"][0]["symbol"] = "k" * 200
    data["regions"][0]["name"] = "r" * 200
    data["cuts"] = [{"function": key if key.startswith("cu") else None, "reason": key, "calls": 10**6, "ops": 10**6}
                    for key, *_ in commands.module("advice").ADVICE]
    data["ops"] = {"total": 10**8, "replayed": 10**7, "eager": 9 * 10**7}
    lines = shown(data, env={"COLUMNS": columns}).stdout.splitlines()
    path, = (line for line in lines if len(line) > (columns or 80))
    assert path == "  " + data["program"] + ",", "it stays whole"
    assert sum("..." in line and ("kkk" in line or "rrr" in line) for line in lines) == 3


@pytest.mark.parametrize("columns", [40, 50, 80])
def test_numbers_are_never_cut(shown, columns):
    """Columns are left out, and names are cut."""
    many = 123456789
    data = third_format(**DUEL)
    data["streams"] = [dict(s, ops=many, replayed=many, replays=many, traces=many) for s in data["streams"]]
    data["trace_list"] = [dict(data["trace_list"][0], length=128, replays=many, patches=many)]
    data["cuts"] = [{"function": "cuStreamSynchronize", "reason": "host_wait", "calls": many, "ops": many}]
    data["ops"] = {"total": 3 * many, "replayed": 2 * many, "eager": many}
    data["regions"] = [{"name": "r" * 200, "count": many, "seconds": many, "ops": many, "replayed": many}]
    out = shown(data, env={"COLUMNS": columns}).stdout
    assert out.count("123,456,789") >= 6 and not re.search(r"[\d,]\.\.\.", out), out


def test_a_report_of_the_first_format(shown):
    done = shown(first_format())
    assert first_words(done).startswith("solver: 90.0 % of 1,000 operations went out in graphs. How much time that")
    found = sections(done.stdout)
    assert found["Run"] == ["/opt/solver, process 77, libautograph 0.1.0",
                            "1,000 operations, 30 graph launches, 2 graphs, 8 arguments patched, 3 side",
                            "exits, 0 errors", "options: trace.hot = 5"]
    table = rows(found["What stands in the way"])
    assert ["operations lost", "times", "because of"] in table
    assert ["7", "legacy order"] in table and ["2", "watchdog"] in table
    assert "cudaStreamNonBlocking" in done.stdout and "hold.bound_us" in done.stdout


def test_one_of_each_is_said_in_the_singular(shown, tmp_path):
    trace = {"number": 4, "stream": 1, "length": 1, "replays": 1, "patches": 1, "saved_us": 1,
             "kernels": [{"name": "memset", "count": 1}]}
    data = third_format(
        ops={"total": 1, "replayed": 1, "eager": 0}, replays=1, traces=1, patches=1, side_exits=1, errors=1,
        duels=1, duels_lost=1, trace_list=[trace, {**trace, "replays": 0}], trace_list_left_out=0,
        trace_file={"file": "/tmp/x", "bytes": 1, "lost": 1, "error": None})
    out = shown(data).stdout
    assert "100.0 % of 1 operation went out in graphs" in out
    assert "1 other, which did less" in out and "1 record lost" in out
    shown(data, "--html", tmp_path / "page.html")
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</b>", " ", (tmp_path / "page.html").read_text()))
    assert not commands.PLURAL_OF_ONE.search(out)
    assert not commands.PLURAL_OF_ONE.search(re.sub(r"(?s)<style>.*?</style>", "", text))


def test_a_report_of_the_second_format(shown):
    """What libraries wrote before they named the GPU."""
    found = sections(shown(second_format(options={})).stdout)
    assert rows(found["Streams"])[1:] == [
        ["1", "nonblocking", "800", "100.0 %", "#" * 10, "25", "1"],
        ["2", "legacy", "200", "50.0 %", "#" * 5 + "." * 5, "5", "1"]]
    assert rows(found["Graphs"])[1] == ["4", "1", "32", "25", "8", "30 a::step<float>, 2 me..."]
    assert found["Graphs"][-1] == "... and 4 others, which did less or nothing"
    table = rows(found["What stands in the way"])
    assert [row[:3] for row in table if row[0] in ("50", "40", "10")] == [
        ["50", "9", "cuMemcpyHtoDAsync"], ["40", "20", "cuStreamSynchronize"], ["10", "1", "watchdog"]]
    assert found["Where calls that end graphs come from"] == ["6  cuMemcpyHtoDAsync, from load + 0x34 in solver"]
    assert rows(found["Regions"])[1] == ["step <b>", "10", "1.500", "500", "80.0 %"]
    assert "trace file /tmp/x, 2.5 MB, 3 records lost" in found["Run"]


def test_a_trace_of_more_kernels_than_are_told_apart(shown):
    data = third_format()
    data["trace_list"][0]["kernels"].append({"name": None, "count": 100})
    assert "30 a::step<float>, 2 memset, 100 others\n" in shown(data, env={"COLUMNS": "100"}).stdout


def test_without_a_demangler(shown, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "30 _ZN1a4stepIfEEvPT_, 2 memset" in shown(third_format(), env={"COLUMNS": "100"}).stdout


def test_little_that_stands_in_the_way(shown):
    lines = sections(shown(third_format(ops={"total": 1000, "replayed": 981, "eager": 19}, options={})).stdout)
    assert lines["What stands in the way"][0] == "Little: only 1.9 % of the operations were not replayed."


def test_many_reports_and_those_that_lie_here(shown, tmp_path):
    for rank in range(2):
        (tmp_path / f"autograph-report-{rank}.json").write_text(json.dumps(first_format(pid=rank)))
    done = autograph("report", cwd=tmp_path)
    assert "process 0," in done.stdout and "process 1," in done.stdout


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
    done = autograph("report", cwd=tmp_path)
    assert re.match(r"constant-sim: \d\d\.\d % of \d+ operations went out in graphs. The driver is the simulated one",
                    first_words(done))
    assert "on Simulated GPU" in sections(done.stdout)["Run"]


def test_where_calls_come_from(tmp_path):
    """The function and line of the program, if it was built with -g."""
    sync = helpers.sample("sync-sim")
    autograph("--report", "--set", "report.callsites=1", sync, *LOOP[1:], cwd=tmp_path)
    lines = sections(autograph("report", cwd=tmp_path, env={"COLUMNS": "300"}).stdout)["Where calls that end graphs come from"]
    waits = [line for line in lines if "cuStreamSynchronize" in line]
    assert waits
    if shutil.which("addr2line") and b".debug_info" in sync.read_bytes():
        assert any(re.search(r" from main.* \(sync\.cu:\d+\) in sync-sim$", line) for line in waits), waits


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
        assert "stays as it is" in message(
            autograph("report", "--html", page, cwd=tmp_path, status=2))
    assert json.loads(path.read_text()) == second_format()
