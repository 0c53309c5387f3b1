# SPDX-License-Identifier: MIT
"""Draws a part of many cases by a seed: $AG_SEED, which ./scripts/check --seed N gives.

Whether a case is drawn depends on the seed and the case's name alone: not on the other cases, their order, or
the process that asks.
"""
import hashlib
import os

SEED = os.environ.get("AG_SEED") or "1"  # a constant: two checks of a tree run the same cases


def chance(name):
    """A number from 0 to 1 that this case has with this seed."""
    return int.from_bytes(hashlib.sha256(f"{SEED} {name}".encode()).digest()[:8], "big") / 2**64


def part(share, cases, name=str):
    """The cases that are drawn, so many of them as `share` says on average, and one at least."""
    cases = list(cases)
    least = min(map(chance, map(name, cases)), default=0)
    return [case for case in cases if chance(name(case)) < share or chance(name(case)) == least]
