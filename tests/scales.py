# SPDX-License-Identifier: MIT
"""Which tests a check runs (AG_SCALE: quick, normal or full): all that are not in a list here.

An entry is a test file, or FILE::TEST with all of the test's cases. Where AG_SCALE is not set, all chosen tests run.
"""

# Not in a quick check: what takes more than a few seconds, and says little of a change that is half done.
FROM_NORMAL = set()

# In a full check alone.
FROM_FULL = set()


def left_out(scale):
    """The entries that do not run at this scale."""
    return {"quick": FROM_NORMAL | FROM_FULL, "normal": FROM_FULL, "full": set()}[scale]
