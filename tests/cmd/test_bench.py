# SPDX-License-Identifier: MIT
"""The benchmark, on the simulated driver: its figures mean nothing there, but all of it runs, and
what it says about figures is right."""
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

import helpers

BENCH = helpers.SOURCE / "tests/bench"
sys.path.insert(0, str(BENCH))

import benchmark  # noqa: E402  (needs the path above)
import publish  # noqa: E402
import shapes  # noqa: E402


def run(*options, build=None, status=0, **more):
    command = [sys.executable, BENCH / "benchmark.py", "--build", build or helpers.build_dir(), *options]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=4 * helpers.TIMEOUT,
                          check=False, **more)
    assert done.returncode == status, done.stdout + done.stderr
    return done


needs_no_sanitizer = pytest.mark.skipif(bool(helpers.config()["sanitize"]),
                                        reason="the programs need the sanitizer's runtime first")


def passing(**options):
    done = helpers.run(helpers.build_dir() / "tests/bench/passing-sim", **options)
    lines = map(str.split, done.stdout.splitlines())
    return {name: (float(through) / float(past), same) for name, through, past, *same in lines}


def test_what_the_library_adds_to_a_launch_that_passes():
    """Much, where each launch goes to a trace file; that is done at the driver's function."""
    env = {"AGSIM_DELAY_US": 0, "AUTOGRAPH_TRACE_FILE": "/dev/null", **helpers.OWN_SHAPES}  # or none passes
    assert [same for _, same in passing(env=env, preload=False).values()] == [["same"], ["same"]]
    ratios = []
    while len(ratios) < 3 and max(ratios, default=0) <= 1.05:  # others may be at work on the machine
        found = passing(env=env)
        assert list(found) == ["cudaLaunchKernel", "cuLaunchKernel"] and \
            not any(same for _, same in found.values())
        ratios.append(found["cuLaunchKernel"][0])
    assert max(ratios) > 1.05


@needs_no_sanitizer
def test_calls_beside_a_launch_that_waits_for_room():
    """Those that wait on the simulated driver are those that wait with driver 580 (docs/measurements.md,
    "What waits while a launch waits for room?")."""
    waiting = {"cudaEventCreate", "cudaEventDestroy", "cudaStreamCreate", "cudaStreamDestroy", "cudaMalloc",
               "cudaMallocHost", "cudaLaunchHostFunc", "cudaGraphInstantiate", "cudaGraphExecDestroy"}
    for patience_ms in (200, 1000, 3000):  # a call that is late is taken for one that waits
        done = helpers.run([helpers.build_dir() / "tests/bench/room-sim", patience_ms], preload=False,
                           timeout=4 * helpers.TIMEOUT)
        lines = [line.split() for line in done.stdout.splitlines()]
        found = {(what, place, call) for what, place, call, _, us in lines if us == "waits"}
        filled = all(entries == "1023" for *_, entries, _ in lines)
        if filled and found == {(what, "same", call) for what in ("kernels", "graphs") for call in waiting}:
            break
    assert {(what, place) for what, place, *_ in lines} == {
        (what, place) for what in ("kernels", "graphs") for place in ("same", "other")}
    assert len({call for _, _, call, *_ in lines}) == 32 and len(lines) == 4 * 32
    assert filled and all(us == "waits" or float(us) > 0 for *_, us in lines)
    for what in ("kernels", "graphs"):
        assert {(place, call) for filled, place, call in found if filled == what} == {
            ("same", call) for call in waiting}


# -- The program ------------------------------------------------------------------

def answers(*lines, status=0, **options):
    done = helpers.run(helpers.build_dir() / "tests/bench/worker-sim", status=status,
                       env={"AGSIM_DELAY_US": 0}, input="".join(f"{line}\n" for line in lines), **options)
    return [line.split() for line in done.stdout.splitlines()] if status == 0 else done.stderr


def around(shape):
    """Whether it is more than kernels that repeat, or differ in what they are by their place."""
    return not shape["first"] and (
        any(shape[key] != shapes.CENTRE[key] for key in ("wait", "back")) or
        shape["loop"] not in ("steady", "period 2", "nested") and shape["cudart"] == "static")


@pytest.mark.parametrize("shape", shapes.every(args=["one", "all", "two"]) + shapes.every(
    mix=["memset", "copy", "upload", "event", "timed"]) + shapes.every(loop=["period 2", "nested"]) +
    shapes.every(streams=4) + shapes.every(threads=3) +
    [shape for shape in shapes.SHAPES if around(shape)], ids=lambda shape: shape.name)
def test_variants_compute_the_same(shape):
    words = f"{shape.words(1)} warmup=3 iterations=40 seed=7"
    lines = [f"{variant} {words}" for variant in ("eager", "graph") if variant == "eager" or shape.by_hand]
    without = answers(*lines, preload=False)
    library = answers(*[lines[0]] * 2)
    assert len({checksum for _, checksum in without + library}) == 1


@pytest.mark.parametrize("words", ["streams=12", "streams=12 deal=4", "streams=2 threads=8", "threads=12"])
def test_more_streams_than_a_device_has_queues(words):
    """Made when a line asks for them."""
    words = f"n=48 {words} warmup=3 iterations=40"
    plain, graph = answers(f"eager {words}", f"graph {words}", preload=False)
    library, again = answers(f"eager {words}", f"eager {words}")
    assert plain[1] == graph[1] == library[1] == again[1]


def test_checksum_depends_on_everything():
    words = "n=4 warmup=2 iterations=9"
    seen = answers(*(f"eager {words} {more}" for more in (
        "n=4", "n=5", "iterations=10", "warmup=3", "rounds=2", "args=1", "args=2", "args=3", "mix=1",
        "mix=2", "mix=3", "streams=2", "streams=2 deal=2", "threads=2", "loop=2", "loop=4", "loop=5",
        "loop=5 seed=1", "loop=6", "loop=6 seed=1", "loop=7", "loop=7 seed=1", "loop=8 mix=1",
        "loop=8 mix=1 seed=1", "loop=8 mix=2", "loop=10", "loop=11", "loop=12", "back=1", "back=2",
        "back=2 backs=3", "loop=13 streams=2 n=3", "loop=13 streams=3", "loop=13 streams=3 mix=2", "loop=14 streams=4",
        "loop=13 streams=2 back=1")), preload=False)
    # The third is the second but for where the clock starts.
    assert len({checksum for _, checksum in seen}) == len(seen) - 1


@pytest.mark.parametrize("line", ["dance", "eager n", "eager n=x", "eager n=0", "eager m=1",
                                  "eager streams=9 threads=8", "eager loop=16", "eager back=1025",
                                  "eager backs=0", "graph loop=3", "graph loop=6", "graph loop=12",
                                  "graph wait=1", "graph loop=5 mix=1", "graph args=2 mix=1",
                                  "graph args=2 empty=1"])
def test_bad_line_is_refused(line):
    message = answers(line, preload=False, status=2)
    assert message.startswith("worker: ") and len(message.splitlines()) == 1


# -- The script -------------------------------------------------------------------

@needs_no_sanitizer
def test_whole_benchmark(tmp_path):
    pairs = helpers.by_scale(2, 2, 40)  # of processes; 40 is what the benchmark runs by itself
    done = run("--sim", "--quick", "--shapes",
               "^N=(4|16)(, sync)?$|^N=16, (never repeats|one grid changes|never repeats, first launches)$",
               "--out", tmp_path, *([] if pairs == 40 else ["--pairs", pairs]))
    rows = [line for line in done.stdout.splitlines() if line.endswith("| equal |")]
    assert len(rows) == 7
    assert (tmp_path / "bench.md").read_text() == done.stdout
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [row["name"] for row in found["shapes"]] == [
        "N=4", "N=16", "N=4, sync", "N=16, sync", "N=16, never repeats", "N=16, one grid changes",
        "N=16, never repeats, first launches"]
    for row in found["shapes"]:
        rounds = {len(times) for times in row["times"].values()}
        assert rounds == ({pairs} if "first" in row["name"] else {3 * pairs}) if "never" in row["name"] \
            else min(rounds) >= 3
        assert ("graph" in row["times"]) == ("never" not in row["name"])
        assert row["report"]["replays"] > 0 or re.search("never|grid", row["name"])
    assert re.search(r"constant grids \| <= 1.05 \| \d+\.\d+ \(N=16, one grid changes\)", done.stdout)
    assert re.search(r"first launches of a process: eager / time \| >= 1.4 \| \d", done.stdout)
    for words in ("one matched launch", "first replay", "without CUDA", "with CUDA", "every shape"):
        assert words in done.stdout
    picture = xml.etree.ElementTree.parse(tmp_path / "bench.svg").getroot()
    assert len([e for e in picture if e.tag.endswith("polyline")]) == 3


@pytest.fixture
def fake(tmp_path):
    """A build whose worker is a script; `answer` is what it prints for each line."""
    def make(answer):
        build = tmp_path / "build"
        for name in ("tests/bench", ".libs"):
            (build / name).mkdir(parents=True)
        shutil.copy(helpers.build_dir() / "tests/build.json", build / "tests")
        (build / ".libs/libautograph.so").touch()
        worker = build / "tests/bench/worker-sim"
        worker.write_text(f"""#!{sys.executable}
import os, sys
library = "libautograph" in os.environ.pop("LD_PRELOAD", "")
for line in sys.stdin:
    {answer}
    sys.stdout.flush()
if library:
    open(os.environ["AUTOGRAPH_REPORT"], "w").write('{{"ops": {{"total": 2, "replayed": 1}}}}')
""")
        worker.chmod(0o755)
        return build
    return make


OPTIONS = ["--sim", "--quick", "--no-extras", "--shapes", "^N=16, sync$"]


def test_different_results_are_loud(fake):
    done = run(*OPTIONS, build=fake("print(1.0 + library, 'odd' if library else 'even')"), status=1)
    assert "| DIFFERENT |" in done.stdout and "DIFFERENT RESULTS: N=16, sync" in done.stdout


def test_slower_is_missed(fake):
    done = run(*OPTIONS, build=fake("print(1.0 + library, 'same')"))
    assert "| 1.00 | 2.00 | 2.00 | 0.50x | 1.000 | 0.0 | 50.0 % | equal |" in done.stdout
    assert re.search(r"every shape.*<= 1.02 \| 2.000 \(N=16, sync\) \| MISSED by 1 of 1", done.stdout)


def test_faster_is_met(fake):
    done = run(*OPTIONS, build=fake("print(3.0 - library, 'same')"))
    assert "MISSED" not in done.stdout and "every shape" in done.stdout


@pytest.mark.parametrize("answer, message", [("sys.exit('gone wrong')", "gone wrong"),
                                             ("sys.exit(0)", "the worker ended")])
def test_worker_that_fails_is_reported(fake, answer, message):
    done = run(*OPTIONS, build=fake(answer), status=2)
    assert done.stderr.startswith("bench: ") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_library_that_fails_is_loud(fake):
    answer = "print(1.0, 'same') if not library else sys.exit('gone wrong')"
    done = run(*OPTIONS[:-1], "^N=(16|64), sync$", build=fake(answer), status=2)
    assert "| N=16, sync | FAILED |" in done.stdout and "| N=64, sync | FAILED |" in done.stdout
    assert "FAILED: N=16, sync: with the library: the worker ended" in done.stdout
    assert "gone wrong" in done.stdout


@pytest.mark.parametrize("options, message", [
    (["--shapes", "no such"], "no loop's name matches"),
    (["--build", "/nonexistent"], "no build directory")])
def test_what_cannot_be_measured(options, message):
    assert message in run("--sim", *options, status=2).stderr


def test_no_gpu_is_said(tmp_path):
    message = run(status=2, env={"PATH": str(tmp_path)}).stderr
    assert message.startswith("bench: nvidia-smi finds no GPU") and "--sim" in message


@needs_no_sanitizer
def test_options_reach_the_library(tmp_path):
    run(*OPTIONS, "--set", "AUTOGRAPH_TRACE_HOT=1000", "--out", tmp_path)
    row, = json.loads((tmp_path / "bench.json").read_text())["shapes"]
    assert row["report"]["options"]["trace.hot"] == 1000
    assert "AUTOGRAPH_TRACE_HOT=1000" in (tmp_path / "bench.md").read_text()


def test_a_verdict_within_the_noise_takes_more_rounds():
    def row(*library):
        return {"times": {"eager": [1.0] * len(library), "library": list(library)}}
    shape = shapes.Shape(us=20)  # 1.01 and 1.02
    assert benchmark.is_open(row(0.99, 1.0, 1.02, 1.03), shape)
    assert not benchmark.is_open(row(0.97, 0.98, 0.98, 0.97), shape)
    assert not benchmark.is_open(row(1.5, 1.4, 1.5, 1.5), shape)


def test_a_loop_is_compared_with_the_regular_one():
    def row(us, **members):
        shape = shapes.Shape(**members)
        return {"name": shape.name, "shape": dict(shape), "times": {"eager": [9.0], "library": [us]}}
    rows = [row(32.0), row(36.0, loop="one grid"), row(94.0, loop="count"), row(7.5, n=4, back=8)]
    found = {v["target"]: v["worst"] for t in shapes.TARGETS for v in [benchmark.judge(t, rows)] if v}
    assert found["one grid changes: time / constant grids"].startswith("1.125 ")
    assert found["a random count, choice, size: time / the regular loop, per kernel"].startswith("2.000 ")
    assert found["4 kernels, 8 B read back: us"].startswith("7.500 ")
    assert benchmark.judge(next(t for t in shapes.TARGETS if t.of == "regular"), rows[1:]) is None


def test_shapes_cover_the_targets():
    names = [shape.name for shape in shapes.SHAPES]
    assert len(set(names)) == len(names)
    for target in shapes.TARGETS:
        assert any(target.applies(shape) for shape in shapes.SHAPES), target.name
    for key, values in {
            "n": [1, 2, 3, 4, 8, 16, 64, 256, 1000], "args": shapes.ARGUMENTS, "sync": [0, 1, 10],
            "us": [0, 1, 2.5, 5, 20], "cpu": [0, 2, 5, 20], "mix": shapes.MIX,
            "streams": [1, 2, 3, 4, 8], "threads": [1, 2, 4, 8], "loop": shapes.LOOPS,
            "body": shapes.BODIES, "wait": [0, 16], "back": [0, 8, 4096], "backs": [1, 3],
            "first": [0, 1], "cudart": shapes.BOTH}.items():
        assert {shape[key] for shape in shapes.SHAPES} == set(values)


# -- Publishing -------------------------------------------------------------------

def measured(**changes):
    """What benchmark.py writes, of the loops that docs/performance.md shows, and one without a graph by hand."""
    rows = [{"name": shape.name, "shape": dict(shape), "equal": True,
             "times": {"eager": [8.0 * shape["n"]] * 7, "library": [2.0 * shape["n"]] * 7,
                       **({"graph": [3.0 * shape["n"]] * 7} if shape.by_hand else {})},
             "report": {"ops": {"total": 4, "replayed": 3}}}
            for shape in shapes.SHAPES if shape.name in (*publish.SOME, "N=16, never repeats")]
    return {"machine": "Some GPU, driver 1", "shapes": rows,
            "targets": [{"target": "the aim", "limit": "<= 1", "worst": "2", "verdict": "MISSED"}], **changes}


@pytest.fixture
def tree(tmp_path):
    """The pages that are written to, with other figures in them."""
    (tmp_path / "docs").mkdir()
    for name in publish.PAGES:
        text = (helpers.SOURCE / name).read_text()
        (tmp_path / name).write_text(re.sub(r"<!-- end -->", "old figures\n\n<!-- end -->", text))
    return tmp_path


def publish_into(tree, found, status=0):
    (tree / "bench.json").write_text(found if isinstance(found, str) else json.dumps(found))
    done = subprocess.run([sys.executable, BENCH / "publish.py", "--root", tree, "--library", "commit 7",
                           tree / "bench.json"],
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr


def test_figures_are_published(tree):
    publish_into(tree, measured())
    performance, results = ((tree / name).read_text() for name in publish.PAGES)
    assert "old figures" not in performance + results
    assert "\n\n| loop |" in performance
    assert "| 64 kernels | 512.0 | 128.0 | **4.00x** | 192.0 |\n" in performance
    assert "| N=64 | 512.00 | 128.00 | 192.00 | 4.00x | 75.0 % |\n" in results
    assert "| N=16, never repeats | 128.00 | 32.00 | - | 4.00x | 75.0 % |\n" in results
    assert "| the aim | <= 1 | 2 | MISSED |\n" in results
    assert results.count("Some GPU, driver 1; medians of 7 or more rounds in turn; library: commit 7.\n") == 2
    picture = xml.etree.ElementTree.parse(tree / "docs/bench.svg").getroot()
    assert len([e for e in picture if e.tag.endswith("polyline")]) == 3
    again = {name: (tree / name).read_text() for name in publish.PAGES}
    publish_into(tree, measured())
    assert again == {name: (tree / name).read_text() for name in publish.PAGES}


def test_text_around_the_figures_stays(tree):
    def around(name):
        return re.sub(r"(<!-- bench: \w+ -->).*?<!-- end -->", r"\1", (tree / name).read_text(), flags=re.S)
    before = [around(name) for name in publish.PAGES]
    assert sum(text.count("<!-- bench: ") for text in before) == 3
    publish_into(tree, measured())
    assert before == [around(name) for name in publish.PAGES]


@pytest.mark.parametrize("found, message", [
    (measured(machine="simulated driver: no figure below means anything"), "simulated driver"),
    (measured(shapes=measured()["shapes"][1:]), "no loop 'N=4'"),
    (measured(shapes=[{**measured()["shapes"][0], "equal": False}]), "different results: N=4"),
    ([], "no file that benchmark.py made"), ("{", "publish: ")])
def test_what_is_not_published(tree, found, message):
    before = [(tree / name).read_text() for name in publish.PAGES]
    said = publish_into(tree, found, status=2)
    assert message in said and len(said.splitlines()) == 1
    assert before == [(tree / name).read_text() for name in publish.PAGES]


def test_figures_of_the_page_about_performance_are_in_the_results():
    """Times to the tenth, as measured."""
    performance, results = (re.search(rf"<!-- bench: {block} -->.*?<!-- end -->",
                                      (helpers.SOURCE / name).read_text(), flags=re.S)[0]
                            for name, block in zip(publish.PAGES, ("some", "all")))
    rows = {cells[0]: cells for cells in (line.strip("| ").split(" | ") for line in results.splitlines())}
    shown = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", performance, flags=re.M))
    for name, words in publish.SOME.items():
        eager, library, by_hand, speedup = rows[name][1:5]
        figures = [x if x == "-" else f"{float(x):.1f}" for x in (eager, library, by_hand)]
        written = shown[words].replace("*", "").split(" | ")
        assert written[2] == speedup
        for seen, wanted in zip((written[0], written[1], written[3]), figures):
            assert seen == wanted or abs(float(seen) - float(wanted)) < 0.11  # rounded twice
