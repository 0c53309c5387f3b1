# SPDX-License-Identifier: MIT
"""autograph [options] [--] command: what the program gets, and what is refused."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

import commands
import helpers
from commands import LOOP, autograph, message
from helpers import library

SHOW = ["sh", "-c", "env"]


def environment_of(*options, env=None, cwd=None):
    out = autograph(*options, *SHOW, env=env, cwd=cwd).stdout
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def test_the_program_is_replayed_and_reports(tmp_path):
    plain = helpers.run(LOOP, preload=False).stdout.splitlines()[0]
    done = autograph("--report", *LOOP, cwd=tmp_path)
    assert done.stdout.splitlines()[0] == plain
    assert re.fullmatch(rf"libautograph\[\d+\]: the report is written: autograph report {tmp_path}/autograph-report-0.json "
                        "shows it\n", done.stderr)
    data = json.loads((tmp_path / "autograph-report-0.json").read_text())
    assert data["ops"]["replayed"] > 100


def test_the_library_comes_behind_what_is_preloaded(tmp_path):
    other = str(helpers.sim_dir() / "libcudart.so.13")
    before = [p for p in (helpers.sanitizer_runtime(), other) if p]
    env = {"LD_PRELOAD": ":".join(before)}
    assert environment_of(env=env)["LD_PRELOAD"].split(":") == [*before, str(helpers.library())]
    twice = {"LD_PRELOAD": ":".join([*before, str(helpers.library())])}
    assert environment_of(env=twice)["LD_PRELOAD"] == twice["LD_PRELOAD"]


def test_options_become_variables(tmp_path):
    ini = tmp_path / "a.ini"
    ini.write_text("[trace]\nhot = 9\n")
    env = environment_of("--config", "a.ini", "--set", "trace.hot=5", "--set=HOLD.Bound_us=400",
                         "--set", "update.strategy=exec_update", "--disable", "--report=r.json",
                         cwd=tmp_path)
    assert env["AUTOGRAPH_CONFIG"] == str(ini)
    assert env["AUTOGRAPH_TRACE_HOT"] == "5" and env["AUTOGRAPH_HOLD_BOUND_US"] == "400"
    assert env["AUTOGRAPH_UPDATE_STRATEGY"] == "exec_update" and env["AUTOGRAPH_DISABLE"] == "1"
    assert env["AUTOGRAPH_REPORT"] == str(tmp_path / "r.json")
    assert environment_of("--config", "none")["AUTOGRAPH_CONFIG"] == ""
    assert environment_of("--report=stderr")["AUTOGRAPH_REPORT"] == "stderr"
    for name in "-", "stdout":
        env = environment_of(f"--report={name}", f"--trace={name}", cwd=tmp_path)
        assert env["AUTOGRAPH_REPORT"] == env["AUTOGRAPH_TRACE_FILE"] == "/dev/stdout" and "AUTOGRAPH_RUN" not in env


def test_a_set_report_is_above_the_one_in_the_environment():
    env = environment_of("--set", "report.file=/x", env={"AUTOGRAPH_REPORT": "/y"})
    assert env["AUTOGRAPH_REPORT"] == "/x"


def test_a_report_on_standard_output(tmp_path):
    plain = helpers.run(LOOP, preload=False).stdout.splitlines()[0]
    for name in "-", "stdout":
        done = autograph(f"--report={name}", *LOOP, cwd=tmp_path)
        assert plain in done.stdout and done.stderr == "" and os.listdir(tmp_path) == []
        data, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{"):])
        assert data["ops"]["replayed"] > 100


def test_only_the_users_own_percent_signs_are_special(tmp_path):
    place = tmp_path / "100%p"
    place.mkdir()
    autograph("--report=%r.json", *LOOP, cwd=place)
    assert os.listdir(place) == ["0.json"]


def test_verbose_says_what_is_set():
    done = autograph("-v", "--set", "trace.hot=5", *LOOP)
    first = done.stderr.splitlines()[0]
    assert "AUTOGRAPH_TRACE_HOT=5" in first and f"LD_PRELOAD={helpers.library()}" in first
    assert re.search(r"libautograph\[\d+\]: made a trace", done.stderr)
    assert "is at work: the first graph" in done.stderr


def test_the_programs_own_options_and_the_names_of_commands():
    assert autograph("echo", "--set", "x", "--", "y").stdout == "--set x -- y\n"
    assert autograph("--disable", "--", "echo", "doctor").stdout == "doctor\n"
    assert "no such program" in message(autograph("--", "bench-that-is-not-there", status=127))


@pytest.mark.parametrize("status", [0, 1, 77])
def test_its_status(status):
    autograph("sh", "-c", f"exit {status}", status=status)


def test_its_signals_and_its_process():
    """It is the program that the shell waits for: no process stands between."""
    autograph("sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)
    env = helpers.environment(preload=False, env={"LD_PRELOAD": helpers.sanitizer_runtime()})
    with subprocess.Popen([helpers.build_dir() / "autograph", "sh", "-c", "echo $$"], text=True,
                          stdout=subprocess.PIPE, env=env) as process:
        assert int(process.communicate(timeout=helpers.TIMEOUT)[0]) == process.pid


def test_no_signal_is_ignored():
    """Else a program goes on writing into a pipe that nobody reads."""
    ignored = int(autograph("grep", "SigIgn", "/proc/self/status").stdout.split()[1], 16)
    assert not any(ignored >> number - 1 & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


@pytest.mark.parametrize("given", [None, "C", "POSIX", "C.UTF-8"])
def test_its_locale(given):
    env = {"LC_ALL": None, "LANG": None, "LC_CTYPE": given}
    expected = given or "none"
    assert autograph("sh", "-c", "echo ${LC_CTYPE-none}", env=env).stdout == f"{expected}\n"
    done = autograph("bench", "--runs=1", "--time-from=(.*)", "--", "sh", "-c",
                     f'test "${{LC_CTYPE-none}}" = {expected} && echo 1', env=env, status=2)
    assert "saw no CUDA" in message(done)


@pytest.mark.parametrize("arguments,words", [
    ([], "which program?"),
    (["--report"], "which program?"),
    (["--set", "trace.hott=5", "true"], "did you mean trace.hot?"),
    (["--set", "graph.hot=5", "true"], "did you mean trace.hot?"),
    (["--set", "nonsense.at.all=5", "true"], "autograph.ini(5)"),
    (["--set", "trace.hot", "true"], "write section.key=value"),
    (["--set", "trace.hot=many", "true"], "from 2 to 1000"),
    (["--set", "general.enable=maybe", "true"], "not true or false"),
    (["--set", "update.strategy=best", "true"], "not one of auto, set_params, exec_update"),
    (["--set"], "expected one argument"),
    (["--config", "/no/such/file", "true"], "can be read"),
    (["--config", "/", "true"], "can be read"),
    (["--library", "/no/such.so", "true"], "build or install it"),
    (["--library", "/etc/passwd", "true"], "/etc/passwd: is not libautograph.so"),
    (["--library", helpers.sim_dir() / "libcuda.so.1", "true"], "is not libautograph.so; name that with --library"),
    (["--wrong", "true"], "--wrong"),
    (["--report=", "true"], "--report: the name is empty"),
    (["--report=/tmp", "true"], "'/tmp' is a directory: name a file"),
    (["--trace=/tmp/", "true"], "'/tmp/' is a directory"),
])
def test_mistakes_are_one_line(arguments, words):
    assert words in message(autograph(*arguments, status=2))


@pytest.mark.parametrize("arguments,status,words", [
    (["dcotor"], 127, "dcotor: there is no such program; did you mean autograph doctor?"),
    (["dcotor", LOOP[0]], 127, "did you mean autograph doctor?"), (["reprot"], 127, "did you mean autograph report?"),
    (["-v", "verfy", "--", "true"], 127, "did you mean autograph verify?"),
    (["--report", "report"], 127, "the command's name comes first: autograph report"),
    (["./dcotor"], 127, "./dcotor: there is no such program"), (["--", "dcotor"], 127, "there is no such program"),
    (["unlike-any"], 127, "unlike-any: there is no such program"), (["app"], 127, "did you mean ./app?"),
    (["--reprot", "true"], 2, "there is no option --reprot; did you mean --report?"),
    (["--reprot=x", "true"], 2, "did you mean --report?"), (["report", "--htlm", "x"], 2, "did you mean --html?"),
    (["verify", "--fliter", "x", "--", "true"], 2, "did you mean --filter?"),
    (["bench", "--unlike-any", "--", "true"], 2, "there is no option --unlike-any; see autograph bench --help"),
    (["doctor", "a", "b"], 2, "'b' is one word too many; see autograph doctor --help"),
    (["--set", "trace.hto=5", "true"], 2, "there is no option trace.hto; did you mean trace.hot?"),
    (["--report", "bad.json", "true"], 127, "bad.json: there is no such program; write --report=bad.json"),
    (["--trace", "./old.trace", "true"], 126, "write --trace=./old.trace"),
    (["--report", "--", "bad.json", "x"], 127, "bad.json: there is no such program")])
def test_what_was_meant(tmp_path, arguments, status, words):
    commands.script(tmp_path / "app", "")
    (tmp_path / "old.trace").write_text("")
    said = message(autograph(*arguments, status=status, cwd=tmp_path))
    assert said.endswith(words)


def test_a_program_is_started_whatever_its_name(tmp_path):
    for name in ("dcotor", "bad.json"):
        commands.script(tmp_path / name, "echo ran $1")
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        assert autograph(f"./{name}", cwd=tmp_path).stdout == autograph(name, env=env).stdout == "ran\n"
    assert autograph("--disable", "dcotor", "x", env=env).stdout == "ran x\n"


@pytest.mark.parametrize("arguments,env,words", [
    (["--disable", "--report"], {}, "--disable: there will be no report"),
    (["--disable", "--report=stderr", "--trace"], {}, "--disable: there will be no report and no trace"),
    (["--trace"], {"AUTOGRAPH_DISABLE": "1"}, "AUTOGRAPH_DISABLE is set: there will be no trace"),
    (["--report", "--set", "general.enable=no"], {}, "general.enable is false: there will be no report"),
    (["--report", "--set", "general.exclude=*sh"], {}, "general.exclude names "),
    (["--report"], {"AUTOGRAPH_DISABLE": "0"}, None), (["--disable"], {}, None)])
def test_a_report_that_will_not_be_there(tmp_path, arguments, env, words):
    done = autograph(*arguments, "sh", "-c", "echo ran", env=env, cwd=tmp_path)
    assert done.stdout == "ran\n" and (words in message(done) if words else done.stderr == "")


@pytest.mark.parametrize("arguments,status,words", [
    ([""], 127, "the program's name is empty"), (["bench", "--", ""], 2, "the program's name is empty"),
    (["doctor", ""], 2, "program: the name is empty; see autograph doctor --help"),
    (["report", ""], 2, "FILE: the name is empty"), (["report", "--html="], 2, "--html: the name is empty"),
    (["trace", ""], 2, "FILE: the name is empty"), (["compare", "a", ""], 2, "B: the name is empty"),
    (["--library=", "true"], 2, "--library: the name is empty"),
    (["verify", "--output", "", "--", "true"], 2, "--output: the name is empty"),
    (["bench", "--input=", "--", "true"], 2, "--input: the name is empty")])
def test_an_empty_name(arguments, status, words):
    assert words in message(autograph(*arguments, status=status))


def test_names_are_shown_as_they_become(tmp_path):
    env = {"SLURM_PROCID": "7"}
    done = autograph("-v", "--report", "--trace=%r-%p.trace", "sh", "-c", "echo $$", env=env, cwd=tmp_path)
    assert f"autograph: AUTOGRAPH_REPORT is {tmp_path}/autograph-report-7.json\n" in done.stderr
    assert f"autograph: AUTOGRAPH_TRACE_FILE is {tmp_path}/7-{done.stdout.strip()}.trace\n" in done.stderr
    # The library's complaints name the file, too.
    (tmp_path / "dir-7").mkdir()
    done = autograph("--set", "report.file=dir-%r", "--set", "trace.file=no-%r/x", *LOOP, env=env, cwd=tmp_path)
    assert f"the report {tmp_path}/dir-7 cannot be written" in done.stderr
    assert f"the trace {tmp_path}/no-7/x cannot be written" in done.stderr


def test_ranks_are_known_as_to_the_library():
    header = (helpers.SOURCE / "src/config/initial.h").read_text()
    names = re.search(r"#define AG_RANK_VARIABLES (.*)", header).group(1)
    assert re.findall(r'"(\w+)"', names) == list(commands.module("options").RANKS)


def test_shell_statuses(tmp_path):
    assert "there is no such program" in message(autograph("/no/such", status=127))
    assert "there is no such program" in message(autograph("no-such-program", status=127))
    assert "chmod +x" in message(autograph("/etc/passwd", status=126))
    for name in "/tmp/", ".", "..":
        assert f"{name}: is a directory" == message(autograph(name, status=126))


def test_programs_that_take_no_library(tmp_path):
    def refused(path, words):
        assert words in message(autograph(path, status=2))

    refused(commands.elf(tmp_path / "static"), "it is static")
    refused(commands.elf(tmp_path / "narrow", bits=32, machine=3), "x86 (32 bit)")
    refused(commands.elf(tmp_path / "foreign", machine=21, interpreter="/x"), "ppc64")
    refused(commands.elf(tmp_path / "library", kind=3), "it is a shared library")
    refused(commands.elf(tmp_path / "big", machine=21, order=">"), "ppc64")
    setuid = commands.elf(tmp_path / "setuid", interpreter="/lib64/ld-linux-x86-64.so.2")
    setuid.chmod(0o4755)
    refused(setuid, f"LD_PRELOAD is ignored; start a copy, which has no such rights: cp {setuid} setuid && autograph ./setuid")
    assert message(autograph("./setuid", cwd=tmp_path, status=2)).endswith(
        "cp ./setuid setuid.copy && autograph ./setuid.copy")
    refused(setuid.rename(tmp_path / "sudo"), "let it start autograph: sudo autograph COMMAND")


def test_programs_for_other_c_libraries(tmp_path):
    musl = commands.elf(tmp_path / "musl", interpreter="/lib/ld-musl-x86_64.so.1")
    script = commands.script(tmp_path / "script", "", interpreter=musl)
    for path in (musl, script):
        words = message(autograph(path, status=2))
        assert "C library musl" in words and "this library needs glibc" in words
    assert "C library musl" in autograph("doctor", musl, status=1).stdout


@helpers.unsanitized
@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="no musl-gcc")
def test_a_musl_program_that_a_script_starts(tmp_path):
    """It runs as without the library, and its look-ups reach musl."""
    (tmp_path / "p.c").write_text("""
#include <dlfcn.h>
#include <stdio.h>
int curious(void) { return 5; }
int main(void)
{
    int (*found)(void) = (int (*)(void))dlsym(dlopen(NULL, RTLD_NOW), "curious");
    printf("%d %d\\n", dlsym(RTLD_NEXT, "puts") != NULL, found ? found() : 0);
    return 3;
}""")
    helpers.tool("musl-gcc", "-rdynamic", "-o", tmp_path / "p", tmp_path / "p.c")
    script = commands.script(tmp_path / "script", f"{tmp_path}/p")
    plain = helpers.run(script, preload=False, sim=False, status=3)
    assert plain.stdout == "1 5\n"
    for env in ({}, {"AUTOGRAPH_REPORT": "stderr"}):
        ours = autograph(script, status=3, env=env)
        assert ours.stderr == "" and ours.stdout == plain.stdout


@helpers.unsanitized
def test_a_c_library_that_is_too_old(tmp_path):
    """It lies beside the program's dynamic linker, as ever."""
    (tmp_path / "old.map").write_text("GLIBC_2.2.5 { *; };")
    helpers.tool(*helpers.config()["cc"].split(), "-shared", "-nostdlib", "-x", "c", "/dev/null",
                 f"-Wl,--version-script={tmp_path}/old.map", "-o", tmp_path / "libc.so.6")
    old = commands.elf(tmp_path / "old", interpreter=str(tmp_path / "ld-linux-x86-64.so.2"))
    words = message(autograph(old, status=2))
    assert re.search(r"C library is too old: this library needs GLIBC_2\.[1-9]\d*; build", words)
    assert "C library is too old" in autograph("doctor", old, status=1).stdout


def test_files_that_are_no_programs(tmp_path):
    def refused(name, content, words):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
        assert words in message(autograph(tmp_path / name, status=2))

    good = commands.elf(tmp_path / "good", interpreter="/lib64/ld-linux-x86-64.so.2").read_bytes()
    refused("empty", b"", "is empty")
    refused("text", b"just text\n", "neither an ELF program nor a script")
    refused("cut", good[:40], "damaged")
    refused("cut-later", good[:-5], "damaged")
    refused("class", b"\x7fELF\x07" + good[5:], "damaged")
    refused("lost", b"#!/no/such/interpreter\n", "/no/such/interpreter is not there")
    refused("loop", f"#!{tmp_path}/loop\n".encode(), "too many")


def test_a_program_that_may_only_be_executed():
    """As its vendor has installed it."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        path = shutil.copy("/bin/echo", place)
        os.chmod(path, 0o111)
        drop = {"preexec_fn": lambda: os.setuid(65534)} if os.geteuid() == 0 else {}
        for needed in (library(), helpers.SOURCE / "src/cmd/main.py"):
            if subprocess.run(["test", "-r", needed], check=False, **drop).returncode != 0:
                pytest.skip("the build or the sources are not for others to see")
        assert autograph(path, "text", **drop).stdout == "text\n"


def test_a_script_is_started_by_its_interpreter(tmp_path):
    path = commands.script(tmp_path / "run", 'echo "$1 $LD_PRELOAD"')
    assert autograph(path, "x").stdout == f"x {helpers.library()}\n" \
        or helpers.sanitizer_runtime()


def test_a_library_that_the_linker_cannot_name(tmp_path):
    place = tmp_path / "with blank"
    place.mkdir()
    os.link(helpers.library(), place / "l.so") if os.stat(place).st_dev == os.stat(
        helpers.library()).st_dev else (place / "l.so").write_bytes(helpers.library().read_bytes())
    assert "blanks or colons" in message(autograph("--library", place / "l.so", "true", status=2))


def test_from_the_sources():
    """The modules run where they lie; nothing is written beside them."""
    main = helpers.SOURCE / "src/cmd/main.py"
    out = helpers.run([main, "--report=stderr", *LOOP], preload=False,
                      env={"AG_BUILD": helpers.build_dir(),
                           "LD_PRELOAD": helpers.sanitizer_runtime()})
    assert json.loads(out.stderr[out.stderr.index("{"):])["ops"]["replayed"] > 100
    assert not (main.parent / "__pycache__").exists()


def test_a_closed_pipe_is_no_error():
    for arguments in ("--help", "doctor"):
        command = f"{{ sleep 0.5; {helpers.build_dir()}/autograph {arguments}; }} | true"
        assert helpers.run(["sh", "-c", command], preload=False).stderr == ""


@pytest.mark.parametrize("arguments", ["--help", "--version", "doctor"])
def test_output_that_cannot_be_written_is_said(arguments):
    command = f"{helpers.build_dir()}/autograph {arguments} >/dev/full"
    done = helpers.run(["sh", "-c", command], preload=False, status=2)
    assert message(done) == "output: No space left on device"


def test_output_that_is_closed():
    """It is closed for the program as well; a command fails, as on a full disk."""
    for arguments, status in (("sh -c 'echo out || exit 7'", 7), ("true", 0), ("doctor", 2), ("report /no", 2)):
        command = f"{helpers.build_dir()}/autograph {arguments} >&- 2>&-"
        helpers.run(["sh", "-c", command], preload=False, status=status)
    for arguments in ("doctor", "--help", "--version"):
        command = f"{helpers.build_dir()}/autograph {arguments} >&-"
        done = helpers.run(["sh", "-c", command], preload=False, status=2)
        assert message(done) == "output: Bad file descriptor"


def test_version():
    assert autograph("--version").stdout == f"autograph {helpers.config()['version']}\n"
