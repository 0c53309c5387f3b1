# SPDX-License-Identifier: MIT
"""What a report says, in a sentence or two: how much went out in graphs, what that saved, what to do next."""
import collections
import math
import os
import re

import reasons
import simulated
from advice import POOL, advice, default, holds_back
from common import duration, plural, share
from reasons import words

ENOUGH = 8  # ops of a graph, on the average: longer ones save little more
MUCH, LITTLE, TINY = 0.05, 0.02, 0.005  # of the ops
SHORT_RUN = 1000  # ops
POOL_WAITS = 16  # allocations behind waits: fewer cost little
NO_CAUSES = ("sequence_end", "exit")
OLD_VARIANCE = 0.0225  # of duels in reports that do not say: that of a single pair

Saving = collections.namedtuple("Saving", "low us high")  # us; less than 0: graphs were slower
# `ops` is None in older reports; `why`: a sentence or "".
Cause = collections.namedtuple("Cause", "ops calls name why todo code")


# -- Time saved --------------------------------------------------------------------

def is_simulated(data):
    return simulated.is_one(data.get("gpus"))


def is_of_simulated(reports):
    """Whether a run is of the simulated driver. Without a context the environment here tells."""
    return any(map(is_simulated, reports)) or (not any(r.get("gpus") for r in reports) and simulated.is_found(os.environ))


def saving(data):
    """What the run has saved; None: nobody knows. The rule of src/observe/saving.h."""
    ops, run = data["ops"]["replayed"], (data["seconds"] or 0) * 1e6
    if not ops or not run or is_simulated(data) or data.get("eager_ns") is None:
        return None
    held, eager, variance = data["held_ns"], data["eager_ns"], data.get("duel_variance")
    us = (eager - held) * ops / 1e3 - (data.get("making_us") or 0)
    error = math.sqrt(OLD_VARIANCE if variance is None else variance) * (held + eager) * ops / 1e3  # two of them
    if us - error >= run or us + error <= -run:
        return None
    return Saving(*(max(-run, min(bound, run)) for bound in (us - error, us, us + error)))


def part_of(data, trace):
    """A trace's part of what was saved, by its replayed operations, us."""
    return saving(data).us * trace["length"] * trace["replays"] / data["ops"]["replayed"]


def interval(low, high):
    """Two durations as "9.40 to 13.6 ms"."""
    low, high = duration(max(0, low)), duration(high)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{'0' if low.startswith('0.00') else low} to {high}"


def faster(data, us):
    """How many times as long the run would have taken without graphs."""
    return 1 + us / (data["seconds"] * 1e6)


def of_the_run(data, us):
    """The saved time as a share of what the run would have taken."""
    return share(max(0, us), us + data["seconds"] * 1e6)


def unknown(data):
    """Why there is no saving."""
    if not data["ops"]["replayed"]:
        return "Nothing was saved."
    if is_simulated(data):
        return simulated.NO_TIMES
    if data["seconds"] and data.get("eager_ns") is not None:
        return ("By one trial that saved more time than the whole run took, which needs a better measurement: "
                "autograph bench -- ./app.")
    return "How much time that saved was not measured: autograph bench -- ./app does that."


def saved(data):
    """A sentence on the time that was saved."""
    found = saving(data)
    if found is None:
        return unknown(data)
    if found.high <= 0 and data["held_ns"] < data["eager_ns"]:
        return "Making graphs took as long as they have saved: a longer run gains more."
    if found.high <= 0:
        return "Graphs were slower than launches here, so the library mostly launches as the program does."
    if found.low <= 0:
        return f"No saving could be measured: it was {duration(found.high)} at most."
    return (f"That saved about {duration(found.us)} ({interval(found.low, found.high)}), "
            f"{of_the_run(data, found.us)} of the time without graphs.")


# -- What keeps work out of graphs ----------------------------------------------------

def stopped(data):
    """(why nothing is held any more, what to do), or None."""
    why = data.get("stopped")
    if not why:
        return None
    name = re.match(r"(\w+) is set: ", str(why))
    return (f"The library stopped holding: {why}.",
            f"env -u {name[1]} autograph ./app" if name else "See docs/limits.md, \"Programs that hide their calls\".")


def options(data):
    """The options that keep work eager, as "graph.execs=0"."""
    return [f"{name}={value}" for name, value in (data.get("options") or {}).items()
            if holds_back(name, value)]


def name_of(function):
    """A driver function as its documentation names it."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", function)


def says_all(data):
    """Whether the report has a reason for each eager operation."""
    return "not_repeated" in (data["eager_ops"] or {})


def by_function(data):
    """{name: a Cause's values}, of a report that does not say all."""
    rows = {}
    for cut in data["cuts"]:
        function, reason = cut["function"], cut["reason"]
        if function is None and reason in NO_CAUSES:
            continue
        name = name_of(function) if function else words(reason)
        ops, calls = rows.get(name, (0, 0))[:2]
        rows[name] = (ops + cut["ops"], calls + cut["calls"], name, "", *advice(function, reason))
    return rows


def by_reason(data):
    """{(name, reason): a Cause's values}. A call that only ended sequences is told of with its lost operations."""
    rows, ended = {}, {}
    left = {word: n for word, n in data["eager_ops"].items() if word not in reasons.NOBODY}

    def add(function, reason, word, ops, calls):
        name = name_of(function) if function else words(word)
        row = rows.get((name, word), (0, 0))
        rows[name, word] = (ops + row[0], calls + row[1], name, reasons.sentence(word), *advice(function, reason, word))

    for cut in data["cuts"]:
        word = cut["why"] or cut["reason"]
        if not cut["ops"]:
            ended[cut["function"], cut["reason"]] = ended.get((cut["function"], cut["reason"]), 0) + cut["calls"]
        elif word not in reasons.NOBODY:
            add(cut["function"], cut["reason"], word, cut["ops"], cut["calls"])
            left[word] = left.get(word, 0) - cut["ops"]
    for (function, reason), calls in ended.items():
        same = [cut for cut in data["cuts"] if cut["function"] == function and cut["ops"]]
        if function is not None:
            most = max(same, key=lambda cut: cut["ops"], default=None)
            add(function, reason, (most["why"] or most["reason"]) if most else reason, 0, calls)
    for word, ops in left.items():
        functions = {cut["function"] for cut in data["cuts"] if (cut["why"] or cut["reason"]) == word and cut["ops"]}
        if ops > 0:
            add(functions.pop() if len(functions) == 1 else None, word, word, ops, 0)
    return rows


def causes(data):
    """A Cause for each call, most ops first. The call may have ended sequences of which nothing was lost."""
    if data["cuts"] is None:
        rows = [Cause(None, n, words(name), "", *advice(None, name)) for name, n in data["flushes"].items()
                if n and name not in NO_CAUSES]
        return sorted(rows, key=lambda c: -c.calls)
    rows = by_reason(data) if says_all(data) else by_function(data)
    waits = data["waited"] or 0  # those whose graph had gone out before have cut nothing
    if waits > 4 * sum(c["calls"] for c in data["cuts"] if c["reason"] == "host_wait"):
        rows["waits"] = (0, waits, "waits for the GPU", "", *advice(None, "host_wait"))
    return sorted((Cause(*row) for row in rows.values()), key=lambda c: (-c.ops, -c.calls))


def are_short(data):
    """Whether graphs are so short that longer ones would save more."""
    return 0 < data["ops"]["replayed"] < ENOUGH * data["replays"]


def matters(data, cause):
    """Whether the cause costs ops, or often ends sequences where graphs are short."""
    ops = data["ops"]
    short = are_short(data) if ops["replayed"] else ops["total"] >= SHORT_RUN
    return bool(cause.code and short and cause.calls >= LITTLE * ops["total"])


def obstacles(data):
    """The causes that are worth a row."""
    if forbidden(data):
        return []
    return [c for c in causes(data) if c.ops is None or c.ops > TINY * data["ops"]["total"] or matters(data, c)]


def forbidden(data):
    """Why the library could make no graph whatever the program does, a sentence; or None."""
    if stopped(data):
        return stopped(data)[0]
    none = (data.get("options") or {}).get("graph.execs") == 0
    return "The option graph.execs=0 forbids all graphs." if none else None


def nobody(data):
    """elsewhere(), of a report that has all reasons."""
    eager, shown = data["eager_ops"], obstacles(data)
    named = []
    for word in reasons.NOBODY:
        name, why = {"unwatched": "not watched"}.get(word, words(word)), reasons.sentence(word)
        if word == "unwatched":
            why = ("graphs were no faster when both ways were tried" if data.get("duels_lost") else
                   "nothing seemed to repeat for long")
        if word == "not_repeated" and forbidden(data):
            name, why = "not allowed", "the library had stopped" if stopped(data) else ", ".join(options(data))
        named.append((eager.get(word, 0), name, why))
    named.append((sum(c.ops for c in causes(data) if c not in shown), "other calls",
                  "each kept out fewer than one in two hundred"))
    return [row for row in named if row[0] > 0]


def elsewhere(data):
    """[(ops, words, explanation)] of the eager ops that no call is to blame for."""
    if says_all(data):
        return nobody(data)
    ops, eager, shown = data["ops"], data["eager_ops"] or {}, obstacles(data)
    named = [(eager.get("first_rounds", 0), "first rounds", "work that came before there was a graph of it"),
             (eager.get("trials", 0), "trials", "launched as the program does, to see which way is faster"),
             (eager.get("unwatched", 0), "not watched", "graphs were no faster when both ways were tried"
              if data.get("duels_lost") else "nothing seemed to repeat for long")]
    if data["cuts"] is None:
        return [(ops["eager"], "not replayed", "older reports do not say why")] if ops["eager"] else []
    blamed = {False: 0, True: 0}
    for cause in causes(data):
        blamed[cause in shown] += cause.ops
    named.append((blamed[False], "other calls", "each kept out fewer than one in two hundred"))
    left = ops["eager"] - blamed[True] - sum(n for n, *_ in named)
    if forbidden(data):
        named.append((left, "not allowed", "the library had stopped" if stopped(data) else ", ".join(options(data))))
    else:
        named.append((left, "not repeated", "work that came too seldom, as before and behind a loop"))
    return [row for row in named if row[0] > 0]


def in_general(data):
    """Sentences on what stands in the way and is no call."""
    ops, found = data["ops"], [forbidden(data)]
    if not found[0] and options(data) and ops["eager"] > MUCH * ops["total"]:
        found.append(f"Options that keep more work eager than their defaults do: {', '.join(options(data))}.")
    if pool(data):
        found.append("The memory pool gives its memory back at each wait.")
    return [line for line in found if line]


def pool(data):
    """Advice on the memory pool, (what, code), or None."""
    found = data["pool"] or {}
    return POOL if found.get("keeps") == 0 and found["behind_waits"] > POOL_WAITS else None


# -- The verdict ------------------------------------------------------------------------

def went_out(data):
    ops = data["ops"]
    if not ops["total"]:
        made = "launched nothing" if data["gpus"] is None or data["gpus"] else "made no context, and launched nothing"
        return f"The program {made} that the library could see. Graphs of its own do not count." + (
            f" {simulated.ONLY}" if is_of_simulated([data]) else "")
    return f"{share(ops['replayed'], ops['total'])} of {plural(ops['total'], 'operation')} went out in graphs."


def why_nothing(data):
    """Why nothing at all was replayed, a sentence."""
    ops, found = data["ops"], obstacles(data)
    rows = sorted(elsewhere(data), reverse=True)
    if options(data):
        return f"The reason may be an option: {', '.join(options(data))}."
    if data.get("barred"):
        return "A stream has attributes, or a context that is beyond the library."
    if data.get("duels_lost"):
        return "Graphs were no faster than launches when the library tried both."
    if ops["total"] < SHORT_RUN:
        return "The run was too short: the same work must come some times before there is a graph of it."
    if found and found[0].ops and (not rows or found[0].ops >= rows[0][0]):
        return f"{found[0].name} keeps most of them out: see below."
    return "The work did not repeat, so there was no graph to make."


def verdict(data):
    """One or two sentences."""
    if data.get("partial"):
        return "The process ended within a call, so numbers are missing. " + complete_verdict(data)
    return complete_verdict(data)


def complete_verdict(data):
    stop, ops = stopped(data), data["ops"]
    if stop and not ops["replayed"]:
        return f"Nothing went out in graphs. {stop[0]}"
    if not ops["total"]:
        return went_out(data)
    if not ops["replayed"]:
        return (f"None of {plural(ops['total'], 'operation')} went out in graphs. "
                f"{forbidden(data) or why_nothing(data)}")
    return f"{went_out(data)} {saved(data)}" + (f" {stop[0]}" if stop else "")


def first(data):
    """The cause to do something about first, or None."""
    if forbidden(data) or pool(data) or (not data["ops"]["replayed"] and data["ops"]["total"] < SHORT_RUN):
        return None
    return next((c for c in obstacles(data) if c.code and
                 ((c.ops or 0) > LITTLE * data["ops"]["total"] or matters(data, c))), None)


def next_step(data):
    """(what to do, line of code or "")."""
    ops = data["ops"]
    if stopped(data):
        return "Take away what stops it.", stopped(data)[1]
    if forbidden(data):
        place = data.get("config") or "the configuration file"
        return (f"Give the option its default: it is set in {place}, in the environment, or by --set.",
                f"autograph --set graph.execs={default('graph.execs')} ./app")
    if pool(data):
        return pool(data)
    if not ops["replayed"] and 0 < ops["total"] < SHORT_RUN:
        return "Let it run for longer.", ""
    if first(data):
        return f"{first(data).todo[:-1]} ({first(data).name}).", first(data).code
    if not ops["total"]:
        return ("Look at the program's own errors: its calls may have failed. Where there are none, ask whether the "
                "library can see its calls.", "autograph doctor ./app")
    if ops["replayed"] and is_simulated(data):
        return "Run it on a GPU.", ""
    if ops["replayed"] and not saving(data):
        return "Measure what it saves.", "autograph bench -- ./app"
    return "Nothing is to be done.", ""
