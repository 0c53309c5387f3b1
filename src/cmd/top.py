# SPDX-License-Identifier: MIT
"""autograph top PID: the counters of a running process."""
import collections
import os
import stat
import struct
import sys
import time

import reasons
import simulated
from common import OK, Failure, Parser, fitted, number, plural, printable, share, warn

LAYOUT = struct.Struct("<8sIIQQQQ11Q128x64s256s8x16Q64Q")
NAMESPACE = struct.Struct("<Q"), 584  # and where it stands
COUNTERS = ("ops", "replayed", "replays", "patches", "updates", "traces", "side_exits", "errors",
            "streams", "bytes", "lost")
Sample = collections.namedtuple("Sample", "start now program region eager " + " ".join(COUNTERS))
# By place in `eager`: of ops that were held, in 16 places, then of those that were not. None: there is no such reason.
WORDS = (*reasons.GIVEN_UP, *[None] * (16 - len(reasons.GIVEN_UP)), None, *[*reasons.NOT_HELD][1:])


def named(pid):
    """The process's number where it runs, and the namespace of that number; 0: not known."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            own = [line.split()[-1] for line in file if line.startswith("NSpid:")]
        return int(own[0]) if own else pid, os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return pid, 0


def is_of(path, namespace):
    """Whether the file is of a process there. Processes of containers that share /dev/shm may have equal numbers."""
    try:
        with own_file(path) as file:
            file.seek(NAMESPACE[1])
            data = file.read(NAMESPACE[0].size)
    except Failure:
        return True  # the reader says what is wrong with it
    found = NAMESPACE[0].unpack(data)[0] if len(data) == NAMESPACE[0].size else 0
    return 0 in (found, namespace) or found == namespace


def find(pid):
    """The process's file, of the user whose process it is."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        raise Failure(f"there is no process {pid}") from None
    number, namespace = named(pid)
    plain = f"/dev/shm/autograph.{owner}.{number}"
    for path in (f"{plain}.{namespace}", plain):
        if os.path.lexists(path) and os.lstat(path).st_uid == owner and is_of(path, namespace):
            return path
    raise Failure(f"process {pid} shows no counters\n"
                  "  start it with autograph --set report.live=true; then it must use CUDA")


def own_file(path):
    """The file, open. Anybody may make files and links beside it: its name says whose it must be."""
    owner = int(path.split(".")[1])
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        raise Failure(f"{path}: {e.strerror}") from None
    file = os.fdopen(fd, "rb", buffering=0)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
        file.close()
        raise Failure(f"{path}: is not of the process's user")
    return file


def read(file, path):
    """A Sample of numbers that belong together."""
    for _ in range(100):
        file.seek(0)
        data = file.read(LAYOUT.size)
        if data[:8] != b"AGLIVE\n\0":
            raise Failure(f"{path}: is not a file of counters")
        if len(data) >= 12 and struct.unpack_from("<I", data, 8)[0] != 1:
            raise Failure(f"{path}: has format {struct.unpack_from('<I', data, 8)[0]}, this command "
                          "reads format 1\n  use the autograph of the library that wrote it")
        if len(data) < LAYOUT.size:
            raise Failure(f"{path}: is cut off")
        values = LAYOUT.unpack(data)
        file.seek(16)
        sequence, = struct.unpack("<Q", file.read(8))
        if sequence == values[3] and sequence % 2 == 0:
            region, program = (v.split(b"\0", 1)[0].decode("utf-8", "replace") for v in values[18:20])
            return Sample(values[5], values[6], program, region, values[20:], *values[7:18])
        time.sleep(0.001)
    raise Failure(f"{path}: changes all the time; is it the library that writes it?")


def show(pid, now, before):
    """Lines about a sample, and about what came since the one before."""
    since = (now.now - before.now) / 1e9 if before else (now.now - now.start) / 1e9
    base = before or now._replace(eager=(0,) * len(now.eager), **dict.fromkeys(COUNTERS, 0))

    def rate(name):
        return (getattr(now, name) - getattr(base, name)) / since if since > 0 else 0

    ops = now.ops - base.ops
    lines = [f"{printable(now.program)} (process {pid}), {(now.now - now.start) / 1e9:.0f} s, "
             f"{plural(now.streams, 'stream')}" + (f", in {printable(now.region)}" if now.region else ""),
             f"{'operations':<15}{now.ops:>14,}  {rate('ops'):>12,.0f}/s",
             f"{'replayed':<15}{now.replayed:>14,}  {rate('replayed'):>12,.0f}/s  "
             f"{share(now.replayed, now.ops)}"
             + (f" in all, {share(now.replayed - base.replayed, ops)} now" if before else ""),
             f"{'graph launches':<15}{now.replays:>14,}  {rate('replays'):>12,.0f}/s",
             f"{'patches':<15}{now.patches:>14,}  {rate('patches'):>12,.0f}/s",
             f"{'graphs':<15}{now.traces:>14,}",
             f"{'errors':<15}{now.errors:>14,}"]
    if now.bytes:
        lines.append(f"trace file {now.bytes / 1e6:>12,.1f} MB, {plural(now.lost, 'record')} lost")
    most = sorted(((n - b, word) for n, b, word in zip(now.eager, base.eager, WORDS) if word and n > b), reverse=True)
    if most:
        lines.append("not replayed, by reason" + (", now" if before else ""))
    lines += [f"  {n:>12,}  {reasons.words(word)}: {reasons.sentence(word)}" for n, word in most[:5]]
    return lines


def main(arguments):
    parser = Parser("top", description="Shows the counters of a running process.",
                    epilog="The process must have been started with report.live = true. Ends with "
                           "the process, or by Ctrl-C. Status: 0, or 2 if there is nothing to show.")
    parser.add_argument("pid", metavar="PID", type=number(1))
    parser.add_argument("--once", action="store_true", help="show the counters once")
    parser.add_argument("--interval", metavar="SECONDS", type=number(0.1, float), default=1.0)
    given = parser.parse_args(arguments)
    path = find(given.pid)
    if simulated.is_loaded(given.pid):
        warn(simulated.NO_TIMES, "top")
    with own_file(path) as file:
        before = None
        while True:
            now = read(file, path)
            lines = show(given.pid, now, before)
            if sys.stdout.isatty() and not given.once:
                sys.stdout.write("\x1b[H\x1b[2J")
            print("\n".join(fitted(lines)), flush=True)
            if given.once:
                return OK
            before = now
            time.sleep(given.interval)
            if not os.path.exists(path) or not os.path.exists(f"/proc/{given.pid}"):  # or killed
                print("The process has ended.")
                return OK
