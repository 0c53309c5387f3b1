# SPDX-License-Identifier: MIT
"""autograph doctor: what it says about machines, programs and options."""
import json
import ctypes.util
import os
import re
import shutil
import subprocess

import pytest

import commands
import helpers
from commands import LOOP, autograph, message

SAMPLE = LOOP[0]


def doctor(*arguments, status=0, env=None, **options):
    """The lines as {name: [texts]}, and the verdicts; no option is set."""
    done = autograph("doctor", *arguments, status=status,
                     env={**dict.fromkeys([*helpers.ON_SIMULATOR, *helpers.HELD]), **commands.WIDE, **(env or {})},
                     **options)
    assert done.stderr == ""
    facts, verdict = done.stdout.split("\n\n")
    found = {}
    for line in facts.splitlines():
        name, text = line.split(":", 1)
        found.setdefault(name, []).append(text.strip())
    return found, verdict


def test_a_usable_program():
    facts, verdict = doctor(SAMPLE)
    assert verdict == f"Usable: autograph {SAMPLE}\n"
    assert facts["library"] == [str(helpers.library())]
    assert facts["CUDA"] == [f"shared cudart: {helpers.sim_dir()}/libcudart.so.13"]
    assert "CUDA 13" in facts["driver"][0] and "Simulated GPU" in facts["GPU"][0]
    assert facts["configuration"] == ["no file: defaults"]


@helpers.without_driver
def test_a_machine_without_a_driver():
    facts, verdict = doctor(sim=False, status=1, env={"LD_LIBRARY_PATH": None})
    assert "libcuda.so.1" in facts["driver"][0]
    assert "no NVIDIA driver is installed" in verdict


@pytest.mark.skipif(bool(ctypes.util.find_library("cudart")), reason="every program finds the runtime")
def test_a_library_that_is_missing(tmp_path):
    sample = helpers.sample("constant-shared")
    if not sample.exists():
        pytest.skip("the samples for a GPU were not built")
    facts, verdict = doctor(sample, sim=False, status=1, env={"LD_LIBRARY_PATH": None})
    assert "see LD_LIBRARY_PATH" in facts["missing"][0] and "libcudart.so" in verdict


def test_the_toolkits_stub_is_no_driver(tmp_path):
    stub = helpers.config()["cuda_libdir"] + "/stubs/libcuda.so"
    if not os.path.exists(stub):
        pytest.skip("the toolkit has no stubs")
    (tmp_path / "libcuda.so.1").symlink_to(stub)
    _, verdict = doctor(status=1, sim=False, env={"LD_LIBRARY_PATH": tmp_path})
    assert "take them out of LD_LIBRARY_PATH" in verdict


@pytest.fixture
def stub(tmp_path):
    (tmp_path / "stub.c").write_text("int cuDriverGetVersion(void) { return 34; } "
                                     "int cuInit(void) { return 34; }")
    (tmp_path / "stubs").mkdir()
    helpers.tool(*helpers.config()["cc"].split(), "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1",
                 tmp_path / "stub.c", "-o", tmp_path / "stubs/libcuda.so.1")
    return tmp_path / "stubs/libcuda.so.1"


def test_a_program_that_is_linked_to_a_stub(tmp_path, stub):
    (tmp_path / "p.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0); }")
    helpers.tool(*helpers.config()["cc"].split(), tmp_path / "p.c", "-o", tmp_path / "p", stub,
                 f"-Wl,-rpath,{stub.parent},--disable-new-dtags")
    _, verdict = doctor(tmp_path / "p", status=1)
    assert f"the program is linked to the toolkit's stub, {stub}" in verdict


def test_other_drivers_than_the_one_that_is_loaded(tmp_path, stub):
    (tmp_path / "copy").mkdir()
    shutil.copy(helpers.sim_dir() / "libcuda.so.1", tmp_path / "copy/libcuda.so.1")
    paths = [helpers.sim_dir(), stub.parent, tmp_path / "copy"]
    facts, verdict = doctor(env={"LD_LIBRARY_PATH": ":".join(map(str, paths))})
    also = [fact for fact in facts["also"] if str(tmp_path) in fact]
    assert also == [f"{stub}: the toolkit's stub, which is left alone",
                    f"{tmp_path}/copy/libcuda.so.1: nothing is held in a program that uses both"]
    assert verdict == "Usable.\n"


@pytest.mark.parametrize("source,expected", [
    ('extern int cuInit(unsigned); int main(void) { return cuInit(0); }', "driver API, linked"),
    ('#include <dlfcn.h>\nint main(void) { return !dlopen("x", 1); }', "loads later is seen too"),
])
def test_ways_to_cuda(tmp_path, source, expected):
    (tmp_path / "p.c").write_text(source)
    libraries = [helpers.sim_dir() / "libcuda.so.1"] if "cuInit" in source else ["-ldl"]
    helpers.tool(*helpers.config()["cc"].split(), tmp_path / "p.c", "-o", tmp_path / "p", *libraries)
    facts, _ = doctor(tmp_path / "p", status=None)
    assert expected in facts["CUDA"][0]


@pytest.mark.parametrize("where", ["program", "library"])
def test_a_program_that_opens_namespaces(tmp_path, where):
    code = """#define _GNU_SOURCE
#include <dlfcn.h>
void *space(void) { return dlmopen(LM_ID_NEWLM, "x", RTLD_NOW); }
"""
    (tmp_path / "program.c").write_text("void *space(void); int main(void) { return !space(); }")
    (tmp_path / "space.c").write_text(code)
    cc = helpers.config()["cc"].split()
    helpers.tool(*cc, "-fPIC", "-shared", "-Wl,-soname,libspace.so", tmp_path / "space.c",
                 "-o", tmp_path / "libspace.so", "-ldl")
    helpers.tool(*cc, tmp_path / "program.c", "-o", tmp_path / "program", "-ldl",
                 *([tmp_path / "space.c"] if where == "program" else [tmp_path / "libspace.so"]))
    facts, _ = doctor(tmp_path / "program", status=None,
                      env={"LD_LIBRARY_PATH": f"{helpers.sim_dir()}:{tmp_path}"})
    assert "dlmopen" in facts["note"][0]


def test_static_cudart():
    sample = helpers.sample("constant-static")
    if not sample.exists():
        pytest.skip("the samples for a GPU were not built")
    facts, _ = doctor(sample, status=1)
    assert facts["CUDA"] == ["cudart is in the program (static)"]


def test_a_program_that_has_nothing_to_do_with_cuda(tmp_path):
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    helpers.tool(*helpers.config()["cc"].split(), tmp_path / "p.c", "-o", tmp_path / "p")
    _, verdict = doctor(tmp_path / "p", status=1)
    assert "neither uses CUDA" in verdict


SANITIZED = """
#include <stdio.h>
#include <stdlib.h>
int cuInit(unsigned);
void agsim_kernel_none(void) {}
int main(int argc, char **argv)
{
    char *bytes = malloc(1);
    puts(cuInit(0) == 0 ? "ran" : "failed");
    free(bytes);
    return argc > 1 ? bytes[0] : 0;
}
"""


def sanitized(tmp_path, compiler, *options):
    """A program that is built with the address sanitizer; any argument has it read freed memory."""
    (tmp_path / "p.c").write_text(SANITIZED)
    command = [*compiler, "-g", "-w", *options, tmp_path / "p.c", "-o", tmp_path / "p", helpers.sim_dir() / "libcuda.so.1"]
    if not shutil.which(compiler[0]) or \
            subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode:
        pytest.skip("this compiler, or its sanitizer, is not installed")
    return tmp_path / "p"


def clang_runtimes():
    """Where clang's shared runtimes are, which no linker looks at."""
    found = subprocess.run(["clang", "-print-runtime-dir"], capture_output=True, text=True, check=False).stdout.strip()
    other = subprocess.run(["clang", "-print-file-name=libclang_rt.asan-x86_64.so"], capture_output=True,
                           text=True, check=False).stdout.strip()
    return ":".join([found, os.path.dirname(other)])


SHARED = {"gcc": ["-fsanitize=address"], "clang": ["-fsanitize=address", "-shared-libsan"]}
STATIC = {"gcc": ["-fsanitize=address", "-static-libasan"], "clang": ["-fsanitize=address"]}
unsanitized = pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="the runtime is preloaded already")


@unsanitized
@pytest.mark.parametrize("compiler", SHARED)
def test_a_program_with_the_address_sanitizer(tmp_path, compiler):
    """It starts only if the sanitizer's runtime is preloaded first: the order that is told works."""
    program = sanitized(tmp_path, [compiler], *SHARED[compiler])
    paths = [str(helpers.sim_dir())] + ([clang_runtimes()] if compiler == "clang" else [])
    env = {"LD_LIBRARY_PATH": ":".join(paths)}
    assert "does not come first" in helpers.run(program, env=env, status=1).stderr
    _, verdict = doctor(program, status=1, env=env)
    assert verdict.startswith("Not useful: the address sanitizer is in it, ")
    order = re.search(r'^  LD_PRELOAD="(\S*asan\S*) (\S+)" (\S+)$', verdict, re.M)
    assert order[2] == str(helpers.library()) and order[3] == str(program)
    first = f"{order[1]} {order[2]}"
    assert helpers.run(program, preload=False, env={**env, "LD_PRELOAD": first}).stdout == "ran\n"
    assert "heap-use-after-free" in helpers.run([program, "x"], preload=False, status=1,
                                                env={**env, "LD_PRELOAD": first}).stderr
    assert order[0].strip() in message(autograph(program, status=2, env=env))
    _, verdict = doctor(program, env={**env, "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert verdict == f"Usable: autograph {program}\n"


@unsanitized
@pytest.mark.parametrize("compiler", STATIC)
def test_a_program_with_the_sanitizer_in_it(tmp_path, compiler):
    """It works as others do, and must not have a second runtime."""
    program = sanitized(tmp_path, [compiler], *STATIC[compiler])
    _, verdict = doctor(program)
    assert verdict == f"Usable: autograph {program}\n"
    assert autograph(program).stdout == "ran\n"
    assert "heap-use-after-free" in autograph(program, "x", status=1).stderr


def test_a_static_program(tmp_path):
    _, verdict = doctor(commands.elf(tmp_path / "static"), status=1)
    assert "it is static" in verdict


def test_a_script(tmp_path):
    path = commands.script(tmp_path / "run", "exec something")
    facts, _ = doctor(path)
    assert facts["script"] == [str(path)] and "/sh" in facts["program"][0]
    assert "get the library as well" in facts["CUDA"][0]


def test_options_and_where_they_come_from(tmp_path):
    (tmp_path / "autograph.ini").write_text(
        "[trace]\nhot = 9\nunroll = 64\nmin_length = x\n[hold]\nbund_us = 3\nrubbish\n")
    facts, _ = doctor(cwd=tmp_path, env={"AUTOGRAPH_CONFIG": None, "AUTOGRAPH_LOG_LEVEL": "2",
                                         "AUTOGRAPH_TRACE_HO": "3"})
    file = str(tmp_path / "autograph.ini")
    assert facts["configuration"] == [file]
    assert [o.split("   ") for o in facts["option"]] == [
        ["log.level = 2", "(AUTOGRAPH_LOG_LEVEL)"], ["trace.hot = 9", "(autograph.ini:2)"]]
    mistakes = "\n".join(facts["mistake"])
    assert "autograph.ini:4: trace.min_length" in mistakes
    assert "autograph.ini:6: there is no option hold.bund_us; did you mean hold.bound_us?" in mistakes
    assert "autograph.ini:7" in mistakes
    assert "there is no option AUTOGRAPH_TRACE_HO; did you mean AUTOGRAPH_TRACE_HOT?" in mistakes


@pytest.mark.parametrize("name,meant", [
    ("AUTOGRAPH_TRACE_HTO", "AUTOGRAPH_TRACE_HOT"), ("AUTOGRAPH_TRCAE_HOT", "AUTOGRAPH_TRACE_HOT"),
    ("AUTOGRAPH_REPROT", "AUTOGRAPH_REPORT"), ("AUTOGRAPH_DISBALE", "AUTOGRAPH_DISABLE"), ("AUTOGRAPH_CONFG", "AUTOGRAPH_CONFIG"),
    ("AUTOGRAPH_DISABEL", "AUTOGRAPH_DISABLE"), ("AUTOGRAPH_HOT", "AUTOGRAPH_TRACE_HOT"), ("AUTOGRAPH_TRACE_FOO", ""),
    ("AUTOGRAPH_TRACE_UNLIKE_ANY", ""), ("AUTOGRAPH_VERBOSITY", None), ("AUTOGRAPH_OF_OTHERS", None)])
def test_misspelt_variables(name, meant):
    """Those of other packages are left alone."""
    facts, _ = doctor(env={name: "1"})
    mistake = f"environment: there is no option {name}" + (f"; did you mean {meant}?" if meant else "")
    assert facts.get("mistake") == (None if meant is None else [f"{mistake}; it does not count"])
    said = helpers.run([helpers.build_dir() / "tests/unit/probe", "options"], preload=False, sim=False, env={name: "1"}).stderr
    assert said.split(": ", 1)[1:] == ([] if meant is None else [mistake.replace(";", ",") + "\n"]), "as the library says it"


def test_names_of_files_are_shown_as_they_become(tmp_path):
    facts, _ = doctor(env={"AUTOGRAPH_REPORT": "r-%r-%p%%.json", "RANK": "3"}, cwd=tmp_path)
    assert facts["option"][0].startswith(f"report.file = r-%r-%p%%.json, here {tmp_path}/r-3-%p%.json   (")


WITHOUT_PROC = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "sh", "-c",
                'mount -t tmpfs none /proc && exec "$@"', "sh"]


@helpers.unsanitized
def test_a_machine_without_proc(tmp_path):
    """A chroot, say. There is a verdict, and reports have the name by which the program was started."""
    if not shutil.which("unshare") or helpers.run([*WITHOUT_PROC, "true"], preload=False, status=None).returncode:
        pytest.skip("this user may not make a place without /proc")
    command = helpers.build_dir() / "autograph"
    env = {"LD_PRELOAD": None, **helpers.HELD}
    done = helpers.run([*WITHOUT_PROC, command, "doctor", SAMPLE], preload=False, env=env)
    assert done.stdout.endswith(f"Usable: autograph {SAMPLE}\n")
    helpers.run([*WITHOUT_PROC, command, f"--report={tmp_path}/r", *LOOP], preload=False, env=env)
    assert json.loads((tmp_path / "r").read_text())["program"] == str(SAMPLE)


def test_a_configuration_that_is_passed_over(tmp_path):
    file = tmp_path / "autograph.ini"
    file.write_text("[trace]\nhot = 9\n")
    file.chmod(0o666)
    facts, _ = doctor(cwd=tmp_path, env={"AUTOGRAPH_CONFIG": None, "HOME": tmp_path, "XDG_CONFIG_HOME": None})
    assert facts["configuration"] == ["no file: defaults"] and "option" not in facts
    assert facts["mistake"] == ["autograph.ini: passed over, since others may write it: chmod go-w; "
                                "it does not count"]
    if os.getuid() == 0:
        file.chmod(0o644)
        os.chown(file, 65534, -1)
        facts, _ = doctor(cwd=tmp_path, env={"AUTOGRAPH_CONFIG": None})
        assert facts["mistake"][0].startswith("autograph.ini: passed over, since it belongs to user 65534")


def test_a_set_report_is_above_the_one_in_the_environment():
    facts, _ = doctor("--set", "report.file=set", env={"AUTOGRAPH_REPORT": "given"})
    assert [o.split("   ")[0] for o in facts["option"] if "report" in o] == ["report.file = set"]


@pytest.mark.parametrize("env,words", [({"AUTOGRAPH_DISABLE": "1"}, "unset it"),
                                       ({"AUTOGRAPH_GENERAL_ENABLE": "no"}, "general.enable")])
def test_what_turns_it_off(env, words):
    _, verdict = doctor(env=env, status=1)
    assert words in verdict


def test_options_of_a_program(tmp_path):
    (tmp_path / "t.ini").write_text("[program:jac*]\ntrace.hot = 7\n[general]\nexclude = cons*\n")
    env = {"AUTOGRAPH_CONFIG": tmp_path / "t.ini"}
    facts, verdict = doctor(helpers.sample("jacobi-sim"), env=env)
    assert f"trace.hot = 7   ({tmp_path}/t.ini:2 [program:jac*])" in facts["option"]
    assert verdict.startswith("Usable")
    facts, verdict = doctor(helpers.sample("constant-sim"), env=env, status=1)
    assert not [option for option in facts["option"] if "trace.hot" in option]
    assert verdict == "Not useful: general.exclude names constant-sim: nothing is done there.\n"


@pytest.mark.parametrize("name", ["CUDA_LAUNCH_BLOCKING", "CUDA_LOG_FILE"])
def test_what_keeps_the_library_from_holding(name):
    """A variable of CUDA's: docs/semantics.md, "Environment variables of CUDA"."""
    _, verdict = doctor(env={name: "1"}, status=1)
    assert verdict.startswith(f"Not useful: {name} is set: ") and len(verdict.splitlines()) == 1
    _, verdict = doctor(env={name: ""})
    assert verdict == "Usable.\n"
    _, verdict = doctor(env={"CUDA_LAUNCH_BLOCKING": "0"})
    assert verdict == "Usable.\n"


@pytest.mark.parametrize("text", [
    "", "[trace]\nhot = 5\n", "[trace]\nhot=5 ; five\nunroll : 32\n", " [trace]\n  hot = 5\n",
    "[TRACE]\nHOT = 7\n", "[trace]\nhot = 5\nhot = 6\n", "hot = 5\n", "[trace]\nhot = 99999\n",
    "[report]\nfile = a;b\n", "[general]\nenable = OFF\n[update]\nstrategy = Set_Params\n",
    "[trace]\nhot\n= 5\nunroll = 16\n", "; hot = 5\n# [trace]\n[log]\nlevel = 2\n",
    "\ufeff[trace]\nhot = 5\n", "[trace]\r\nhot = 5\r\n", "[trace]\rhot = 5\n", "[trace]\nhot = 5\xa0\n",
    *(f"[trace]\n \tfile={'x' * n}\nhot = 5\n" for n in (194, 195)),
    *("[trace]\n" + "#\n" * n + "hot = 5\n" for n in (32756, 32764))],
    ids=lambda text: repr(text[:24]))
def test_files_are_read_as_the_library_reads_them(tmp_path, text):
    (tmp_path / "t.ini").write_text(text)
    env = {"AUTOGRAPH_CONFIG": tmp_path / "t.ini"}
    probe = helpers.build_dir() / "tests/unit/probe"
    lines = helpers.run([probe, "options"], preload=False, sim=False, env=env).stdout.splitlines()[1:]
    defaults = helpers.run([probe, "options"], preload=False, sim=False).stdout.splitlines()[1:]
    differ = sorted(line for line in lines if line not in defaults)
    facts, _ = doctor(env=env, status=None)
    ours = [o.split("   ")[0].replace(" = ", "=") for o in facts.get("option", [])]
    words = {"general.enable=OFF": "general.enable=false",
             "update.strategy=Set_Params": "update.strategy=set_params"}
    assert [words.get(o, o) for o in ours] == differ


@pytest.mark.parametrize("make,words", [
    (lambda p: p / "missing", "no such program"),
    (lambda p: p, "is a directory"),
    (lambda p: commands.elf(p / "library", kind=3), "shared library"),
    (lambda p: commands.script(p / "lost", "", interpreter="/no/such"), "is not there")])
def test_bad_input(tmp_path, make, words):
    done = autograph("doctor", make(tmp_path), status=2)
    assert words in message(done)


@pytest.mark.parametrize("version,status,words", [
    (11080, 1, "Not useful: the driver is for CUDA 11.8"), (12030, 1, "and 12.4 (driver 550) is the least"),
    (12040, 0, "CUDA 12.4")])
def test_drivers_of_all_ages(version, status, words):
    out = autograph("doctor", status=status, env={"AGSIM_DRIVER_VERSION": version}).stdout
    assert words in out


def test_a_machine_without_a_gpu():
    _, verdict = doctor(status=1, env={"AGSIM_DEVICES": 0, "CUDA_VISIBLE_DEVICES": "7"})
    assert "the driver finds no GPU" in verdict and "(which is '7')" in verdict
