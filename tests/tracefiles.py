# SPDX-License-Identifier: MIT
"""Trace files made by hand, by docs/formats.md."""
import struct

KERNEL, MEMSET, COPY, EVENT_RECORD, WAIT, VALUE = range(6)


class Writer:
    """Records in the order in which they are added; the clock goes on by 1 us with each."""

    def __init__(self, version=1, pid=4242):
        self.header = struct.pack("<8sIIQQII24s", b"AGTRACE\n", version, 64, 1000, 0, pid, 256,
                                  b"0.1.0")
        self.chunks, self.time, self.lost, self.sequences = b"", 1000, 0, {}
        self.allocations = {}

    def record(self, kind, sub=0, number=0, body=b"", thread=7, size=None):
        self.time += 1000
        body += bytes(-len(body) % 8)
        data = struct.pack("<HBBIQ", size or 16 + len(body), kind, sub, number, self.time) + body
        self.chunks += struct.pack("<IIIIQ", 0x4b434741, len(data), thread, 0, self.lost) + data
        return self

    def string(self, number, text):
        return self.record(1, 0, number, text.encode() + b"\0", thread=0)

    def function(self, number, name, *parameters, known=1):
        """Parameters are (offset, size)."""
        body = struct.pack("<QII", 99, len(parameters), sum(s for _, s in parameters))
        for parameter in parameters:
            body += struct.pack("<II", *parameter)
        return self.record(2, known, number, body + name.encode() + b"\0", thread=0)

    def stream(self, number, kind=1):
        return self.record(3, kind, number, struct.pack("<QQ", 0x5000 + number, 1), thread=0)

    # took (ns): the op is eager and this is what its call took; None: it is held. `why`: it is eager.
    def kernel(self, function, arguments=b"", stream=1, grid=(1, 1, 1), took=900, thread=7,
               result=0, why=0):
        body = struct.pack("<8I", *grid, 128, 1, 1, 0, 0)
        return self.op(KERNEL, function, body, arguments, stream, took, thread, result, why)

    def other(self, kind, *words, stream=1, took=900, thread=7):
        return self.op(kind, 0, b"", struct.pack(f"<{len(words)}Q", *words), stream, took, thread)

    def op(self, kind, function, shape, arguments, stream, took, thread, result=0, why=0):
        sequence = self.sequences[stream] = self.sequences.get(stream, 0) + 1 if stream else 0
        self.record(5, kind, stream, struct.pack("<QIIQ", sequence, function, len(arguments), 1)
                    + shape + arguments, thread)
        if took is not None:
            self.time += took - 1000
            self.record(6, why, stream, struct.pack("<QQ", sequence, result), thread)
        return self

    def submit(self, held, replayed, trace=1, reason=0, stream=1, patches=0, took=500):
        return self.record(7, reason, stream, struct.pack(
            "<QIIIIQ", self.sequences[stream], held, replayed, trace, patches, took))

    def definition(self, number, *ops, stream=1):
        """Ops are (kind, function)."""
        return self.record(4, 0, number, struct.pack("<II", stream, len(ops))
                           + b"".join(struct.pack("<II", *op) for op in ops), thread=0)

    def barrier(self, string, took=0):
        return self.record(8, 0, string, struct.pack("<Q", took))

    def alloc(self, address, size, kind=0):
        return self.record(9, kind, 0, struct.pack("<QQ", address, size))

    def free(self, address):
        return self.record(10, 0, 0, struct.pack("<Q", address))

    def region(self, string, ends):
        return self.record(11, ends, string)

    def end(self, full=0, lost=0):
        return self.record(12, full, 0, struct.pack("<Q", lost), thread=0)

    def data(self):
        return self.header + self.chunks

    def write(self, path):
        path.write_bytes(self.data())
        return path


def pointer(*addresses):
    return struct.pack(f"<{len(addresses)}Q", *addresses)


def example(base=0x7f0000000000, replayed=True, step=None, last=9, **options):
    """Two streams, eight iterations of a memset and two kernels; what differs between runs that do
    the same: addresses, and how ops were submitted."""
    w = Writer(**options).string(1, "cuStreamSynchronize").string(2, "a region")
    w.function(1, "_Z3mixPjjj", (0, 8), (8, 4), (12, 4)).function(2, "_Z6absorbPjPKj", (0, 8), (8, 8))
    w.stream(1).stream(2, kind=2).record(99, body=b"of a later format")
    w.alloc(base, 4096).alloc(base + 0x10000, 4096).region(2, 0)
    w.definition(1, (MEMSET, 0), (KERNEL, 1), (KERNEL, 2))
    took = None if replayed else 3000
    for i in range(8):
        w.other(MEMSET, base + 64, 1024, 1, 77 + i, 0, 4, took=took)
        w.kernel(1, pointer(base + 128) + struct.pack("<II", 5, last if i == 7 else i), took=took)
        w.kernel(2, pointer(base, base + 0x10000 + 8), took=took)
        if replayed:
            w.submit(3, 3, patches=1)
        w.barrier(1, took=2000)
    w.free(base + 0x10000)
    w.kernel(1, pointer(base) + struct.pack("<II", 1, 2), stream=2, took=4000)
    if replayed:
        w.kernel(2, pointer(base, base), stream=2, took=None).submit(1, 0, reason=5, stream=2)
    else:
        w.kernel(2, pointer(base, base), stream=2, took=4000)
    return w.region(2, 1).end()
