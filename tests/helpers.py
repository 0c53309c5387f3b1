# SPDX-License-Identifier: MIT
"""What the tests share: where things were built, running a program with and without the library,
reading its exit report and the simulated driver's log."""
import collections
import ctypes.util
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile

import strict

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TIMEOUT = 150  # seconds; a sanitizer makes programs ten times slower, and so does a busy machine

# How much the tests try: AG_SCALE, which scripts/check sets for --quick, --full and --night.
SCALES = ("quick", "normal", "full", "night")
SCALE = os.environ.get("AG_SCALE") or "normal"


def by_scale(quick, normal, full, night=None):
    """What the scale in force has of these, for example a number of random programs."""
    return dict(zip(SCALES, (quick, normal, full, full if night is None else night)))[SCALE]


# -- The build ----------------------------------------------------------------

def build_dir():
    return pathlib.Path(os.environ.get("AG_BUILD") or SOURCE / "build").resolve()


def library():
    """The library under test: the built one, unless AG_LIBRARY names another."""
    return pathlib.Path(os.environ.get("AG_LIBRARY") or build_dir() / ".libs" / "libautograph.so")


def sim_dir():
    """Directory of the simulated libcuda.so.1 and libcudart."""
    return build_dir() / "tests" / "sim"


def sample(name):
    return build_dir() / "tests" / "samples" / name


@functools.lru_cache(maxsize=None)
def config():
    """What configure found: tests/build.json."""
    return json.loads((build_dir() / "tests" / "build.json").read_text())


def unsanitized(test):
    """A mark for tests of the file as it is installed."""
    import pytest  # not for those that use this module without it
    return pytest.mark.skipif(bool(config()["sanitize"]), reason="a sanitizer adds its runtime "
                              "library, constructors and versions of symbols")(test)


def missing_from_build():
    """The first thing without which no test can run, or None."""
    for path in (build_dir() / "tests" / "build.json", library()):
        if not path.exists():
            return path
    return None


@functools.lru_cache(maxsize=None)
def sanitizer_runtime():
    """A sanitizer's runtime library must be loaded before a library that was built with it."""
    name = {"address": "libasan.so", "address,undefined": "libasan.so", "thread": "libtsan.so",
            "undefined": "libubsan.so"}.get(config()["sanitize"])
    if not name:
        return None
    command = [*config()["cc"].split(), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return str(pathlib.Path(found).resolve())


# For programs that fork. In the child LeakSanitizer reports what only a thread of the parent knew (seen:
# what the simulated driver's workers had in hand), and may wait for ever for the lock of its allocator,
# which such a thread had (seen with gcc 12).
NO_LEAK_CHECK = {"ASAN_OPTIONS": "detect_leaks=0"}


def preloads(*libraries):
    """LD_PRELOAD for these: paths, or None. A sanitizer's runtime comes first."""
    return ":".join(str(library) for library in (sanitizer_runtime(), *libraries) if library)


def reasons(kind):
    """{word: sentence} of src/observe/reasons.def: why held ops were given up ("REASON"), or not held ("WHY")."""
    text = (SOURCE / "src/observe/reasons.def").read_text()
    return dict(re.findall(rf'^AG_{kind}\(\w+,\s*"(\w+)",\s*"([^"]+)"\)$', text, flags=re.M))


# -- Running programs -----------------------------------------------------------

# No duels, and graphs need not pay: the simulated driver launches as fast as it replays.
ON_SIMULATOR = {"AUTOGRAPH_TRACE_DUEL": "false", "AUTOGRAPH_GRAPH_CREDIT_MS": "1000000"}


def environment(preload=True, sim=True, env=None, clock=None):
    """The environment of a program under test: nothing of the caller's configuration shows through.

    A value of None in `env` takes the variable away. `clock`: a library with a clock of its own.
    """
    result = {k: v for k, v in os.environ.items()
              if not k.startswith(("AUTOGRAPH_", "AGSIM_", "CUDA_DEVICE_MAX_")) and k != "LD_PRELOAD"}
    result["AUTOGRAPH_CONFIG"] = ""  # no file
    result.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")  # not just a message
    result.setdefault("TSAN_OPTIONS", "atexit_sleep_ms=50")  # not a second in each process
    if sim:
        result.update(ON_SIMULATOR)
        paths = [str(sim_dir()), os.environ.get("LD_LIBRARY_PATH")]
        result["LD_LIBRARY_PATH"] = ":".join(p for p in paths if p)
    if preload:
        result["LD_PRELOAD"] = preloads(library(), clock)
        if sim:
            result["AGSIM_LIBRARY"], result["AGSIM_STRICT"] = own_calls(), str(strict_file())
    for key, value in (env or {}).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = str(value)
    return result


def run(command, preload=True, sim=True, env=None, timeout=TIMEOUT, status=0, clock=None, **options):
    """Runs a program and returns its subprocess.CompletedProcess; fails unless it ends with `status`
    (None: any)."""
    command = [str(c) for c in (command if isinstance(command, (list, tuple)) else [command])]
    done = subprocess.run(command, env=environment(preload, sim, env, clock), timeout=timeout,
                          capture_output=True, text=True, **options)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}, not {status}\n"
                             f"{done.stdout}{done.stderr}")
    check_strict()
    return done


@functools.lru_cache(maxsize=None)
def strict_file():
    return strict.new_file()


def check_strict():
    """Fails if the library, in any program so far, has made a call that may wait for the program's work."""
    found = strict.findings(library(), strict_file())
    assert not found, "the library may wait for the program's work:\n" + "\n".join(found)


Run = collections.namedtuple("Run", "stdout stderr report log")


# The watchdog waits for 10 s, and lengths do not go by the clock: what is counted does not depend on how
# busy the machine is.
PATIENT = {"AUTOGRAPH_HOLD_BOUND_US": "10000000"}
HELD = {**PATIENT, "AUTOGRAPH_TRACE_LENGTH": "fixed"}
OWN_SHAPES = {"AUTOGRAPH_GRAPH_SHAPES": "false"}  # so loops of other grids want graphs of their own
HASTY = {"AUTOGRAPH_HOLD_BOUND_US": None}  # as in real life


def work(log):
    """How often the device executed what, whatever the stream. Records and waits may be edges of a graph."""
    return collections.Counter(op for ops in log.values() for op in ops if not op.startswith(("op=record", "op=wait")))


def without_driver(test):
    """Marks a test that wants a machine without a driver of NVIDIA's."""
    import pytest  # which not all have that import this module
    return pytest.mark.skipif(bool(ctypes.util.find_library("cuda")), reason="this machine has a driver")(test)


def run_logged(command, preload=True, env=None, own_clock=True, **options):
    """Runs a program on the simulated driver: its output, its exit report (None without the library), and
    what the device executed. The watchdog is patient; while it is, the library's clock does not go by the
    machine's (own_clock_preload.c), unless the program's pauses matter."""
    import compiled  # which imports this module
    with tempfile.TemporaryDirectory() as scratch:
        report, log = pathlib.Path(scratch, "report.json"), pathlib.Path(scratch, "log")
        extra = {"AUTOGRAPH_REPORT": report, "AGSIM_LOG": log, **PATIENT, **(env or {})}
        if preload and own_clock and extra["AUTOGRAPH_HOLD_BOUND_US"] == PATIENT["AUTOGRAPH_HOLD_BOUND_US"]:
            options["clock"] = compiled.clock()
        done = run(command, preload=preload, env=extra, **options)
        return Run(done.stdout, done.stderr,
                   json.loads(report.read_text()) if preload else None,
                   executed(log))


# -- What the device executed ---------------------------------------------------

EXECUTED = re.compile(r"seq=\d+ ctx=(\S+) stream=(\S+) (.*) via=(\w+)$", re.M)


def executed(log):
    """The simulated driver's log: for each stream (context, number), its ops in the order of
    execution, without what must not matter: sequence numbers, whether a graph launched them, and records of
    events that the library has made for itself."""
    text = pathlib.Path(log).read_text()
    streams = collections.defaultdict(list)
    for context, stream, op, via in EXECUTED.findall(text):
        if via != "own":
            streams[context, stream].append(op)
    assert streams or not text, text
    return dict(streams)


# -- The built file -------------------------------------------------------------

def tool(*command):
    """Standard output of a tool that must work."""
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


@functools.lru_cache(maxsize=None)
def own_calls():
    """AGSIM_CALLER for the library's own calls: its code, but not the doors, which lie together."""
    doors = []
    for line in tool("nm", "-S", "--defined-only", library()).splitlines():
        fields = line.split()
        if len(fields) == 4 and re.fullmatch(r"ag_(door|memory_op)_cu\w+", fields[3]):
            doors.append((int(fields[0], 16), int(fields[1], 16)))
    assert len(doors) > 20
    return f"libautograph.so:{min(doors)[0]:x}-{sum(max(doors)):x}"


