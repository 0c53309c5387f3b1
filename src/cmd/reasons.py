# SPDX-License-Identifier: MIT
"""Why operations are eager: the words and sentences of src/observe/reasons.def."""
import re

import options


def table(kind):
    """{word: sentence}, in the order of the table."""
    return dict(re.findall(rf'^AG_{kind}\(\w+,\s*"(\w+)",\s*"([^"]*)"\)$', options.source("reasons.def"), re.M))


GIVEN_UP = table("REASON")  # they were held, and went out one by one
NOT_HELD = table("WHY")

# No call of the program is to blame.
NOBODY = ("pending", "not_repeated", "first_rounds", "trials", "unwatched", "unfollowed", "behind_flush", "graph_waits",
          "graph_delayed", "sequence_end", "exit")


def sentence(word):
    """What the word means; "" for none, or one of a newer library."""
    return GIVEN_UP.get(word) or NOT_HELD.get(word) or ""


def words(word):
    return word.replace("_", " ")


def explained(text, word):
    """The text, with what the word means behind it."""
    return f"{text} ({sentence(word)})" if sentence(word) else text
