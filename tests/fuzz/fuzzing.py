# SPDX-License-Identifier: MIT
"""Runs fuzz programs without and with the library, and compares what comes out."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import helpers  # noqa: E402  (needs the path above)
import programs  # noqa: E402
import strict  # noqa: E402

STALL = 60  # seconds without a line: it hangs
DEAD = ("crash", "hang")
PROFILE = "AUTOGRAPH_TRACE_PROFILE"  # in a setting: a name in the scratch directory


class Bench:
    """What is compared: the fuzzer's binary, without and with a library, on either driver.

    Without a library at all (library "none") the programs themselves are tested: what they do must
    not depend on chance.
    """

    def __init__(self, library=None, binary=None, gpu=False, env=None, stall=STALL):
        self.binary = str(binary or helpers.build_dir() / "tests" / "fuzz" / "fuzz")
        self.library = None if library == "none" else str(library or helpers.library())
        self.gpu, self.stall = gpu, stall
        self.strict = not gpu and self.library == str(helpers.library())
        self.env = env or {}  # for the side with the library
        self.scratch = tempfile.TemporaryDirectory()

    def path(self, name):
        return pathlib.Path(self.scratch.name, name)

    def start(self, arguments, preload, setting, tag=""):
        """Starts one side. Its lines, errors and report go to files."""
        side = "preload" if preload else "plain"
        base = self.path(f"{tag}{side}")
        env = {k: v for k, v in setting.items() if k.startswith(("AGSIM_", "CUDA_"))}
        if preload:
            env.update(setting, **self.env, AUTOGRAPH_REPORT=f"{base}.json")
            env["AGSIM_SEED"] = int(setting.get("AGSIM_SEED", 0)) + 1
            env["AGSIM_DELAY_US"] = setting.get("PRELOAD_DELAY_US", 5)
            if self.library:
                runtime = helpers.sanitizer_runtime()
                env["LD_PRELOAD"] = ":".join(p for p in (runtime, self.library) if p)
            if self.strict:
                pathlib.Path(f"{base}.strict").touch()
                env["AGSIM_LIBRARY"], env["AGSIM_STRICT"] = helpers.own_calls(), f"{base}.strict"
            if PROFILE in env:
                env[PROFILE] = self.path(env[PROFILE])
        env.pop("PRELOAD_DELAY_US", None)
        command = [self.binary, *(["--gpu"] if self.gpu else []), *map(str, arguments)]
        process = subprocess.Popen(
            command, env=helpers.environment(False, not self.gpu, env),
            stdout=open(f"{base}.out", "w"), stderr=open(f"{base}.err", "w"))
        return Side(process, base, self.stall)

    def both(self, arguments, setting, tag=""):
        """Both sides, side by side; on a GPU one behind the other, since it is late with what it is given where two
        processes share it, and times of events get shorter."""
        sides = []
        if PROFILE in setting:  # a first run writes it; there may be one of other programs, in the same file
            writer = self.start(arguments, True, setting, f"{tag}first-")
            while writer.running():
                time.sleep(0.01)
        for preload in (False, True):
            sides.append(self.start(arguments, preload, setting, tag))
            while self.gpu and sides[-1].running():
                time.sleep(0.01)
        while any(side.running() for side in sides):
            time.sleep(0.01)
        return sides

    def program(self, seed):
        return subprocess.run([self.binary, "--print", "--seed", str(seed)], check=True,
                              env=helpers.environment(False, not self.gpu), capture_output=True,
                              text=True).stdout

    # -- One program -------------------------------------------------------------

    def settings(self, program):
        """Settings for a program from a file, with other delays each. A file that save() wrote has them all."""
        asked = programs.environment(program)
        if "AUTOGRAPH_GRAPH_CREDIT_MS" not in asked:
            asked = {**setting(0, self.gpu), **asked}
        return [asked if self.gpu else {**asked, "AGSIM_SEED": seed} for seed in (1, 2, 3)]

    def rate(self, program, settings, repeat, stall=None):
        """The share of runs of a program in which the two sides differ, and how."""
        name = self.path("candidate.prog")
        name.write_text(program)
        bad = total = 0
        what = ""
        for setting in settings:
            keep, self.stall = self.stall, stall or self.stall
            plain, preload = self.both(["--repeat", repeat, name], setting, "one-")
            self.stall = keep
            expected = max(plain.results(), key=plain.results().count, default=None)
            if plain.end or (self.library and len(set(plain.results())) != 1):
                return 0, "without the library it fails, or gives changing results"
            differ = sum(r != expected for r in preload.results())
            total += repeat
            waits = preload.findings()
            if differ or preload.end or waits:
                bad += differ + (1 if preload.end or waits else 0)
                what = preload.end or ("difference" if differ else "waits: " + waits[0].partition(",")[0])
        return bad / total, what

    def shrink(self, program, setting, seconds=180):
        """A smaller program that fails as well; None if this one alone does not fail."""
        settings = [{**setting, "AGSIM_SEED": seed} for seed in (1, 2)]
        end = time.monotonic() + seconds
        for repeat in (3, 20, 100):
            rate, what = self.rate(program, settings, repeat)
            if rate:
                break
        else:
            return None
        # Runs enough that a program which fails as often is missed one time in twenty.
        repeat = min(200, int(3 / rate / len(settings)) + 1)
        stall = 4 if what == "hang" else None

        def fails(text):
            rate, how = self.rate(text, settings, repeat, stall)
            return rate > 0 and how == what
        return programs.shrink(program, fails, end - time.monotonic())


class Side:
    """A process that runs programs, and its lines so far."""

    def __init__(self, process, base, stall):
        self.process, self.base, self.stall = process, base, stall
        self.seen, self.seen_at = 0, time.monotonic()
        self.end = ""  # how it ended, if not well

    def running(self):
        status = self.process.poll()
        if status is not None:
            if not self.end and status != 0:
                self.end = f"crash ({signal.Signals(-status).name if status < 0 else status})"
            return False
        size = os.path.getsize(f"{self.base}.out")
        if size != self.seen:
            self.seen, self.seen_at = size, time.monotonic()
        elif time.monotonic() - self.seen_at > self.stall:
            self.end = "hang"
            self.process.kill()
            self.process.wait()
            return False
        return True

    def lines(self):
        """(name, hash, ops, errors) of each program that was run."""
        text = pathlib.Path(f"{self.base}.out").read_text()
        whole = text[:text.rfind("\n") + 1]
        return [tuple(line.split()) for line in whole.splitlines()]

    def results(self):
        return [line[1:] for line in self.lines()]

    def report(self):
        try:
            return json.loads(pathlib.Path(f"{self.base}.json").read_text())
        except (FileNotFoundError, ValueError):
            return None  # it did not live to write one

    def findings(self):
        """What the library did that may wait for the program's work."""
        path = pathlib.Path(f"{self.base}.strict")
        return strict.findings(helpers.library(), path) if path.exists() else []

    def errors(self):
        return pathlib.Path(f"{self.base}.err").read_text()


# -- Many seeds -------------------------------------------------------------------

def orders(chance, gpu):
    """What may happen in other orders than usual: each now and then, and all of it in one chunk of ten. (AGSIM_EARLY
    is none: on the simulated driver the kernels of these programs do not wait for the one before.)"""
    queues = chance.choice([1, 2, 3, 4, 6, 7, 10, 14])
    adverse = [
        # Fewer queues of the device than there are streams, which share them in any way; or about as many as streams and
        # paths of graphs need, and those of streams that have gone.
        (0.6, {"CUDA_DEVICE_MAX_CONNECTIONS": queues}),
        (0.5, {"AGSIM_QUEUES": chance.randint(1, 1 << 30)}),
        # What waits in the driver for running kernels. As many streams are free as there are queues: a relay is made
        # only while one is left, and must not be the stream too many (docs/semantics.md, "Known gaps").
        (0.5, {"AGSIM_LAZY": 1, "AGSIM_GRAPH_FREE": 31, "AGSIM_STREAMS_FREE": max(8, queues)}),
        # Nothing runs before a thread waits for it, and a launch may wait for room.
        (0.1, {"AGSIM_LATE": chance.choice([200, 2000]), "AGSIM_ROOM": chance.choice([300, 1024])}),
        # Memory that one stream is about to give back is another one's; a graph takes an event for a destroyed one;
        # what sets something of a function passes launches that wait for room.
        (0.25, {"AGSIM_REUSE": 1}), (0.25, {"AGSIM_HANDLES": 1}), (0.25, {"AGSIM_SETTERS_PASS": 1})]
    at_once = chance.random() < 0.1
    drawn = [what for share, what in adverse if chance.random() < share or at_once]
    return {k: v for what in drawn for k, v in what.items() if not gpu or k.startswith("CUDA_")}


def setting(number, gpu=False):
    """Delays and the library's options for the chunk of that number; half of them have defaults, but
    that graphs need not pay: the programs repeat little."""
    chance = random.Random(number)
    result = {"AUTOGRAPH_GRAPH_CREDIT_MS": 1000000}
    if not gpu:
        result |= {"AGSIM_SEED": number * 10, "AGSIM_DEVICES": 2,
                   "AGSIM_DELAY_US": chance.choice([0, 0, 5]),
                   "PRELOAD_DELAY_US": chance.choice([0, 5, 20])}
    if chance.random() < 0.5:
        options = {"TRACE_HOT": [2, 3, 5], "TRACE_UNROLL": [2, 8, 64, 128],
                   "TRACE_MAX_LENGTH": [4, 16, 128], "TRACE_MEMORY": [256, 16384],
                   "TRACE_LENGTH": ["auto", "fixed"], "TRACE_MIN_LENGTH": [1, 4],
                   "TRACE_INHERIT": ["true", "false"], "TRACE_YOUNG": [0, 1, 2, 512], "GRAPH_VARIANTS": [1, 8],
                   "GRAPH_EXECS": [2, 24], "HOLD_BOUND_US": [20, 300, 3000],
                   "UPDATE_STRATEGY": ["auto", "set_params", "exec_update", "auto"],
                   "TRACE_DUEL": ["true", "false"], "GRAPH_CREDIT_MS": [1, 1000000],
                   "GRAPH_SHAPES": ["true", "true", "false"]}
        result.update({f"AUTOGRAPH_{k}": chance.choice(v) for k, v in options.items()})
    if not gpu and chance.random() < 0.25:  # so slow that duels come soon, and are lost
        result |= {"AGSIM_GRAPH_LAUNCH_US": 200, "AUTOGRAPH_TRACE_DUEL": "true"}
    result |= orders(chance, gpu)
    if number % 8 == 3:  # sequences are known: those of this chunk, and of chunks before
        result[PROFILE] = "profile"
    return result


class Tally:
    """What a campaign has seen."""

    def __init__(self):
        self.programs = self.ops = self.replayed = self.traces = 0
        self.failures = []  # (seed, what, setting)

    def share(self):
        return self.replayed / self.ops if self.ops else 0

    def compare(self, plain, preload, setting):
        """Takes in what two sides have printed; the number of seeds compared."""
        lines = list(zip(plain.lines(), preload.lines()))
        for expected, got in lines:
            if expected != got:
                self.failures.append((int(got[0]), "difference", setting))
            elif int(expected[3]):
                self.failures.append((int(got[0]), "errors without the library", setting))
        self.failures += [(int(re.search(r"program=(\d+)", found)[1]), found, setting)
                          for found in preload.findings()]
        self.programs += len(lines)
        report = preload.report()
        if report:
            self.ops += report["ops"]["total"]
            self.replayed += report["ops"]["replayed"]
            self.traces += report["traces"]
        return len(lines)


def campaign(bench, seed, count, chunk=50, limit=None, progress=None, settings=setting):
    """Compares the programs of `count` seeds; stops after `limit` seconds or ten failures."""
    tally, start, end = Tally(), time.monotonic(), seed + count
    while seed < end and len(tally.failures) < 10:
        if limit and time.monotonic() - start > limit:
            break
        n = min(chunk - seed % chunk, end - seed)
        how = settings(seed // chunk, bench.gpu)
        plain, preload = bench.both(["--seed", seed, "--count", n], how)
        done = tally.compare(plain, preload, how)
        for side, name in ((plain, "without"), (preload, "with")):
            if side.end:  # after the last program: at exit, or what a sanitizer has found
                tally.failures.append((seed + min(len(side.lines()), n - 1),
                                       f"{side.end} {name} the library\n{side.errors()[:6000]}",
                                       how))
        seed += n if done == n else done + 1
        if progress:
            progress(tally, seed, time.monotonic() - start)
    return tally


def save(program, seed, what, setting, directory):
    """Writes a program file that says where it came from; its path."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{seed}.prog"
    env = "".join(f"# env {k}={v}\n" for k, v in sorted(setting.items()))
    path.write_text(f"# {' '.join(what.split())}, seed {seed}\n{env}{program}")
    return path
