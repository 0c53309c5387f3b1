# SPDX-License-Identifier: MIT
"""The profile: what a run has learnt is known to the next one, and nothing that may be in the file disturbs a
program."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import compiled
import helpers
from trace_records import Trace

OWN = {**helpers.HELD, **helpers.OWN_SHAPES, "AGSIM_DELAY_US": 0}  # kernels of other grids are other ops
SLOW_GRAPHS = {"AGSIM_GRAPH_LAUNCH_US": 3000, "AUTOGRAPH_TRACE_DUEL": None}
BEFORE, ROUND = 37, 20  # ops of long_loop.c: its first ones, and those of its loop
NOTES = {"AUTOGRAPH_LOG_LEVEL": 2}


def loop(rounds=200, ops=ROUND):
    return [compiled.program("long_loop"), rounds, ops]


def steps(first, second):
    return [compiled.program("two_loops"), first, second]


def run(file, command, env=None, **more):
    """The run with that profile; its results are those without the library."""
    plain = helpers.run(command, preload=False)
    done = helpers.run_logged(command, env={**OWN, "AUTOGRAPH_TRACE_PROFILE": file, **(env or {})}, **more)
    assert done.stdout == plain.stdout and done.report["errors"] == 0
    return done


def traced(tmp_path, command):
    """The ops of the run before the first that was replayed, and its report."""
    file = tmp_path / "trace"
    env = {**OWN, "AUTOGRAPH_TRACE_PROFILE": tmp_path / "profile", "AUTOGRAPH_TRACE_FILE": file}
    done = helpers.run_logged(command, env=env, own_clock=False)
    first = min(last - held for _, _, last, held, replayed, *_ in Trace(file).submits if replayed)
    return first, done.report


def hash_of(text):
    value = 0xcbf29ce484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def ended(text):
    """The text of a profile, with its last line."""
    return text + b"end %016x\n" % hash_of(text)


class Profile:
    def __init__(self, file):
        body, self.end = re.fullmatch(rb"(.*\n)(end \w+\n)", pathlib.Path(file).read_bytes(), re.S).groups()
        assert ended(body) == body + self.end, "the file is whole"
        magic, *lines = body.decode().splitlines()
        assert magic == "AGPROFILE 1"
        self.identity = dict(line.split(" ", 1) for line in lines[:4])
        self.sequences = []  # replays, how, keys
        for line in lines[4:]:
            word, replays, how, length, *keys = line.split(" ")
            assert word == "sequence" and how in ("held", "lost") and len(keys) == int(length)
            self.sequences.append((int(replays), how, keys))


# -- What is known ----------------------------------------------------------------

def test_a_loop_is_replayed_after_one_round(tmp_path):
    """Other ops come before it, and nothing waits. A round may begin at any op of the loop."""
    first, before = traced(tmp_path, loop())
    assert first > BEFORE + 10 * ROUND
    second, after = traced(tmp_path, loop())
    assert BEFORE + ROUND <= second < BEFORE + 2 * ROUND
    assert after["ops"]["replayed"] > before["ops"]["replayed"]


def test_short_rounds_make_a_long_graph(tmp_path):
    run(tmp_path / "profile", loop(1000, 3))
    done = run(tmp_path / "profile", loop(1000, 3))
    assert done.report["trace_list"][0]["length"] >= 63
    assert done.report["ops"]["eager"] <= BEFORE + 3 + 66


def test_sequences_between_waits_are_replayed_from_the_second_on(tmp_path):
    before = run(tmp_path / "profile", steps(20, 0))
    after = run(tmp_path / "profile", steps(20, 0))
    assert before.report["ops"]["eager"] == 8 * 3
    assert after.report["ops"]["eager"] == 8 * 1
    assert after.log == before.log or sorted(after.log) == sorted(before.log)


def test_each_stream_and_thread_knows(tmp_path):
    """On a busy machine the thread that makes graphs may be late for all of the loop: tried more than once."""
    command = [helpers.sample("perthread-sim"), "--iterations", 100, "--kernels", 8, "--threads", 3]

    def loop():
        return helpers.run_logged(command, env={**OWN, "AUTOGRAPH_TRACE_PROFILE": tmp_path / "profile"})

    def is_replayed(done):
        assert done.stdout.split()[:2] == before.stdout.split()[:2]
        return done.report["traces"] > 0 and done.report["ops"]["replayed"] > 0.9 * done.report["ops"]["total"]

    before = loop()
    assert any(is_replayed(loop()) for _ in range(4))


def test_a_lost_trial_is_not_repeated(tmp_path):
    """The stream rests at once, for as long as after a first duel that is lost."""
    before = run(tmp_path / "profile", steps(2000, 0), SLOW_GRAPHS)
    assert before.report["duels_lost"] == 1
    assert {how for _, how, _ in Profile(tmp_path / "profile").sequences} == {"lost"}
    after = run(tmp_path / "profile", steps(2000, 0), {**SLOW_GRAPHS, **NOTES})
    assert after.report["duels"] == after.report["replays"] == after.report["traces"] == 0
    assert "holding did not pay in an earlier run" in after.stderr
    third = run(tmp_path / "profile", steps(4000, 0), SLOW_GRAPHS)
    assert third.report["replays"] > 0, "the rest ends"


def test_another_loop_ends_the_rest(tmp_path):
    run(tmp_path / "profile", steps(2000, 0), SLOW_GRAPHS)
    done = run(tmp_path / "profile", steps(200, 200), {**SLOW_GRAPHS, "AGSIM_GRAPH_LAUNCH_US": 0})
    assert done.report["ops"]["replayed"] >= 8 * 190 and done.report["duels_lost"] == 0


def test_what_is_lost_stays_known(tmp_path):
    """No trace of it is made in the second run, and what else that run learns goes into the file."""
    run(tmp_path / "profile", steps(2000, 0), SLOW_GRAPHS)
    run(tmp_path / "profile", steps(200, 200), {**SLOW_GRAPHS, "AGSIM_GRAPH_LAUNCH_US": 0})
    assert sorted(how for _, how, _ in Profile(tmp_path / "profile").sequences) == ["held", "lost"]


def test_without_trials_nothing_rests(tmp_path):
    run(tmp_path / "profile", steps(2000, 0), SLOW_GRAPHS)
    done = run(tmp_path / "profile", steps(20, 0))
    assert done.report["ops"]["eager"] == 8


def test_what_does_not_come_any_more_fades(tmp_path):
    run(tmp_path / "profile", steps(40, 0))
    (old,) = Profile(tmp_path / "profile").sequences
    assert old[0] == 37
    for expected in (18, 9, None):
        run(tmp_path / "profile", steps(0, 40))
        found = [replays for replays, _, keys in Profile(tmp_path / "profile").sequences if keys == old[2]]
        assert found == ([expected] if expected else [])


def test_a_short_run_forgets_nothing(tmp_path):
    run(tmp_path / "profile", steps(40, 0))
    before = (tmp_path / "profile").read_bytes()
    run(tmp_path / "profile", steps(4, 0))
    assert (tmp_path / "profile").read_bytes() == before
    run(tmp_path / "profile", steps(4, 40))
    assert sorted(replays for replays, *_ in Profile(tmp_path / "profile").sequences) == [37, 37]


def test_shapes_that_are_arguments_are_not_in_a_key(tmp_path):
    """A run with other sizes knows the same loop."""
    free = {"AUTOGRAPH_GRAPH_SHAPES": "true"}
    run(tmp_path / "profile", steps(40, 0), free)
    assert run(tmp_path / "profile", steps(0, 40), free).report["ops"]["eager"] == 8


def test_credit_is_kept(tmp_path):
    """Where graphs have cost too much known sequences are as others."""
    slow = {"AGSIM_INSTANTIATE_US": 5000, "AUTOGRAPH_GRAPH_CREDIT_MS": 1}
    run(tmp_path / "profile", steps(40, 40))
    done = run(tmp_path / "profile", steps(4, 4), slow, own_clock=False)
    assert done.report["traces"] == 1


# -- Whose it is --------------------------------------------------------------------

def test_the_file(tmp_path):
    run(tmp_path / "profile", loop())
    profile = Profile(tmp_path / "profile")
    program = compiled.program("long_loop")
    stat = program.stat()
    assert profile.identity == {
        "program": f"{program.resolve()} {stat.st_size} {int(stat.st_mtime)}",
        "library": helpers.config()["version"], "driver": profile.identity["driver"], "device": "Simulated GPU"}
    assert profile.sequences and all(len(keys) <= 128 for _, _, keys in profile.sequences)
    assert len(set(profile.sequences[0][2])) > 1


@pytest.mark.parametrize("word", ["program", "library", "driver", "device"])
def test_that_of_another_is_not_used_and_goes(tmp_path, word):
    file = tmp_path / "profile"
    run(file, steps(20, 0))
    good = file.read_bytes()
    file.write_bytes(ended(re.sub(rb"(?m)^%s .*" % word.encode(), rb"\g<0>5", good.rpartition(b"end ")[0])))
    done = run(file, steps(20, 0), NOTES)
    assert f"is not used: it is of another {word}" in done.stderr
    assert done.report["ops"]["eager"] == 8 * 3
    assert file.read_bytes() == good


def test_a_program_that_was_built_anew_is_another(tmp_path):
    program = shutil.copy(compiled.program("two_loops"), tmp_path / "program")
    run(tmp_path / "profile", [program, 20, 0])
    os.utime(program, (1, 1))
    assert run(tmp_path / "profile", [program, 20, 0]).report["ops"]["eager"] == 8 * 3


def test_another_driver(tmp_path):
    run(tmp_path / "profile", steps(20, 0))
    done = run(tmp_path / "profile", steps(20, 0), {"AGSIM_DRIVER_VERSION": 12080, **NOTES})
    assert "it is of another driver" in done.stderr


def test_names_are_expanded(tmp_path):
    run(tmp_path / "%h-%r-%%", steps(20, 0), {"RANK": 3})
    assert [f.name for f in tmp_path.iterdir()] == [f"{os.uname().nodename}-3-%"]
    done = run(tmp_path / "none" / "%r", steps(20, 0), {"RANK": 3})
    assert f"the profile {tmp_path}/none/3 cannot be written: No such file" in done.stderr


def test_nothing_is_written_where_nothing_was_replayed(tmp_path):
    for command in (steps(1, 0), ["/bin/true"]):
        helpers.run(command, env={"AUTOGRAPH_TRACE_PROFILE": tmp_path / "profile"})
    assert os.listdir(tmp_path) == []


def test_children_write_none(tmp_path):
    """Two of eight children are programs of their own, which replay too little."""
    command = [compiled.program("live_life"), "children"]
    with subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, env=helpers.environment(env={
            **OWN, "AUTOGRAPH_TRACE_PROFILE": tmp_path / "%p"})) as process:
        assert process.wait(helpers.TIMEOUT) == 0
    assert os.listdir(tmp_path) == [str(process.pid)]


# -- Bad files ------------------------------------------------------------------------

def directory(file):
    file.mkdir()


def fifo(file):
    os.mkfifo(file)


def another_file(file):
    file.write_text("my diary\n")


def too_large(file):
    with open(file, "r+b") as data:
        data.truncate(1 << 32)


def linked_to_nothing(file):
    file.unlink(missing_ok=True)
    file.symlink_to("/nowhere/at/all")


@pytest.mark.parametrize("how, message", [
    (directory, "is not used: the file there is none, and stays"), (fifo, "is not used: the file there is none, and stays"),
    (another_file, "is not used: the file there is none, and stays"), (too_large, "cannot be read: File too large"),
    (linked_to_nothing, "cannot be written: No such file or directory")])
def test_what_is_no_profile_stays(tmp_path, how, message):
    file = tmp_path / "profile"
    if how == too_large:
        run(file, steps(20, 0))
    how(file)
    before = os.lstat(file)
    done = run(file, steps(20, 0))
    assert done.stderr.count("\n") == 1 and message in done.stderr
    assert os.lstat(file).st_ino == before.st_ino and os.lstat(file).st_size == before.st_size
    assert len(list(tmp_path.iterdir())) == 1


def bodies(good):
    """Texts that may stand in place of a good one; what ends with a right last line was made by intention."""
    head, line = good.rpartition(b"sequence ")[0], b"sequence 30 held 2 1 2\n"
    return {
        "cut": good[:-30], "begun": good[:14], "one byte": good[:-40] + b"?" + good[-39:], "doubled": good + good,
        "zeros": good[:12] + bytes(4000), "no keys": ended(head + b"sequence 30 held 0\n"),
        "keys missing": ended(head + b"sequence 30 held 9 1 2\n"), "too many keys": ended(head + b"sequence 30 held 1 1 2\n"),
        "most keys": ended(head + b"sequence 30 held 18446744073709551615 1 2\n"),
        "negative": ended(head + b"sequence -1 held 1 1\n"), "overflow": ended(head + b"sequence 30 held 1 1" + 30 * b"0" + b"\n"),
        "word": ended(head + b"sequence 30 hold 1 1\n"), "no line": ended(head + b"\n"), "zero": ended(head + line + b"\0"),
    }


@pytest.mark.parametrize("name", bodies(b"a sequence "))
def test_what_is_damaged_is_replaced(tmp_path, name):
    file = tmp_path / "profile"
    run(file, steps(20, 0))
    good = file.read_bytes()
    file.write_bytes(bodies(good)[name])
    done = run(file, steps(20, 0))
    assert done.stderr.count("\n") == 1 and "is damaged, and not used" in done.stderr
    assert done.report["ops"]["eager"] == 8 * 3 and file.read_bytes() == good


@pytest.mark.parametrize("lines", [b"", b"sequence 30 held 2 1 2\n" * 600, b"sequence 30 held 1000 %s\n" % b" ".join(1000 * [b"7"]),
                                   b"".join(b"sequence 9 held 128 %s\n" % b" ".join(b"%x" % (i + k) for k in range(128))
                                            for i in range(512))], ids=["none", "many", "long", "most"])
def test_what_nothing_has_is_no_harm(tmp_path, lines):
    file = tmp_path / "profile"
    run(file, steps(20, 0))
    head = file.read_bytes().partition(b"sequence ")[0]
    file.write_bytes(ended(head + lines))
    done = run(file, steps(20, 0))
    assert done.stderr == "" and done.report["ops"]["eager"] == 8 * 3
    assert Profile(file).sequences[0][0] == 17


def given_away(path, kind):
    """Makes the file one that somebody else has written, or may write."""
    if kind in ("group", "others"):
        path.chmod(0o664 if kind == "group" else 0o646)
        return
    if os.getuid() != 0:
        pytest.skip("needs files of another user")
    if kind == "link":
        path.rename(path.with_name("own"))
        path.symlink_to("own")
    os.chown(path, 65534, -1, follow_symlinks=False)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("kind", ["owner", "link", "group", "others"])
def test_what_somebody_else_may_have_written_is_not_obeyed(tmp_path, kind, public):
    """What is another user's stays as it is; one's own file is written anew."""
    file = tmp_path / "place/profile"
    file.parent.mkdir()
    file.parent.chmod(0o1777 if public else 0o755)
    run(file, steps(20, 0))
    assert run(file, steps(20, 0)).report["ops"]["eager"] == 8, "it is obeyed"
    given_away(file, kind)
    before, own = os.lstat(file), kind in ("group", "others")
    done = run(file, steps(20, 0))
    assert done.report["ops"]["eager"] == 8 * 3
    why = "others may write it" if own else "it belongs to user 65534, and stays"
    assert done.stderr.endswith(f"the profile {file} is not used: {why}\n") and done.stderr.count("\n") == 1
    after = os.lstat(file)
    assert (after.st_ino != before.st_ino) == own
    if own:
        done = run(file, steps(20, 0))
        assert done.stderr == "" and done.report["ops"]["eager"] == 8


def test_nobody_else_may_write_it(tmp_path):
    """Whatever the umask: it would not be used again."""
    run(tmp_path / "profile", steps(20, 0), preexec_fn=lambda: os.umask(0))
    assert (tmp_path / "profile").stat().st_mode & 0o777 == 0o644
    assert run(tmp_path / "profile", steps(20, 0)).report["ops"]["eager"] == 8


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_rights(tmp_path):
    file = tmp_path / "profile"
    run(file, steps(20, 0))
    file.chmod(0)
    assert "cannot be read: Permission denied" in run(file, steps(20, 0)).stderr
    file.unlink()
    tmp_path.chmod(0o500)
    try:
        assert "cannot be written: Permission denied" in run(file, steps(20, 0)).stderr
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("same", [False, True], ids=["own", "equal"])
def test_many_processes_write_one(tmp_path, same):
    """Whoever reads meanwhile finds a whole file. In containers the processes have equal numbers."""
    file, seen = tmp_path / "profile", set()
    env = helpers.environment(env={**OWN, "AUTOGRAPH_TRACE_PROFILE": file}, clock=compiled.clock())
    if same:
        env["LD_PRELOAD"] += ":" + compiled.same_number()
    for _ in range(4):
        processes = [subprocess.Popen([str(c) for c in steps(20 + i, 20)], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE) for i in range(4)]
        while any(process.poll() is None for process in processes):
            if file.exists():
                seen.add(len(Profile(file).sequences))
        assert [process.communicate()[1] for process in processes] == 4 * [b""]
        assert all(process.returncode == 0 for process in processes)
    assert os.listdir(tmp_path) == ["profile"] and seen
