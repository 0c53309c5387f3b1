# SPDX-License-Identifier: MIT
"""autograph compare A B: did two traces do the same work?"""
import bisect
import collections
import hashlib
import struct

import simulated
from common import (DIFFERENT, OK, Failure, Parser, duration, fitted, plural, printable, share, shortened, table,
                    width)
from tracefile import ADDRESSES, COPY, EVENT_RECORD, HOST, KERNEL, KINDS, MEMSET, STREAM_KINDS, WAIT, Trace, name_of

EPILOG = """\
Compared are the operations of each stream, in their order: kernels by name, grid, block, shared memory and
arguments; memsets, copies, events and values by theirs. A pointer is an allocation and an offset,
so that two processes can be compared. In a stream that several threads use, they may take turns in
another way. How operations were submitted makes no difference, but each must have been, once and in order,
and a graph launch must be of the graph's operations. (What the GPU computed is not in a trace: compare results
with autograph verify.)
Status: 0 the same work, 1 different, 2 a file is no trace or not complete.
"""
CONTEXT = 5


class Addresses:
    """Which allocation an address lies in, as time goes by: its bytes, kind, and which one of that
    size and kind it is of those that its thread made."""

    def __init__(self, trace):
        self.trace, self.next = trace, 0
        self.starts, self.live = [], {}
        self.made = collections.Counter()
        trace.memory.sort(key=lambda m: m.time)

    def until(self, time):
        """Goes on to a time; true if anything has changed."""
        before = self.next
        memory = self.trace.memory
        while self.next < len(memory) and memory[self.next].time <= time:
            m = memory[self.next]
            self.next += 1
            if m.address in self.live:  # freed, or the record of it is lost
                del self.live[m.address]
                del self.starts[bisect.bisect_left(self.starts, m.address)]
            if m.bytes is not None:
                self.made[m.thread, m.kind, m.bytes] += 1
                bisect.insort(self.starts, m.address)
                self.live[m.address] = (m.bytes, m.kind, self.made[m.thread, m.kind, m.bytes])
        return self.next != before

    def name(self, address):
        """("memory", bytes, kind, which, offset), or None if it is in no allocation."""
        i = bisect.bisect_right(self.starts, address)
        if i:
            start = self.starts[i - 1]
            allocation = self.live[start]
            if address - start < allocation[0]:
                return ("memory", *allocation, address - start)
        return None


def may_be_address(word):
    return 1 << 40 <= word < 1 << 57


class Work:
    """The ops of a trace by stream, each as (what, arguments that can be compared)."""

    def __init__(self, trace):
        self.trace = trace
        self.addresses = Addresses(trace)
        self.recorded = {}  # event -> the op that recorded it last
        self.first = {}     # stream -> its first sequence
        for op in trace.ops:
            self.first[op.stream] = min(op.sequence, self.first.get(op.stream, op.sequence))
        self.unknown = 0    # arguments that cannot be compared
        self.by_stream = collections.defaultdict(list)
        known = {}  # items of ops that came before, as long as the addresses mean the same
        for op in trace.ops:
            if self.addresses.until(op.time) or len(known) > 100000:
                known.clear()
            key = (op.kind, op.function, op.shape, op.arguments, op.submit is None and op.result)
            if op.kind in (EVENT_RECORD, WAIT) or key not in known:
                before = self.unknown
                known[key] = self.item(op), self.unknown - before
            else:
                self.unknown += known[key][1]
            self.by_stream[op.stream].append((op.sequence, known[key][0], op))
        for number, items in self.by_stream.items():
            if number:
                items.sort(key=lambda item: item[0])

    def item(self, op):
        """(kind, name, shape, arguments, result of an eager call that failed)."""
        arguments = self.kernel(op) if op.kind == KERNEL else self.other(op)
        function = self.trace.functions.get(op.function)
        return (op.kind, function.name if function else "", op.shape, arguments,
                op.result or 0 if op.submit is None else 0)

    def kernel(self, op):
        """The parameters one by one; pointers in them by allocation and offset."""
        function = self.trace.functions.get(op.function)
        if not function or not function.known:  # by drivers before 12.4; before 12.3 no name either
            self.unknown += 1
            return ()
        out = []
        for offset, size in function.parameters:
            value = op.arguments[offset:offset + size]
            if len(value) < size:
                self.unknown += 1
                out.append("not stored")
                continue
            whole = size - size % 8 if offset % 8 == 0 else 0
            for i in range(0, whole, 8):
                out.append(self.word(struct.unpack_from("<Q", value, i)[0], sure=False,
                                     alone=size == 8))
            out.append(bytes(value[whole:]))
        return tuple(out)

    def word(self, value, sure, alone=True):
        named = self.addresses.name(value)
        if named:
            return named
        if value and (sure or (alone and may_be_address(value))):
            self.unknown += 1
            return "an address"
        return value

    def other(self, op):
        words = list(self.trace.words(op))
        if op.kind == EVENT_RECORD and words:
            self.recorded[words[0]] = op
            return ()
        if op.kind == WAIT and words:
            at = self.recorded.get(words[0])
            return ("after nothing",) if at is None else \
                ("after", self.trace.streams.get(at.stream), at.sequence - self.first[at.stream])
        for i in ADDRESSES.get(name_of(KINDS, op.kind), ()):
            if i < len(words):
                host = op.kind == COPY and words[7 + i:8 + i] == [HOST]  # no trace knows malloc()
                words[i] = (self.addresses.name(words[i]) or "host memory") if host else \
                    self.word(words[i], sure=True)
        if op.kind == MEMSET and len(words) > 3 and words[2] <= 1:
            words[3] = 0  # the pitch of one row has no meaning
        return tuple(words)


# -- Comparing ------------------------------------------------------------------

def digest(items):
    h = hashlib.blake2b()
    for _, item, _ in items:
        h.update(repr(item).encode())
    return h.digest()


def by_threads(items):
    """Digests of what each thread did, in no order: equal if only the threads' turns differ."""
    threads = collections.defaultdict(list)
    for item in items:
        threads[item[2].thread].append(item)
    return tuple(sorted(map(digest, threads.values())))


def pairs(a, b):
    """[(stream of A, stream of B, "same", "turns" or "different")]. The numbers of streams may
    differ when several threads make them: those that did the same belong together, then those in
    which only the threads took other turns, then the others in their order by kind."""
    left, right = set(a.by_stream), set(b.by_stream)
    found = []
    for verdict, key in (("same", digest), ("turns", by_threads),
                         ("different", lambda items: None)):
        there = collections.defaultdict(list)
        for n in sorted(right):
            there[a_kind(b, n), key(b.by_stream[n])].append(n)
        for n in sorted(left):
            partners = there[a_kind(a, n), key(a.by_stream[n])]
            if partners:
                found.append((n, partners.pop(0), verdict))
        left -= {n for n, _, _ in found}
        right -= {m for _, m, _ in found}
    return (found + [(n, None, "different") for n in sorted(left)]
            + [(None, m, "different") for m in sorted(right)])


def a_kind(work, number):
    return work.trace.streams.get(number)


def explain(x, y):
    """What differs between two items, in words."""
    if x[:2] != y[:2]:
        return "another operation"
    if x[2] != y[2]:
        return "another grid, block or shared memory"
    if x[4] != y[4]:
        return f"result {x[4]} in A, {y[4]} in B"
    for i, (p, q) in enumerate(zip(x[3], y[3])):
        if p != q:
            return f"argument {i + 1}: {argument(p)} in A, {argument(q)} in B"
    return "other arguments"


def argument(value):
    if isinstance(value, tuple) and value and value[0] == "memory":
        _, size, _, which, offset = value
        return f"byte {offset:,} of allocation {which} of {plural(size, 'byte')}"
    if isinstance(value, bytes):
        return f"{int.from_bytes(value, 'little'):#x}"
    return f"{value:#x}" if isinstance(value, int) else str(value)


def first_difference(a, b, left, right):
    """Lines about the first place at which two streams differ."""
    x, y = a.by_stream.get(left, []), b.by_stream.get(right, [])
    kind = name_of(STREAM_KINDS, (a if left is not None else b).trace.streams.get(
        left if left is not None else right, 99))
    if left is None or right is None:
        only, items = ("A", x) if right is None else ("B", y)
        return [f"stream {left if left is not None else right} ({kind}), "
                f"{plural(len(items), 'operation')}, is only in {only}"]
    at = next((i for i, (p, q) in enumerate(zip(x, y)) if p[1] != q[1]), min(len(x), len(y)))
    lines = [f"stream {left} ({kind}){f', {right} in B' if right != left else ''}, "
             f"operation {at + 1:,} (A has {plural(len(x), 'operation')}, B {len(y):,}):"]
    for _, _, op in x[max(0, at - CONTEXT):at]:
        lines.append(f"    {shortened(a.trace.what(op), width() - 4)}")
    for name, work, items in (("A", a, x), ("B", b, y)):
        op = items[at][2] if at < len(items) else None
        how = f"  [{work.trace.how(op)}]" if op else ""
        lines.append(f"  {name} {shortened(work.trace.what(op), width() - 4 - len(how))}{how}" if op else
                     f"  {name} ends here")
    if at < len(x) and at < len(y):
        lines.append(f"    {explain(x[at][1], y[at][1])}")
    return lines


# -- Each trace by itself -----------------------------------------------------------

def unreturned(trace):
    """Ops whose calls did not return: the last of a thread, if the process ended then, and reads, whose
    waits a program may leave by a longjmp."""
    last = {op.thread: op for op in trace.ops}
    for b in trace.barriers:
        if b.thread in last and b.time > last[b.thread].time:
            del last[b.thread]
    return {op for op in trace.ops if op.stream and op.submit is None and op.took is None
            and (op is last.get(op.thread) or trace.reads(op))}


def disorder(trace):
    """Sentences about ops that were not submitted once, in their order, as what they were."""
    found, left = [], unreturned(trace)
    by_stream = collections.defaultdict(list)
    for op in trace.ops:
        if op.stream:
            by_stream[op.stream].append(op)
    submits = collections.defaultdict(list)
    for s in trace.submits:
        submits[s.stream].append(s)

    def named(op):
        """By name: a function that lives on when others go gets another number."""
        function = trace.functions.get(op[1])
        return op[0], function.name if function else op[1]

    for number, ops in by_stream.items():
        ops.sort(key=lambda op: op.sequence)
        base = ops[0].sequence
        if ops[-1].sequence - base + 1 != len(ops):
            found.append(f"stream {number}: operations are missing or double")
        done, over = 0, 0  # the last op that a submission held, and when it was over
        for s in sorted(submits[number], key=lambda s: s.last):
            first = s.last - s.held + 1
            if s.held and first <= done or s.time < over or s.replayed > s.held:
                found.append(f"stream {number}: operation {first} was submitted twice, or out of order")
            done, over = s.last, s.time + s.took
            if s.replayed:
                wanted = trace.definitions.get(s.trace, (0, []))[1][:s.replayed]
                replayed = ops[max(0, first - base):max(0, first - base) + s.replayed]
                if [*map(named, wanted)] != [named((op.kind, op.function)) for op in replayed]:
                    found.append(f"stream {number}: operation {first} and those behind it are not those "
                                 f"of graph {s.trace}, which was launched for them")
        latest = 0  # when the submissions of all ops so far were over
        for op in ops:
            if op.submit is not None:
                latest = max(latest, op.submit.time + op.submit.took)
            elif op.took is None and op not in left:
                found.append(f"stream {number}: operation {op.sequence} was never submitted")
            elif op.took is not None and op.time + op.took < latest:
                found.append(f"stream {number}: operation {op.sequence} overtook those held before it")
    return found


# -- Summary ----------------------------------------------------------------------

def summary(trace):
    """Figures of one trace, by name."""
    ops, (counted, alone) = trace.ops, trace.size()
    span = (ops[-1].time - ops[0].time) / 1e3 if len(ops) > 1 else 0
    reading = sum(op.took or 0 for op in ops if trace.reads(op))
    submitting = (sum(op.took or 0 for op in ops if op.submit is None and not trace.reads(op))
                  + sum(s.took for s in trace.submits)) / 1e3
    waiting = (sum(b.took for b in trace.barriers) + reading) / 1e3
    replayed = sum(op.replayed for op in ops)
    gaps = sorted(q.time - p.time for p, q in zip(ops, ops[1:]))
    return {
        "operations": f"{counted:,}",
        "copies to the host": f"{alone:,}",
        "replayed": share(replayed, counted),
        "from first to last": duration(span),
        "operations per second": f"{len(ops) / span * 1e6:,.0f}" if span else "-",
        "median time between two": duration(gaps[len(gaps) // 2] / 1e3) if gaps else "-",
        "CPU time in submissions": duration(submitting),
        "the same for each": duration(submitting / len(ops)) if ops else "-",
        "time in barriers and reads": duration(waiting),
    }


def judge(first, second):
    """(lines about what differs, closing sentence, whether they did the same work)."""
    for trace in (first, second):
        if trace.flaws:
            raise Failure(f"{trace.path}: {trace.flaws[0]}\n  nothing can be said of it")
        if not trace.ops:
            raise Failure(f"{trace.path}: has no operations in it; nothing can be said")
    wrong = [f"{trace.path}: {text}" for trace in (first, second) for text in disorder(trace)]
    if wrong:
        return wrong[:5], "operations were not submitted as the program issued them", False
    a, b = Work(first), Work(second)
    found = pairs(a, b)
    differ = [(left, right) for left, right, verdict in found if verdict == "different"]
    lines = [f"{trace.path}: {plural(len(unreturned(trace)), 'call')} did not return"
             for trace in (first, second) if unreturned(trace)]
    lines += [f"stream {left}: its threads took turns in another way, as they may; each did the same"
             for left, _, verdict in found if verdict == "turns"]
    for left, right in differ[:3]:
        lines += map(printable, first_difference(a, b, left, right))
    if len(differ) > 3:
        lines.append(f"... and {plural(len(differ) - 3, 'more stream')}")
    unknown = max(a.unknown, b.unknown)
    if unknown:
        lines.append(f"{plural(unknown, 'argument')} could not be compared: addresses outside of "
                     "known allocations, not stored, or of kernels that the driver does not describe")
    if differ:
        return lines, (f"{len(differ)} of {plural(len(found), 'stream')} "
                       f"{'differs' if len(differ) == 1 else 'differ'}"), False
    return lines, b.trace.operations(f" in {plural(len(found), 'stream')}"), True


def main(arguments):
    parser = Parser("compare", usage="autograph compare A B",
                    description="Says whether two traces did the same work.", epilog=EPILOG)
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B")
    given = parser.parse_args(arguments)
    traces = [Trace(given.a), Trace(given.b)]
    lines, sentence, same = judge(*traces)
    figures = list(map(summary, traces))
    rows = [["", "A", "B"], *([name, figures[0][name], figures[1][name]] for name in figures[0])]
    if any(simulated.is_one(trace.gpus.values()) for trace in traces):
        lines.append(simulated.NO_TIMES)
    print("\n".join([*fitted(lines), *table(rows, right=(1, 2)),
                     *fitted([f"{'The same work' if same else 'Different'}: {sentence}."])]))
    return OK if same else DIFFERENT
