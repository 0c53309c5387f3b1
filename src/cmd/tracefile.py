# SPDX-License-Identifier: MIT
"""Reads a trace file (docs/formats.md) into memory."""
import re
import struct

import options
import reasons
from common import Failure, brief_name, demangle, plural

FORMAT = 1
HEADER = struct.Struct("<8sIIQQII24s")
CHUNK = struct.Struct("<IIIIQ")
RECORD = struct.Struct("<HBBIQ")
CHUNK_MAGIC = 0x4b434741
STRING, FUNCTION, STREAM, TRACE, OP, RETURN, SUBMIT, BARRIER, ALLOC, FREE, REGION, END, PROGRAM, GPU, THREAD = range(1, 16)
ADDRESSES = {word: tuple(map(int, addresses.split())) for word, addresses in re.findall(
    r'^AG_KIND\(\w+, "(\w+)", "([\d ]*)"\)', options.source("kinds.def"), re.M)}  # of each kind of op
KINDS = tuple(ADDRESSES)
STREAM_KINDS = ("blocking", "non-blocking", "legacy default", "per-thread default")
REASONS, WHY = tuple(reasons.GIVEN_UP), tuple(reasons.NOT_HELD)
HELD = 0  # in WHY
KERNEL, MEMSET, COPY, EVENT_RECORD, WAIT = map(KINDS.index, ("kernel", "memset", "copy", "record", "wait"))
HOST = 1  # CU_MEMORYTYPE_HOST
TO_HOST = WHY.index("to_host")  # why an op was not held
HELD_MOST = 1 << 16  # ops in one submission; the library has 128 at most


def name_of(names, number):
    return names[number] if number < len(names) else f"unknown {number}"


class Function:
    __slots__ = ("name", "known", "parameters")

    def __init__(self, name, known, parameters):
        self.name, self.known, self.parameters = name, known, parameters


class Op:
    """An op: `submit` is None while its own call submitted it (eager), else what did; `why`: of an eager op."""
    __slots__ = ("time", "thread", "stream", "sequence", "kind", "function", "bytes",
                 "shape", "arguments", "took", "result", "why", "submit", "replayed")

    def word(self):
        """The word in reasons.def that says why the op was not replayed; "": it was, or the file does not say."""
        if self.submit is not None:
            return "" if self.replayed else self.submit.word()
        return "" if self.why == HELD else name_of(WHY, self.why)


class Submit:
    __slots__ = ("time", "thread", "stream", "last", "held", "replayed", "trace", "patches", "took",
                 "reason")

    def word(self):
        """The word in reasons.def that says what ended the hold."""
        return name_of(REASONS, self.reason)


class Barrier:
    __slots__ = ("time", "thread", "name", "took")


class Memory:
    """An allocation, or (bytes is None) the end of one."""
    __slots__ = ("time", "thread", "kind", "address", "bytes")


class Region:
    __slots__ = ("time", "thread", "name", "ends")


class Trace:
    """What a file holds; `flaws` says in sentences what it does not hold."""

    def __init__(self, path):
        self.path = path
        self.strings, self.functions, self.streams, self.definitions = {}, {}, {}, {}
        self.ops, self.submits, self.barriers, self.memory, self.regions = [], [], [], [], []
        self.program, self.gpus, self.threads = None, {}, {}
        self.flaws, self.end, self.lost = [], None, 0
        self._waiting = {}  # (stream, sequence) of an op whose RETURN is to come
        self._unknown = {}  # by thread: its last op in a stream that is not known
        self._lost_by_thread = {}
        self._same = {}
        try:
            with open(path, "rb") as file:
                self._read(file)
        except OSError as e:
            raise Failure(f"{path}: {e.strerror}") from None
        except (struct.error, UnicodeDecodeError, IndexError):
            raise Failure(f"{path}: is damaged") from None
        self._finish()

    # -- Reading --------------------------------------------------------------

    def _read(self, file):
        head = file.read(HEADER.size)
        if head[:8] != b"AGTRACE\n"[:len(head)] or not head:
            raise Failure(f"{self.path}: is not a trace file")
        if len(head) < HEADER.size:
            raise Failure(f"{self.path}: is cut off in its header: nothing is in it")
        (_, version, size, self.start, self.wall, self.process, self.stored,
         self.library) = HEADER.unpack(head)
        if version != FORMAT:
            raise Failure(f"{self.path}: has format {version}, this command reads format {FORMAT}\n"
                          "  use the autograph of the library that wrote it")
        self.library = self.library.rstrip(b"\0").decode("utf-8", "replace")
        file.read(max(0, size - len(head)))  # no seek: it may be a pipe
        at = max(size, len(head))
        while True:
            head = file.read(CHUNK.size)
            if len(head) < CHUNK.size:
                break
            magic, length, thread, _, lost = CHUNK.unpack(head)
            if magic != CHUNK_MAGIC:
                raise Failure(f"{self.path}: is damaged at byte {at:,}")
            data = file.read(length)
            if lost:
                self._lost_by_thread[thread] = lost
            self._records(data, thread)
            at += len(head) + len(data)

    def _records(self, data, thread):
        at, end = 0, len(data)
        while at + RECORD.size <= end:
            size, kind, sub, number, time = RECORD.unpack_from(data, at)
            if size < RECORD.size or size % 8:
                raise Failure(f"{self.path}: is damaged: a record of {plural(size, 'byte')}")
            if at + size > end:
                break
            read = self._readers.get(kind)
            if read:
                read(self, data, at + RECORD.size, at + size, thread, sub, number, time)
            at += size

    @staticmethod
    def _text(data, at, end):
        return data[at:end].split(b"\0", 1)[0].decode("utf-8", "replace")

    def _string(self, data, at, end, thread, sub, number, time):
        self.strings[number] = self._text(data, at, end)

    def _function(self, data, at, end, thread, sub, number, time):
        _, n, _ = struct.unpack_from("<QII", data, at)
        if at + 16 + 8 * n > end:
            raise Failure(f"{self.path}: is damaged: function {number} with "
                          f"{plural(n, 'parameter')}")
        parameters = [struct.unpack_from("<II", data, at + 16 + 8 * i) for i in range(n)]
        self.functions[number] = Function(self._text(data, at + 16 + 8 * n, end), bool(sub),
                                          parameters)

    def _stream(self, data, at, end, thread, sub, number, time):
        self.streams[number] = sub

    def _trace(self, data, at, end, thread, sub, number, time):
        stream, n = struct.unpack_from("<II", data, at)
        ops = data[at + 8:at + 8 + 8 * n]
        self.definitions[number] = (stream, list(struct.iter_unpack("<II", ops)))

    def _op(self, data, at, end, thread, sub, number, time):
        op = Op()
        op.time, op.thread, op.stream, op.kind = time, thread, number, sub
        op.sequence, op.function, op.bytes = struct.unpack_from("<QII", data, at)
        at += 24
        op.shape = None
        if sub == KERNEL:
            op.shape = self._one(struct.unpack_from("<8I", data, at))
            at += 32
        op.arguments = self._one(data[at:min(end, at + op.bytes)])
        op.took = op.result = op.submit = None
        op.why = HELD
        op.replayed = False
        self.ops.append(op)
        if not number:
            self._unknown[thread] = op

    def _one(self, value):
        """One object for values that are equal: most ops come again and again."""
        if len(self._same) > 100000:
            self._same.clear()
        return self._same.setdefault(value, value)

    def _return(self, data, at, end, thread, sub, number, time):
        sequence, result = struct.unpack_from("<QQ", data, at)
        if number:
            self._waiting[number, sequence, thread] = (time, result, sub)
        elif thread in self._unknown:  # its ops have no numbers
            op = self._unknown.pop(thread)
            op.took, op.result, op.why = time - op.time, result, sub

    def _submit(self, data, at, end, thread, sub, number, time):
        submit = Submit()
        submit.time, submit.thread, submit.stream, submit.reason = time, thread, number, sub
        (submit.last, submit.held, submit.replayed, submit.trace, submit.patches,
         submit.took) = struct.unpack_from("<QIIIIQ", data, at)
        if submit.held > HELD_MOST:
            raise Failure(f"{self.path}: is damaged: {submit.held:,} operations submitted at once")
        self.submits.append(submit)

    def _barrier(self, data, at, end, thread, sub, number, time):
        barrier = Barrier()
        barrier.time, barrier.thread, barrier.name = time, thread, number
        barrier.took, = struct.unpack_from("<Q", data, at)
        self.barriers.append(barrier)

    def _alloc(self, data, at, end, thread, sub, number, time):
        memory = Memory()
        memory.time, memory.thread, memory.kind = time, thread, sub
        memory.address, memory.bytes = struct.unpack_from("<QQ", data, at)
        self.memory.append(memory)

    def _free(self, data, at, end, thread, sub, number, time):
        memory = Memory()
        memory.time, memory.thread, memory.kind, memory.bytes = time, thread, sub, None
        memory.address, = struct.unpack_from("<Q", data, at)
        self.memory.append(memory)

    def _region(self, data, at, end, thread, sub, number, time):
        region = Region()
        region.time, region.thread, region.name, region.ends = time, thread, number, bool(sub)
        self.regions.append(region)

    def _program(self, data, at, end, thread, sub, number, time):
        self.program = self._text(data, at, end)

    def _gpu(self, data, at, end, thread, sub, number, time):
        self.gpus[number] = self._text(data, at, end)

    def _thread(self, data, at, end, thread, sub, number, time):
        self.threads[number] = self._text(data, at, end)

    def _end(self, data, at, end, thread, sub, number, time):
        self.end = sub
        self.lost, = struct.unpack_from("<Q", data, at)

    _readers = {STRING: _string, FUNCTION: _function, STREAM: _stream, TRACE: _trace, OP: _op,
                RETURN: _return, SUBMIT: _submit, BARRIER: _barrier, ALLOC: _alloc, FREE: _free,
                REGION: _region, END: _end, PROGRAM: _program, GPU: _gpu, THREAD: _thread}

    # -- Putting together -----------------------------------------------------

    def _finish(self):
        by_place = {(op.stream, op.sequence): op for op in self.ops if op.stream}
        for op in self.ops:
            done = self._waiting.pop((op.stream, op.sequence, op.thread), None)
            if done and op.stream:
                op.took, op.result, op.why = done[0] - op.time, done[1], done[2]
        for submit in self.submits:
            first = submit.last - submit.held + 1
            for i in range(submit.held):
                op = by_place.get((submit.stream, first + i))
                if op:
                    op.submit, op.replayed = submit, i < submit.replayed
        self.ops.sort(key=lambda op: op.time)
        # Some records may be older than the header.
        for some in (self.ops, self.barriers, self.memory, self.submits, self.regions):
            self.start = min([self.start, *(record.time for record in some)])
        self.lost = max(self.lost, sum(self._lost_by_thread.values()))
        if self.end is None:
            self.flaws.append("it is not complete: the program was killed, or still runs")
        elif self.end == 1:
            self.flaws.append("it is full: later ops are missing (trace.file_mb)")
        if self.lost:
            self.flaws.append(plural(self.lost, "record", ("is", "are")) + " lost (trace.buffer_kb)")

    # -- Words ----------------------------------------------------------------

    def readable(self):
        """Gives functions readable names, {number: name}; made once."""
        if not hasattr(self, "_names"):
            names = demangle(f.name for f in self.functions.values())
            self._names = {n: brief_name(names[f.name]) for n, f in self.functions.items()}
        return self._names

    def string(self, number):
        return self.strings.get(number, f"string {number}")

    def what(self, op):
        """An op in words, without its arguments."""
        if op.kind == KERNEL:
            name = self.readable().get(op.function, "unknown kernel")
            if not op.shape:
                return name
            grid, block = ("x".join(map(str, trim(op.shape[i:i + 3]))) for i in (0, 3))
            shared = f",{op.shape[6]}" if op.shape[6] else ""
            return f"{name}<<<{grid},{block}{shared}>>>"
        words = self.words(op)
        if op.kind == MEMSET and len(words) >= 6:
            return "memset " + plural(words[1] * max(words[2], 1) * max(words[5], 1), "byte")
        if op.kind == COPY and len(words) >= 9:
            ends = {1: "host", 2: "device", 3: "array", 4: "memory"}
            return (f"copy {ends.get(words[8], '?')} to {ends.get(words[7], '?')} "
                    + plural(words[2] * max(words[3], 1) * max(words[4], 1), "byte"))
        return name_of(KINDS, op.kind)

    @staticmethod
    def words(op):
        """The arguments of an op that is no kernel."""
        n = len(op.arguments) // 8
        return struct.unpack(f"<{n}Q", op.arguments[:8 * n])

    def reads(self, op):
        """Whether the op is a copy to the host, whose call may wait for the copy."""
        return op.kind == COPY and self.words(op)[7:8] == (HOST,)

    def size(self):
        """(operations, copies to the host that are none): as a report counts, that is where no graph may have them.
        Files of older libraries do not say of an eager one."""
        alone = sum(not op.replayed and self.reads(op) and (op.submit is not None or op.why in (HELD, TO_HOST))
                    for op in self.ops)
        return len(self.ops) - alone, alone

    def operations(self, where=""):
        """The size in words."""
        ops, alone = self.size()
        return plural(ops, "operation") + where + (
            f", and {alone:,} {'copy' if alone == 1 else 'copies'} to the host" if alone else "")

    @staticmethod
    def how(op):
        """How an op was submitted, in words."""
        why = reasons.words(op.word())
        if op.replayed:
            return f"replayed, graph {op.submit.trace}"
        if op.submit is not None:
            return f"held, then {why}"
        return "eager" + (f", {why}" if why else "") + (f", failed with {op.result}" if op.result else "")


def trim(three):
    """A grid without the ones at its end."""
    three = list(three)
    while len(three) > 1 and three[-1] == 1:
        three.pop()
    return three
