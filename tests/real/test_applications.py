# SPDX-License-Identifier: MIT
"""tests/real/applications.toml: its list can be read, its patterns fit what the applications print, its
inputs can be made; and tests/real/run --own and tests/real/build do what such a list asks for."""
import importlib.machinery
import importlib.util
import json
import math
import random
import re
import shutil
import struct
import subprocess
import sys

import pytest

import helpers

tomllib = pytest.importorskip("tomllib", reason="Python is older than 3.11")
REAL = helpers.SOURCE / "tests/real"
LIST = REAL / "applications.toml"


def module(name):
    """A program of tests/real, or a module that it imports."""
    loader = importlib.machinery.SourceFileLoader(name, str(REAL / name))
    found = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.path.insert(0, str(REAL))
    try:
        loader.exec_module(found)
    finally:
        sys.path.remove(str(REAL))
    return found


# -- The list --------------------------------------------------------------------

# What each application prints and writes at the end, by its sources; and the times and results in it.
PRINTED = {
    "llama": ("abc w17 w3 w5 w5 w1 w10 w31 w2 w2 w9\ncommon_perf_print: prompt eval time =       7.03 ms /   512 tokens "
              "(    0.01 ms per token, 72830.73 tokens per second)\ncommon_perf_print:        eval time =     "
              "321.25 ms /   511 runs   (    0.63 ms per token,  1590.66 tokens per second)\n",
              {"a token": 321.25, "prompt": 7.03}, " w17 w3 w5 w5 w1 w10 w31 w2 w2 w9"),
    "whisper": (" w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11\n\nwhisper_print_timings:   encode time =    40.25 ms /     4 runs "
                "(    10.06 ms per run)\nwhisper_print_timings:   decode time =   812.50 ms /   876 runs "
                "(     0.93 ms per run)\n",
                {"decode": 812.5, "encode": 40.25}, " w1 w2 w3 w4 w5 w6 w7 w8 w9 w10"),
    "openmm": ("energy after 100 steps: -2.831000e+04 kJ/mol\ntemperature is right\nloop: 1.250000 s\n", {"": 1.25},
               "energy after 100 steps: -2.831000e+04 kJ/mol\ntemperature is right"),
    "gromacs": ("starting mdrun 'water'\n20000 steps,     40.0 ps.\n\n               Core t (s)   Wall t (s)        (%)\n"
                "       Time:        3.936        0.492      800.0\n                 (ns/day)    (hour/ns)\n"
                "Performance:       70.604        0.340\n\nmd.log:\n           Step           Time\n"
                "              0        0.00000\n\n   Energies (kJ/mol)\n        LJ (SR)   Coulomb (SR)   Coul. recip."
                "      Potential    Kinetic En.\n   -1.32676e+03   -1.01035e+03    3.59918e+02   -1.97718e+03    "
                "5.44723e+03\n   Total Energy  Conserved En.    Temperature Pressure (bar)\n    3.47004e+03    "
                "3.47004e+03    2.99772e+02    8.37591e+03\n\n           Step           Time\n          20000       40.00\n"
                "               Core t (s)   Wall t (s)        (%)\n       Time:        3.936        0.492      800.0\n"
                "Finished mdrun on rank 0 Fri Nov 27 14:15:56 2026\n",
                {"": 0.492}, "3.47004e+03\nFinished mdrun on rank 0"),
    "lammps": ("Step Temp E_pair E_mol TotEng Press \n       0         1.44   -6.7733681            0   -4.6139081\n"
               "     100   0.75715334   -5.7581426            0   -4.6226965\nLoop time of 0.929319 on 1 procs for 200 "
               "steps with 4000 atoms\n\nTotal wall time: 0:00:00\n", {"": 0.929319}, "0.75715334\nTotal wall time"),
    "gpumd": ("Time used for this run = 2.5 second.\nSpeed of this run = 8e+06 atom*step/second.\n\nthermo.out:\n"
              "# dump_thermo 2000\n# columns T KE PE sxx\n    1.5e+02    2.0e+01\n    1.6e+02    2.1e+01\n",
              {"": 2.5}, "    1.5e+02    2.0e+01"),
    "cupdlpx": ("Solution Summary\n  Status        : OPTIMAL\n  Iterations    : 1000\n  Solve time    : 0.5 sec\n"
                "  Primal obj    : 1234.5\n\ntransport-small_summary.txt:\nTermination Reason: OPTIMAL\n"
                "Runtime (sec): 5.123000e-01\nIterations Count: 1000\n", {"": 0.5123}, "OPTIMAL\n1234.5"),
    "hypre": ("=============================================\nSolve phase times:\n"
              "=============================================\nBoomerAMG Solve:\n"
              "  wall clock time = 0.012345 seconds\n  wall MFLOPS     = 0.000000\n\n\nBoomerAMG Iterations = 300\n"
              "Final Relative Residual Norm = 2.345678e-16\n", {"": 0.012345}, "300\ne-1"),
    "mfem": ("   Iteration :   0  (B r, r) = 0.000747692 ...\n   Iteration :  22  (B r, r) = 3.69518e-16\n"
             "Average reduction factor = 0.52519\nsolution: 1.598854198\nloop: 0.053229321 s\n", {"": 0.053229321},
             "22\n1.598854198"),
    "cvode": ("At t = 1.00   max.norm(u) =  5.925586e-05   nst =  143\n\nFinal Statistics.. \n\nnst     =   143\n", None,
              "5.925586e-05\n143"),
    "warp": ("density: 1.234500000e+03\nspeed: 5.670000000e+04\nloop: 1.250000 s\n", {"": 1.25},
             "1.234500000e+03\n5.670000000e+04"),
    "nest-gpu": ("Building time: 1.5\nSimulation time: 2.25\n\ntest_brunel_net.dat:\n99.900000\t-70.1\n"
                 "100.000000\t-70.2\n100.100000\t-70.3\n", {"": 2.25}, "100.000000\t-70.2\n100.100000\t-70.3"),
}


def test_the_list_can_be_read():
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    assert set(listed["programs"]) == set(PRINTED)
    files = module("generated.py").FILES
    for name, program in listed["programs"].items():
        assert program["kind"] and program["check"] and program["path"], name
        origin = listed["repositories"][program["repository"]]
        assert origin["licence"], name
        assert {"npm", "bundle"} <= set(origin) or {"url", "commit"} <= set(origin) or "debian" in origin, name
        assert set(program.get("graphs", {})) in (set(), {"on", "off"}), name
        assert program["command"].startswith("{bin}/"), name
        for _, pattern, _ in program.get("edits", []):
            re.compile(pattern)
    for name, program in module("run").listed(LIST).items():
        assert "{size}" not in "".join([program["command"], *program["links"].values(), *program.get("prepare", [])]), name
        linked = [target.split("/")[0] for target in program["links"].values()]
        assert {*re.findall(r"{data}/([^\s/]+)", program["command"]), *linked} <= set(files), name


@pytest.mark.parametrize("name", PRINTED)
def test_patterns_fit_what_is_printed(name):
    program = tomllib.loads(LIST.read_text(encoding="utf-8"))["programs"][name]
    text, times, found = PRINTED[name]
    runner = module("run")
    assert runner.checked(program, text) == found
    assert runner.checked(program, text.replace(found.split("\n", maxsplit=1)[0], "")) != found
    if times is None:
        assert re.search(program["end"], text) and re.search(program["begin"], "At t = 0      max.norm(u) =")
    else:
        assert runner.loop_times(program, text, 100, None) == times


# -- Inputs ----------------------------------------------------------------------

def fields(data, form, start):
    return struct.unpack_from(f"<{form}", data, start), start + struct.calcsize(f"<{form}")


def text_at(data, start):
    (length,), start = fields(data, "Q", start)
    return data[start:start + length].decode(), start + length


def value_at(data, kind, start):
    if kind == 8:
        return text_at(data, start)
    if kind == 9:
        (kind, count), start = fields(data, "IQ", start)
        values = []
        for _ in range(count):
            value, start = value_at(data, kind, start)
            values.append(value)
        return values, start
    (value,), start = fields(data, {4: "I", 5: "i", 6: "f"}[kind], start)
    return value, start


@pytest.mark.parametrize("kind, bits", [(1, 16), (2, 4.5), (8, 8.5)])
def test_a_language_model_is_as_its_format_says(tmp_path, monkeypatch, kind, bits):
    """Read again by the words of the format: keys, tensors one behind the other, and the file's length."""
    generated = module("generated.py")
    monkeypatch.setattr(generated, "VOCABULARY", 512)
    generated.language_model(2, 256, kind)(tmp_path / "model.gguf", random.Random(1))
    data = (tmp_path / "model.gguf").read_bytes()
    (magic, version, tensors, entries), at = fields(data, "4sIQQ", 0)
    assert (magic, version) == (b"GGUF", 3)
    keys = {}
    for _ in range(entries):
        key, at = text_at(data, at)
        (form,), at = fields(data, "I", at)
        keys[key], at = value_at(data, form, at)
    assert keys["llama.block_count"] == 2 and len(keys["tokenizer.ggml.tokens"]) == 512
    assert len(set(keys["tokenizer.ggml.tokens"])) == 512
    end, shapes = 0, {}
    for _ in range(tensors):
        name, at = text_at(data, at)
        (dimensions,), at = fields(data, "I", at)
        shape, at = fields(data, f"{dimensions}Q", at)
        (form, offset), at = fields(data, "IQ", at)
        assert offset == end and (form == kind) == (dimensions == 2)
        size = shape[0] * (shape[1] * bits / 8 if dimensions == 2 else 4)
        end, shapes[name] = -(-int(size) // 32) * 32 + end, shape
    assert shapes["blk.1.ffn_down.weight"] == (512, 256) and shapes["output.weight"] == (256, 512)
    assert len(data) == -(-at // 32) * 32 + end


def test_a_speech_model_is_as_its_format_says(tmp_path, monkeypatch):
    """Read again by the words of the format, to the file's last byte."""
    generated = module("generated.py")
    for name, value in (("SPEECH_WORDS", 300), ("SPEECH_TOKENS", 320), ("SPEECH_LENGTH", 8)):
        monkeypatch.setattr(generated, name, value)
    generated.speech_model(2, 64)(tmp_path / "model.bin", random.Random(1))
    data = (tmp_path / "model.bin").read_bytes()
    (magic, tokens, length, width, heads, layers, *_), at = fields(data, "12i", 0)
    assert (magic, tokens, length, width, heads, layers) == (0x67676d6c, 320, 8, 64, 1, 2)
    (mels, frequencies), at = fields(data, "2i", at)
    (words,), at = fields(data, "i", at + 4 * mels * frequencies)
    for _ in range(words):
        (size,), at = fields(data, "I", at)
        at += size
    shapes = {}
    while at < len(data):
        (dimensions, size, kind), at = fields(data, "3i", at)
        shape, at = fields(data, f"{dimensions}i", at)
        name, at = data[at:at + size].decode(), at + size
        shapes[name] = shape
        at += math.prod(shape) * (2 if kind == 1 else 4)
    # 15 tensors for a layer that listens, 24 for one that speaks, and those at both ends.
    assert at == len(data) and len(shapes) == 2 * 15 + 2 * 24 + 11
    assert shapes["decoder.blocks.1.cross_attn.value.bias"] == (64,) and shapes["encoder.conv1.weight"] == (3, 80, 64)


def test_small_inputs_are_the_same_each_time(tmp_path):
    generated = module("generated.py")
    for name in ("prompt.txt", "transport-small.mps", "silicon-small", "water-small", "melt-small.in"):
        for folder in ("one", "two"):
            generated.make(tmp_path / folder, name)
        one, two = (tmp_path / folder / name for folder in ("one", "two"))
        files = [(one, two)] if one.is_file() else [(file, two / file.name) for file in sorted(one.iterdir())]
        assert files and all(file.read_bytes() == other.read_bytes() for file, other in files)
    lines = (tmp_path / "one/transport-small.mps").read_text().splitlines()
    amounts = [line.split() for line in lines if line.startswith(" rhs")]
    assert sum(int(amount) * (1 if row[0] == "a" else -1) for _, row, amount in amounts) == 0
    assert len((tmp_path / "one/silicon-small/model.xyz").read_text().splitlines()) == 1002


# -- A program in Python ------------------------------------------------------------

# As much of Warp as the program uses: the example says what it was told.
WARP = """
class ScopedTimer:
    enabled = True
def constant(value):
    return value
def synchronize():
    pass
"""
FLUID = """
import warp
grid_width, grid_height = 256, 128
class Values(list):
    def numpy(self):
        return self
    def astype(self, kind):
        return Values(map(kind, self))
    def __abs__(self):
        return Values(map(abs, self))
    def sum(self):
        return sum(self)
class Example:
    def __init__(self):
        self.use_graph_capture, self.rho0, self.u0 = True, Values([grid_width, grid_height]), Values([0, 0])
    def step(self):
        assert not warp.ScopedTimer.enabled
        self.u0[0] -= 1 + self.use_graph_capture
"""


@pytest.mark.parametrize("graph, speed", [("0", "1.500000000e+01"), ("1", "3.000000000e+01")])
def test_warps_example_is_run_as_told(tmp_path, graph, speed):
    folder = tmp_path / "warp/examples/core"
    folder.mkdir(parents=True)
    (tmp_path / "warp/__init__.py").write_text(WARP)
    (folder / "example_fluid.py").write_text(FLUID)
    (tmp_path / "warp_fluid").write_bytes((REAL / "warp_fluid.py").read_bytes())
    done = helpers.run([sys.executable, tmp_path / "warp_fluid", "--width", "64", "--steps", "10"], preload=False,
                       sim=False, env={"WARP_GRAPH": graph})
    density, fast, loop = done.stdout.splitlines()
    assert (density, fast) == ("density: 9.600000000e+01", f"speed: {speed}")
    assert loop.startswith("loop: ")


# -- Beside its own graphs ---------------------------------------------------------

def own_table(folder, script, **settings):
    """The runner's status, lines, and rows for an application that is a script."""
    (folder / "bin").mkdir()
    (folder / "bin/app").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/app").chmod(0o755)
    entry = {"kind": "'fake'", "command": "'{bin}/app {size}'", **settings}
    (folder / "list").write_text("[programs.app]\n" + "".join(f"{key} = {value}\n" for key, value in entry.items()))
    done = subprocess.run([sys.executable, REAL / "run", "--own", "--dir", folder, "--programs", folder / "list",
                           "--library", helpers.library(), "--runs", "2", "--json", folder / "rows"],
                          env=helpers.environment(preload=False, env={**helpers.HELD, "NAME": None}),
                          capture_output=True, text=True, timeout=helpers.TIMEOUT, check=False)
    assert (folder / "rows").exists(), done.stderr
    return done, json.loads((folder / "rows").read_text())


SETTINGS = {"sizes": '{ small = "--iterations 60", large = "--iterations 90" }',
            "check": "['checksum (\\w+)']", "rows": "{ step = 'us_per_iteration ([\\d.]+)' }",
            "graphs": '{ off = { OWN = "" }, on = { OWN = "--graph" } }'}


@helpers.unsanitized
def test_an_application_beside_its_own_graphs(tmp_path):
    """A sample with and without a graph of its own, on the simulated driver."""
    sample = helpers.sample("constant-sim")
    done, rows = own_table(tmp_path, f'exec {sample} "$@" --warmup 4 --kernels 8 --size 40 $OWN', **SETTINGS)
    assert done.returncode == 0, done.stderr
    variants = ["without", "library", "own graphs", "own graphs + library"]
    assert [(row["program"], row["variant"]) for row in rows] == [
        (f"app {size}, step", variant) for size in ("small", "large") for variant in variants]
    assert all(row["output"] == "equal" and len(row["ratios"]) == 2 for row in rows)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert [line[:3] for line in lines] == [[row["program"], row["variant"], "2"] for row in rows]
    ops = [line[5:9] for line in lines[:4]]
    assert ops[0] == ops[2] == ["-", "-", "-", "-"]
    # Of 64 iterations of 8 kernels the first few are watched; one graph launch is one op beside own graphs.
    assert int(ops[1][0]) >= 512 and float(ops[1][1].split()[0]) > 25 and int(ops[1][2]) > 0, ops
    assert int(ops[3][0]) < int(ops[1][0]) and ops[3][2] == "0", ops


@pytest.mark.parametrize("script, output", [
    ("echo took 2 s", "fails without the library too (status no result)"),
    ("echo took 2 s; [ -n \"$LD_PRELOAD\" ] || echo value 3", "DIFFERENT (status no result)"),
    ("echo took 2 s; echo value 3${LD_PRELOAD:+1}", "DIFFERENT"),
    ("echo took 2 s; echo value 3; echo other $$", "equal")])
def test_a_result_is_what_the_checks_find(tmp_path, script, output):
    done, rows = own_table(tmp_path, script, check="['value (\\d+)']", time="'took (\\d+) s'")
    assert [row["variant"] for row in rows] == ["without", "library"][:len(rows)]
    assert rows[-1]["output"] == output or rows[0]["output"] == output
    assert done.returncode == int(output.startswith("DIFFERENT"))


def test_what_has_to_be_prepared_is_prepared_once(tmp_path):
    """Without the library, in the folder of the file; an application that it fails for is left out."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/app").write_text('#!/bin/sh\nif [ "$1" = make ]; then echo "${LD_PRELOAD:-none}" >>made; exit; fi\n'
                                      'cat "$1/melt-small.in/made"; echo took 1 s\n')
    (tmp_path / "bin/app").chmod(0o755)
    (tmp_path / "list").write_text(
        "[programs.one]\nkind = 'fake'\ncommand = '{bin}/app {data}'\ncheck = ['none']\ntime = 'took (.*) s'\n"
        "prepare = ['melt-small.in/made', '{bin}/app make']\n"
        "[programs.other]\nkind = 'fake'\ncommand = '{bin}/app {data}'\n"
        "prepare = ['melt-small.in/other', '{bin}/app make']\n")
    (tmp_path / "data/melt-small.in").mkdir(parents=True)
    command = [sys.executable, REAL / "run", "--own", "--dir", tmp_path, "--programs", tmp_path / "list", "--runs", "1",
               "--library", helpers.library(), "--data", tmp_path / "data"]
    done = subprocess.run(command, timeout=helpers.TIMEOUT,
                          env=helpers.environment(preload=False), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.count("| one |") == 2 and done.stdout.count("equal") == 2, done.stdout
    assert (tmp_path / "data/melt-small.in/made").read_text() == "none\nnone\n"  # and once by the other, in vain
    assert "other: " in done.stderr and done.stdout.endswith("or not prepared: other\n")


def test_the_first_obstacle_is_the_reports():
    runner = module("run")
    report = {"ops": {"total": 100, "replayed": 40, "eager": 60}, "flushes": {}, "replays": 2,
              "cuts": [{"ops": 10, "calls": 5, "function": "cuMemFree_v2", "reason": "barrier"},
                       {"ops": 50, "calls": 5, "function": "cuStreamSynchronize", "reason": "host_wait"}]}
    assert runner.obstacle(report) == "cuStreamSynchronize: 50 ops"
    assert runner.obstacle({**report, "cuts": [], "ops": {"total": 100, "replayed": 99, "eager": 1}}) == "nothing"
    assert runner.obstacle({}) == "-"


# -- Building ---------------------------------------------------------------------

BUILD = """
[repositories]
some = {{ {origin} }}
[programs.app]
repository = "some"
path = "."
edits = [["text", 'one', 'two']]
build = ["mkdir -p {{build}}; cp text {{build}}/edited", "echo {{gpu}} {{arch}} jobs {{jobs}} >>{{build}}/edited", "{last}"]
command = "{{bin}}/app"
"""
NPM = """#!/bin/sh
[ "$*" = "pack some@1.2" ] && git -C {folder}/origin bundle create -q {folder}/package/git.bundle HEAD &&
    tar -czf some-1.2.tgz -C {folder} package/git.bundle
"""
APT = """#!/bin/sh
[ "$*" = "source --download-only some=1.2-1" ] && touch some_1.2-1.dsc
"""
DPKG = """#!/bin/sh
for last; do :; done
mkdir "$last" && echo one >"$last/text"
"""


@pytest.fixture(name="listed")
def a_package(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    (tmp_path / "origin").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "origin/text").write_text("one\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", tmp_path / "origin"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    for name, text in (("npm", NPM), ("apt-get", APT), ("dpkg-source", DPKG), ("nvcc", "#!/bin/sh\n")):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).write_text(text.format(folder=tmp_path) if name == "npm" else text)
        (tmp_path / "tools" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("origin", ['npm = "some@1.2", bundle = "package/git.bundle"', 'debian = "some=1.2-1"'])
def test_builds_by_commands_from_a_package(listed, origin):
    environment = helpers.environment(preload=False)
    environment["PATH"] = f"{listed}/tools:{environment['PATH']}"
    environment.pop("CUDA_HOME", None)

    def build(last):
        (listed / "list").write_text(BUILD.format(origin=origin, last=last))
        return subprocess.run([sys.executable, REAL / "build", "--dir", listed / "to", "--programs", listed / "list",
                               "--arch", "sm_90", "--jobs", "3"], env=environment, capture_output=True, text=True,
                              timeout=helpers.TIMEOUT, check=False)

    done = build("cp {build}/edited {bin}/app")
    assert (done.returncode, done.stdout) == (0, "1/1 app: built\n"), done.stdout + done.stderr
    assert (listed / "to/bin/app").read_text() == "two\nsm_90 90 jobs 3\n"
    assert build("cp {build}/edited {bin}/app").stdout == "1/1 app: built\n"  # edits what came, not what it has edited
    (listed / "to/bin/app").unlink()
    done = build("true")
    assert done.returncode == 1 and "its commands made no" in done.stdout
    done = build("echo wrong; exit 3")
    assert done.returncode == 1 and "wrong" in done.stdout
