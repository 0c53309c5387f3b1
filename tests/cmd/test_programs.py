# SPDX-License-Identifier: MIT
"""Options for some programs only: sections [program:NAME], and programs that are left alone."""
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile

import pytest

import helpers
from test_config import DEFAULTS, LOOP, ini, options, probe  # noqa: F401  (ini is a fixture)

sys.path.insert(0, str(helpers.SOURCE / "src/cmd"))

import elf  # noqa: E402  (needs the path above)
import options as command  # noqa: E402

NAME = "probe"  # of the program that prints its options


def both(env):
    """(values that differ, complaints) of the library, once autograph doctor has been seen to agree."""
    values, complaints = options(env)
    differ = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    environ = {name: str(value) for name, value in env.items()}
    _, told, _ = command.effective(environ, NAME)
    assert {name: value for name, (value, _) in told.items()} == differ
    return differ, complaints


@pytest.mark.parametrize("pattern, applies", [
    ("probe", True), ("pro*", True), ("*", True), ("p?obe", True), ("[a-p]robe", True), ("p[!x]obe", True),
    ("prob[ed]", True), ("pr\\obe", True), ("prob", False), ("Probe", False), ("p[!r]obe", False),
    ("other", False), ("probe*[0-9]", False)])
def test_a_name_is_a_pattern(ini, pattern, applies):
    assert both(ini(f"[program:{pattern}] ; why ]\ntrace.hot = 7\n")) == ({"trace.hot": "7"} if applies else {}, [])


def test_what_a_section_is_above_and_below(ini):
    """Wherever it stands it is above the general ones; of two the later one counts."""
    text = ("[program:p*]\ntrace.hot = 5\nTRACE.unroll = 16\n[trace]\nhot = 6\nunroll = 32\nmin_length = 4\n"
            "[program:other]\ntrace.hot = 9\n[PROGRAM:probe]\ntrace.hot = 7\n")
    expected = {"trace.hot": "7", "trace.unroll": "16", "trace.min_length": "4"}
    assert both(ini(text)) == (expected, [])
    assert both({**ini(text), "AUTOGRAPH_TRACE_HOT": "8"}) == ({**expected, "trace.hot": "8"}, [])


def test_an_option_of_a_wrong_value_is_as_without_it(ini):
    values, complaints = both(ini("[trace]\nhot = 6\n[program:probe]\ntrace.hot = x\n"))
    assert values == {"trace.hot": "6"} and len(complaints) == 1 and "it stays 6" in complaints[0]


MISTAKES = [
    ("[program:]\n", "[program:] stands for no program: there is no name"),
    ("[program:/bin/app]\n", "[program:/bin/app] stands for no program: a name has no slash"),
    ("[program:a[b]\n", "[program:a[b] stands for no program: a bracket is not closed"),
    ("[program:other]\n[program:other]\n", "[program:other] comes a second time, and is left out"),
    ("[program:probe]\ntrace.hott = 5\n", "there is no option trace.hott, did you mean trace.hot?"),
    ("[program:probe]\nhot = 5\n", "there is no option hot, did you mean trace.hot?"),
    ("[program:probe\n", 'neither "[section]" nor "key = value"'),
    (f"[program:{'x' * 200}]\n", "this line is longer than 199 bytes and is left out"),
    ("[programs:probe]\n", "there is no option programs:probe.trace.unroll")]


@pytest.mark.parametrize("text, message", MISTAKES, ids=[text[:24].strip() for text, _ in MISTAKES])
def test_mistakes(ini, text, message):
    """One line each; the section that is wrong is nobody's."""
    env = ini(text + "trace.unroll = 32\n")
    values, complaints = both(env)
    good = "trace.hott" in text or "hot = 5" in text
    assert values == ({"trace.unroll": "32"} if good else {})
    lines = [c.split(": ", 1)[1] for c in complaints]
    lines.remove(message)
    assert lines in ([], ["there is no option .trace.unroll, did you mean trace.unroll?"])
    told = command.effective({"AUTOGRAPH_CONFIG": str(env["AUTOGRAPH_CONFIG"])}, NAME)[2]
    assert len(told) == len(complaints)


def test_options_of_other_programs_are_not_looked_at(ini):
    """But by autograph doctor."""
    env = ini("[program:other]\ntrace.hott = 5\ntrace.hot = x\n")
    assert both(env) == ({}, [])
    assert len(command.effective({"AUTOGRAPH_CONFIG": str(env["AUTOGRAPH_CONFIG"])}, NAME)[2]) == 2


LINES = ["[trace]", "[program:probe]", "[program:p*]", "[program:other]", "[program:pr[a-z]be]", "[program:]",
         "[program:a[b]", "[program:/x]", "[PROGRAM:pro?e] ; c ]", "[program:probe", "[program:probe] x",
         "[ program:probe]", "[program: probe]", "[x]", "hot = 5", "trace.hot = 6", "trace.hot=8 ;x", "trace.unroll : 32",
         "unroll=16", "[", "[]", "[;]", "[program:a;b]", "[program:a ;b]", "  [program:probe]", "TRACE.HOT=11", "trace.hot",
         "=", "trace.hot=zz", "general.exclude=probe", "; c", f"[program:{'y' * 190}]", "\ufeff[program:probe]",
         "[trace] ; ]", "[tra]ce]", "[program:pro\\be]", "\t[trace]\r", "[program:probe]\r", "trace.hot\t=\t9"]


@pytest.mark.parametrize("seed", range(helpers.by_scale(2, 4, 40)))
def test_files_are_read_as_autograph_doctor_reads_them(ini, seed):
    chance = random.Random(seed)
    for _ in range(25):
        both(ini("\n".join(chance.choices(LINES, k=chance.randint(1, 9)))))


# -- Programs that are left alone ---------------------------------------------------

def calls(preload, env):
    """What the driver has seen of a program that launches."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch, "calls")
        done = helpers.run(LOOP, preload=preload, env={"AGSIM_CALLS": file, **env})
        assert done.stderr == ""
        return file.read_text()


@pytest.mark.parametrize("exclude, untouched", [
    ("constant-sim", True), ("ls, cons*", True), ("ls constant-si[m]\tcp", True), ("constant", False), ("", False),
    ("ls,cp", False)])
def test_an_excluded_program_is_untouched(ini, exclude, untouched):
    """The driver sees the very same calls."""
    env = ini(f"[general]\nexclude = {exclude}\n")
    assert (calls(True, env) == calls(False, env) != "") == untouched
    environ = {"AUTOGRAPH_CONFIG": str(env["AUTOGRAPH_CONFIG"])}
    assert command.is_excluded(command.effective(environ)[1], "constant-sim") == untouched


def test_who_is_excluded_may_come_back(ini):
    env = {**ini("[general]\nexclude = *\n"), "AUTOGRAPH_GENERAL_EXCLUDE": ""}
    assert calls(True, env) != calls(False, env)


def test_a_section_turns_a_program_off(ini):
    env = ini("[program:constant-sim]\ngeneral.enable = false\n")
    assert calls(True, env) == calls(False, env)


def test_a_mistake_in_the_list():
    _, complaints = options({"AUTOGRAPH_GENERAL_EXCLUDE": "a[b, /bin/c"})
    assert complaints == ['general.exclude: "a[b" stands for no program: a bracket is not closed',
                          'general.exclude: "/bin/c" stands for no program: a name has no slash']
    assert command.effective({"AUTOGRAPH_GENERAL_EXCLUDE": "a[b, /bin/c", "AUTOGRAPH_CONFIG": ""})[2] == complaints


def test_verbose_says_that_a_program_is_excluded(ini):
    done = helpers.run(LOOP, env={**ini("[general]\nexclude = constant-*\n"), "AUTOGRAPH_VERBOSE": "1"})
    assert done.stderr.split(": ", 1)[1] == "nothing is held: general.exclude names this program\n"


def test_the_name_is_that_of_the_executable(ini, tmp_path):
    """Not of a link to it, nor of the script or what the program calls itself."""
    shutil.copy(helpers.build_dir() / "tests/unit/probe", tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "script").write_text(f"#!{tmp_path}/real options\n")
    (tmp_path / "script").chmod(0o755)
    env = ini("[program:real]\ntrace.hot = 7\n[program:link]\ntrace.unroll = 16\n[program:script]\ntrace.unroll = 16\n")
    for program in ([tmp_path / "link", "options"], [tmp_path / "script"]):
        done = helpers.run(program, preload=False, sim=False, env=env, executable=str(program[0]))
        values = dict(line.split("=", 1) for line in done.stdout.splitlines()[1:])
        assert (values["trace.hot"], values["trace.unroll"]) == ("7", "64"), program
    assert probe("options", env)[1] == []


def by_linker(how):
    """The dynamic linker, as a command that runs the program behind it."""
    linker = pathlib.Path(elf.Elf(LOOP[0]).interpreter)
    return [linker, *{"alone": [], "path": ["--library-path", helpers.sim_dir()], "name": ["--argv0", "other"],
                      "preload": ["--preload", helpers.library()]}[how]]


@pytest.mark.parametrize("how", ["alone", "path", "name", "preload"])
def test_a_program_that_the_dynamic_linker_is_told_to_run(ini, tmp_path, how):
    """The name is the program's, not the linker's."""
    env = {**ini("[program:constant-*]\ntrace.hot = 7\n[program:ld*]\ntrace.hot = 8\n"), "AUTOGRAPH_REPORT": tmp_path / "r"}
    helpers.run([*by_linker(how), *LOOP], env=env, preload=how != "preload")
    data = json.loads((tmp_path / "r").read_text())
    assert data["program"] == str(LOOP[0]) and data["options"]["trace.hot"] == 7 and data["ops"]["total"] > 0
    (tmp_path / "r").unlink()
    helpers.run([*by_linker(how), *LOOP], env={**env, "AUTOGRAPH_GENERAL_EXCLUDE": "constant-sim"}, preload=how != "preload")
    assert not (tmp_path / "r").exists()


def test_a_long_path_of_a_program_that_the_linker_runs(ini, tmp_path):
    """A path may have blanks, and be as long as paths are."""
    place = tmp_path.joinpath("a b", *15 * ["x" * 200])
    place.mkdir(parents=True)
    program = shutil.copy(LOOP[0], place / "a program")
    env = {**ini("[program:a program]\ntrace.hot = 7\n"), "AUTOGRAPH_REPORT": tmp_path / "r"}
    helpers.run([*by_linker("alone"), program, *LOOP[1:]], env=env)
    assert json.loads((tmp_path / "r").read_text())["options"]["trace.hot"] == 7


def test_a_profile_is_of_the_program_that_the_linker_runs(tmp_path):
    for program in LOOP[0], shutil.copy(helpers.sample("events-sim"), tmp_path / "constant-sim"):
        helpers.run([*by_linker("alone"), program], env={"AUTOGRAPH_TRACE_PROFILE": tmp_path / "profile"})
        stat = os.stat(program)
        assert f"program {program} {stat.st_size} {int(stat.st_mtime)}\n" in (tmp_path / "profile").read_text()
