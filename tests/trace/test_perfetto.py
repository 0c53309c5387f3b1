# SPDX-License-Identifier: MIT
"""autograph trace --chrome: what Perfetto makes of a trace file."""
import bisect
import json
import math

import pytest

import helpers
from commands import autograph
from helpers import reasons
from tracefiles import Writer, example

PAGEABLE = [*reasons("WHY")].index("pageable")


class Tracks:
    """What Perfetto makes of the events, by the rules of its reader for this format: a track is a thread
    number of 32 bits (others are dropped, and the track is then the process's), its name comes with the
    number alone, times are rounded down to ns, and slices of a track must nest (others are dropped). An arrow has
    a number, one start and one finish, each at a time at which its track has a slice."""

    def __init__(self, events):
        self.names, self.slices, self.by_time, self.arrows, latest = {}, {}, {}, {}, {}
        for event in events:
            for key in ("pid", "tid"):
                assert 0 <= event.get(key, 0) < 1 << 32, event
            if event["ph"] == "M":
                name = event["args"]["name"]
                if event["name"] == "thread_name":
                    assert event["tid"] not in self.names and name not in self.names.values()
                    self.names[event["tid"]] = name
            else:
                assert event["ts"] >= latest.get(event["tid"], 0), event
                latest[event["tid"]] = event["ts"]
                if event["ph"] in ("s", "f"):
                    self.arrows.setdefault(event["id"], []).append(event)
                else:
                    assert event["ph"] in ("X", "B", "E"), event
                    self.slices.setdefault(event["tid"], []).append(event)
        for track, found in self.slices.items():
            assert track in self.names
            self.nest(found)

        self.arrows = [self.arrow(*ends) for ends in self.arrows.values()]

    def arrow(self, start, finish):
        """What it leads from, and to."""
        assert [start["ph"], finish["ph"]] == ["s", "f"] and finish["bp"] == "e" and start["ts"] <= finish["ts"]
        assert (start["cat"], start["name"]) == (finish["cat"], finish["name"])
        return [self.slice_at(event) for event in (start, finish)]

    def slice_at(self, event):
        """The innermost slice at that time."""
        at = int(event["ts"] * 1000)
        events = self.by_time.setdefault(event["tid"], sorted(
            (int(e["ts"] * 1000), i) for i, e in enumerate(self.slices[event["tid"]]) if e["ph"] == "X"))
        found = self.slices[event["tid"]][events[bisect.bisect(events, (at, math.inf)) - 1][1]]
        assert int(found["ts"] * 1000) <= at < int(found["ts"] * 1000) + found["dur"] * 1000, event
        return found

    @staticmethod
    def nest(events):
        open_until, regions = [], 0
        for event in sorted(events, key=lambda e: (int(e["ts"] * 1000), -e.get("dur", 0))):
            start = int(event["ts"] * 1000)
            end = start + int(event.get("dur", 0) * 1000)
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if event["ph"] == "X":
                assert not open_until or end <= open_until[-1], event
                open_until.append(end)
            regions += {"B": 1, "E": -1}.get(event["ph"], 0)
        assert regions == 0

    def of(self, name):
        return [self.slices.get(track, []) for track, known in self.names.items() if known == name]


def chrome(path):
    return json.loads(autograph("trace", path, "--chrome", "-").stdout)["traceEvents"]


def test_each_stream_is_a_track_of_its_own(tmp_path):
    tracks = Tracks(chrome(example().write(tmp_path / "t")))
    assert sorted(tracks.names.values()) == [
        "calls of thread 7", "stream 1 (non-blocking)", "stream 2 (legacy default)"]
    (first,), (second,) = map(tracks.of, ("stream 1 (non-blocking)", "stream 2 (legacy default)"))
    assert [e["name"] for e in first] == ["hold", "launch of graph 1"] * 8
    assert [e["name"] for e in second] == ["hold", "one by one: watchdog"]


def test_numbers_of_streams_and_threads_that_are_large(tmp_path):
    """As a program has them that makes streams all the time; one of them is not described."""
    w = Writer().function(1, "k")
    for thread, stream in ((1, 1), ((1 << 22) - 1, 1 << 22), (2, (1 << 32) - 1)):
        if stream != 1 << 22:
            w.stream(stream)
        w.kernel(1, stream=stream, took=None, thread=thread).submit(1, 0, stream=stream)
    tracks = Tracks(chrome(w.end().write(tmp_path / "t")))
    assert sorted(tracks.names.values()) == [
        "calls of thread 1", "calls of thread 2", "calls of thread 4194303",
        "stream 1 (non-blocking)", "stream 4194304", "stream 4294967295 (non-blocking)"]
    assert all(len(e) == 2 for e in tracks.of("stream 4194304"))


def test_an_op_that_comes_while_another_thread_submits(tmp_path):
    w = Writer().function(1, "k").stream(1)
    w.kernel(1, took=None).submit(1, 0, took=5000).kernel(1, took=None, thread=8)
    w.time += 5000
    w.submit(1, 0).end()
    (events,) = Tracks(chrome(w.write(tmp_path / "t"))).of("stream 1 (non-blocking)")
    assert [e["name"] for e in events] == ["hold", "one by one: side exit"] * 2


def test_chrome(tmp_path):
    path, out = example().write(tmp_path / "t"), tmp_path / "c.json"
    assert "perfetto" in autograph("trace", path, "--chrome", out).stdout
    events = json.loads(out.read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X", "s", "f", "B", "E"}
    assert all(e["pid"] == 4242 and e.get("dur", 0) >= 0 for e in events)
    names = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert "calls of thread 7" in names and "stream 2 (legacy default)" in names
    replays = [e for e in events if e["name"] == "launch of graph 1"]
    holds = [e for e in events if e["name"] == "hold"]
    assert len(replays) == 8 and len(holds) == 9
    assert replays[0]["dur"] == 0.5 and replays[0]["args"]["patches"] == 1
    assert 0 < replays[0]["ts"] - holds[0]["ts"] - holds[0]["dur"] < 0.002
    assert holds[0]["args"]["operations"] == 3
    eager = [e for e in events if e.get("cat") == "eager"]
    assert len(eager) == 1 and eager[0]["dur"] == 4.0
    assert json.loads(autograph("trace", path, "--chrome", "-").stdout)["traceEvents"] == events


def test_perfetto_shows_why(tmp_path):
    w = Writer().function(1, "k").stream(1).kernel(1, why=PAGEABLE).kernel(1, took=None).submit(1, 0, reason=0).end()
    found = {e["cat"]: e["args"].get("why") for e in chrome(w.write(tmp_path / "t")) if e["ph"] == "X"}
    assert found == {"eager": reasons("WHY")["pageable"], "held": reasons("REASON")["side_exit"], "hold": None,
                     "submit": reasons("REASON")["side_exit"]}


def test_names_of_program_and_threads(tmp_path):
    """And arrows from held calls to what submitted them, replayed or not; eager calls have none."""
    w = Writer().record(13, body=b"/opt/bin/solver\0").record(15, 0, 7, b"worker 1\0").record(14, 0, 0, b"NVIDIA H200\0")
    w.function(1, "k").stream(1).kernel(1).kernel(1, took=None).kernel(1, took=None, thread=8).submit(2, 1, took=0)
    events = chrome(w.end().write(tmp_path / "t"))
    tracks = Tracks(events)
    assert events[0]["args"] == {"name": "solver (process 4242)"}
    assert {*tracks.names.values()} == {"calls of thread 7 (worker 1)", "calls of thread 8", "stream 1 (non-blocking)"}
    assert [(call["tid"], launch["name"]) for call, launch in tracks.arrows] == [(7, "launch of graph 1"), (8, "launch of graph 1")]


@pytest.mark.parametrize("program", ["events", "perthread", "jacobi"])
def test_perfetto_shows_all_of_a_run(tmp_path, program):
    path, sample = tmp_path / "t", helpers.sample(f"{program}-sim")
    autograph(f"--trace={path}", sample, "--iterations", "40", "--warmup", "2")
    events = chrome(path)
    tracks = Tracks(events)
    streams = {name for name in tracks.names.values() if name.startswith("stream ")}
    drawn = {tracks.names[e["tid"]] for e in events if e.get("cat") == "submit"}
    assert drawn and drawn <= streams
    held = [e for e in events if e.get("cat") == "held"]
    assert len(tracks.arrows) == len(held) > 0
    for call, launch in tracks.arrows:
        assert call["cat"] == "held" and launch["cat"] == "submit" and f"stream {call['args']['stream']} " in tracks.names[
            launch["tid"]]
        assert ("replayed, graph" in call["args"]["how"]) <= launch["name"].startswith("launch of graph ")
    (process,) = {e["pid"] for e in events}
    assert f"calls of thread {process} ({sample.name[:15]})" in tracks.names.values()
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == [f"{sample.name} (process {process})"]
