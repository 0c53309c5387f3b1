# SPDX-License-Identifier: MIT
"""Reads a trace file as docs/formats.md describes it; what is cut off at the end is left out."""
import collections
import pathlib
import struct

PAD, STRING, FUNCTION, STREAM, TRACE, OP, RETURN, SUBMIT, BARRIER, ALLOC, FREE, REGION, END = range(13)
KERNEL, MEMSET, COPY, RECORD, WAIT, VALUE = range(6)

Record = collections.namedtuple("Record", "thread type sub id time body")
Op = collections.namedtuple("Op", "sequence kind function size hash shape arguments time thread")


class Trace:
    """The records, and what they say."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        magic, self.version, header = struct.unpack_from("<8sII", data)
        assert magic == b"AGTRACE\n" and self.version == 1 and header == 64
        self.start, self.wall, self.pid, self.most = struct.unpack_from("<QQII", data, 16)
        self.library = data[40:64].rstrip(b"\0").decode()
        self.records, self.lost = [], {}
        at = header
        while at + 24 <= len(data):
            magic, size, thread, zero, lost = struct.unpack_from("<IIIIQ", data, at)
            assert magic == 0x4b434741 and size % 8 == 0 and zero == 0
            self.lost[thread] = lost
            self._chunk(thread, data[at + 24:at + 24 + size])
            at += 24 + size
        self.complete = bool(self.records) and self.records[-1].type == END and at == len(data)
        self.names = {r.id: text(r.body) for r in self.of(STRING)}
        self.functions = {}
        for r in self.of(FUNCTION):
            handle, count, size = struct.unpack_from("<QII", r.body)
            fields = [struct.unpack_from("<II", r.body, 16 + 8 * i) for i in range(count)]
            self.functions[r.id] = (text(r.body[16 + 8 * count:]), size, fields)
        self.ops = collections.defaultdict(list)
        for r in self.of(OP):
            sequence, function, size, hashed = struct.unpack_from("<QIIQ", r.body)
            kernel = r.sub == KERNEL
            shape = struct.unpack_from("<8I", r.body, 24) if kernel else None
            at = 56 if kernel else 24
            arguments = r.body[at:at + min(size, self.most)]
            if not kernel:
                arguments = struct.unpack(f"<{size // 8}Q", arguments)
            self.ops[r.id].append(Op(sequence, r.sub, self.functions.get(function, ("", 0, []))[0],
                                     size, hashed, shape, arguments, r.time, r.thread))
        for ops in self.ops.values():
            ops.sort()
        self.submits = [(r.id, r.sub, *struct.unpack_from("<QIIIIQ", r.body))
                        for r in self.of(SUBMIT)]
        self.barriers = [self.names[r.id] for r in self.of(BARRIER)]

    def _chunk(self, thread, data):
        at = 0
        while at + 16 <= len(data):
            size, kind, sub, number, time = struct.unpack_from("<HBBIQ", data, at)
            assert size >= 16 and size % 8 == 0
            if at + size > len(data):
                return
            if kind != PAD:
                self.records.append(Record(thread, kind, sub, number, time, data[at + 16:at + size]))
            at += size

    def of(self, kind):
        return [r for r in self.records if r.type == kind]


def text(data):
    return data.split(b"\0", 1)[0].decode()
