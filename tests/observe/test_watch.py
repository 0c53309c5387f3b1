# SPDX-License-Identifier: MIT
"""What a program shows while it runs: live counters, and a report on SIGUSR2."""
import collections
import contextlib
import json
import os
import pathlib
import signal
import stat
import struct
import subprocess
import time

import pytest

import compiled
import helpers

MAGIC = b"AGLIVE\n\0"
COUNTERS = ("wall start now ops replayed replays patches updates traces side_exits errors streams "
            "trace_bytes trace_lost").split()
Live = collections.namedtuple("Live", ["pid", *COUNTERS, "flushes", "region", "program"])


def live_file(pid):
    return pathlib.Path(f"/dev/shm/autograph.{os.getuid()}.{pid}")


def is_live(pid):
    """Whether the file is there, and begun: it is empty at first, and its first word is written last."""
    return live_file(pid).exists() and live_file(pid).read_bytes()[:8] == MAGIC


def read_live(pid):
    """The counters, as docs/formats.md describes them."""
    for _ in range(1000):
        data = live_file(pid).read_bytes()
        assert len(data) == 4096
        again = live_file(pid).read_bytes()
        magic, version, number, sequence = struct.unpack_from("<8sIIQ", data)
        if sequence % 2 == 0 and struct.unpack_from("<Q", again, 16)[0] == sequence:
            break
    assert magic == MAGIC and version == 1
    return Live(number, *struct.unpack_from("<14Q", data, 24), struct.unpack_from("<16Q", data, 136),
                data[264:328].rstrip(b"\0").decode(), data[328:584].rstrip(b"\0").decode())


def wait_for(condition, what):
    end = time.monotonic() + helpers.TIMEOUT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@contextlib.contextmanager
def running(env, *words, **options):
    """The program while it runs, until its standard input ends."""
    with subprocess.Popen([compiled.program("observe_live"), *words], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=helpers.environment(env=env), **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ends(process):
    out, err = process.communicate("end\n", timeout=helpers.TIMEOUT)
    assert process.returncode == 0, err
    return out, err


# -- Live counters --------------------------------------------------------------

def test_counters_of_a_running_program():
    with running({"AUTOGRAPH_REPORT_LIVE": "true"}) as process:
        file = live_file(process.pid)
        wait_for(lambda: is_live(process.pid) and read_live(process.pid).replayed > 0, "nothing is shown")
        first = read_live(process.pid)
        wait_for(lambda: read_live(process.pid).ops > first.ops, "nothing changes")
        second = read_live(process.pid)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert second.pid == process.pid and second.program == str(compiled.program("observe_live"))
        assert second.now > first.now >= first.start and second.start == first.start
        assert abs(second.wall / 1e9 - time.time()) < helpers.TIMEOUT
        assert second.ops >= second.replayed > 0 and second.traces >= 1 and second.streams >= 1
        assert second.errors == second.trace_bytes == 0 and second.region == ""
        assert ends(process) == ("0 0\n", "")
        assert not file.exists()


def test_the_last_counters_are_those_of_the_report(tmp_path):
    """They are shown once more at exit, and a reader that has the file open sees them."""
    file = tmp_path / "report"
    with running({"AUTOGRAPH_REPORT_LIVE": "true", "AUTOGRAPH_REPORT": file,
                  "AUTOGRAPH_TRACE_FILE": tmp_path / "trace"}) as process:
        wait_for(lambda: is_live(process.pid), "nothing is shown")
        with open(live_file(process.pid), "rb") as shown:
            ends(process)
            data = shown.read()
    report = json.loads(file.read_text())
    numbers = dict(zip(COUNTERS, struct.unpack_from("<14Q", data, 24)))
    assert numbers["ops"] == report["ops"]["total"] and numbers["replayed"] == report["ops"]["replayed"]
    for name in ("replays", "patches", "updates", "traces", "side_exits", "errors"):
        assert numbers[name] == report[name], name
    assert list(struct.unpack_from("<16Q", data, 136))[:len(report["flushes"])] == \
        list(report["flushes"].values())
    given_up, eager = (struct.unpack_from(form, data, at) for form, at in (("<16Q", 592), ("<64Q", 720)))
    words = list(report["eager_ops"])
    held = words.index(next(iter(report["flushes"])))  # where those begin that tell of held ops
    assert dict(zip(words, (*eager[:held], *given_up))) == report["eager_ops"]
    assert sum(eager) + sum(given_up) == report["ops"]["eager"]
    assert numbers["trace_bytes"] == report["trace_file"]["bytes"] == (tmp_path / "trace").stat().st_size


def test_nothing_is_shown_unless_asked():
    with running({}) as process:
        time.sleep(0.3)
        assert not live_file(process.pid).exists()
        ends(process)


def test_a_file_that_is_left_over_is_replaced(tmp_path):
    """A dead process that had this number has left its own."""
    script = tmp_path / "start"
    script.write_text("#!/bin/sh\necho old >/dev/shm/autograph.$(id -u).$$\nexec \"$@\"\n")
    script.chmod(0o755)
    with subprocess.Popen(["/bin/sh", script, compiled.program("observe_live")], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=helpers.environment(env={"AUTOGRAPH_REPORT_LIVE": "1"})) as process:
        file = live_file(process.pid)
        wait_for(lambda: file.exists() and file.read_bytes()[:6] == b"AGLIVE", "nothing is shown")
        ends(process)
    assert not file.exists()


def test_a_file_that_cannot_be_made(tmp_path):
    """A directory stands in its place: one line, and the program goes on."""
    script = tmp_path / "start"
    script.write_text("#!/bin/sh\nf=/dev/shm/autograph.$(id -u).$$\nrm -f $f\nmkdir $f\nexec \"$@\"\n")
    with subprocess.Popen(["/bin/sh", script, compiled.program("observe_live")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=helpers.environment(env={"AUTOGRAPH_REPORT_LIVE": "1"})) as process:
        try:
            _, err = ends(process)
        finally:
            live_file(process.pid).rmdir()
    assert len(err.splitlines()) == 1 and "the live counters" in err and "cannot be made" in err


# -- Report on a signal -----------------------------------------------------------

def not_kept(tmp_path):
    """The name of a report that is written on request only, and at exit: what is a link at first is not kept
    current."""
    (tmp_path / "empty").touch()
    (tmp_path / "report").symlink_to(tmp_path / "empty")
    return tmp_path / "report"


def asked(file, process):
    """The report that SIGUSR2 gives."""
    before = file.stat().st_ino
    process.send_signal(signal.SIGUSR2)
    wait_for(lambda: file.stat().st_ino != before, "no report")
    return json.loads(file.read_text())


@pytest.mark.parametrize("how,counts", [(None, "0 0"), ("simple", "1 0"), ("info", "0 1"),
                                        ("ignore", "0 0")])
def test_a_report_now(tmp_path, how, counts):
    """The program's own handler is called as well; a signal that would have killed it does not."""
    file = not_kept(tmp_path)
    env = {"AUTOGRAPH_REPORT": file, "AUTOGRAPH_REPORT_SIGNAL": "true", "AUTOGRAPH_REPORT_LIVE": "true"}
    with running(env, *([how] if how else [])) as process:
        wait_for(lambda: is_live(process.pid) and read_live(process.pid).replayed > 0, "it does not run")
        now = asked(file, process)
        assert now["complete"] is False and now["ops"]["replayed"] > 0 and now["streams"]
        assert now["trace_list"] and now["pid"] == process.pid
        assert ends(process) == (counts + "\n", "")
    last = json.loads(file.read_text())
    assert last["complete"] is True and last["ops"]["total"] >= now["ops"]["total"]
    assert last["seconds"] > now["seconds"] > 0


def test_a_second_report(tmp_path):
    file = not_kept(tmp_path)
    env = {"AUTOGRAPH_REPORT": file, "AUTOGRAPH_REPORT_SIGNAL": "true", "AUTOGRAPH_REPORT_LIVE": "true"}
    with running(env) as process:
        wait_for(lambda: is_live(process.pid), "it does not run")
        first = asked(file, process)
        second = asked(file, process)
        assert second["ops"]["total"] >= first["ops"]["total"]
        ends(process)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("flags", ["-", "r", "1", "n", "s", "m", "i", "is1", "rnsmi", "o"])
def test_the_program_s_handler_keeps_its_flags(flags, when):
    """What the kernel does around it: calls that go on or not, stack, mask, and that it may be called once only."""
    command = [compiled.program("observe_signal"), flags, when]
    plain = helpers.run(command, preload=False)
    assert "calls 1" in plain.stdout and ("interrupted" in plain.stdout) == (not set(flags) & set("ro"))
    assert helpers.run(command, env={"AUTOGRAPH_REPORT_SIGNAL": "true"}).stdout == plain.stdout


@pytest.mark.parametrize("flags", ["d", "g"])
def test_children_have_the_program_s_disposition(flags):
    """They have no report to write: the signal kills them, or is ignored, in another program, too."""
    command = [compiled.program("observe_signal"), flags, "before"]
    plain = helpers.run(command, preload=False)
    assert plain.stdout.count("killed") == (2 if flags == "d" else 0)
    assert helpers.run(command, env={"AUTOGRAPH_REPORT_SIGNAL": "true"}).stdout == plain.stdout


def test_a_signal_that_was_not_asked_for(tmp_path):
    """Without the option it does what it did."""
    file = not_kept(tmp_path)
    with running({"AUTOGRAPH_REPORT": file, "AUTOGRAPH_REPORT_LIVE": "true"}) as process:
        wait_for(lambda: is_live(process.pid), "it does not run")
        process.send_signal(signal.SIGUSR2)
        assert process.wait(helpers.TIMEOUT) == -signal.SIGUSR2
    live_file(process.pid).unlink()
    assert file.read_text() == ""


def test_no_thread_unless_asked(tmp_path):
    """One for the trace file, and one for all else."""
    def observers(env, some):
        def count():
            tasks = pathlib.Path(f"/proc/{process.pid}/task")
            names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
            return names.count("ag-observer"), names.count("ag-tracer")

        with running(env) as process:
            time.sleep(0.3)
            wait_for(lambda: count() == (1, 1) or not some, "there is none")
            number = count()
            ends(process)
        return number
    assert observers({}, False) == (0, 0)
    assert observers({"AUTOGRAPH_REPORT": tmp_path / "report", "AUTOGRAPH_REPORT_LIVE": "true",
                      "AUTOGRAPH_TRACE_FILE": tmp_path / "trace",
                      "AUTOGRAPH_REPORT_SIGNAL": "true"}, True) == (1, 1)
