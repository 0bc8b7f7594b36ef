"""Counts calls that end, by command, and measures how long a sample of them took from their arrival to their answer.

It does so while viewers look. The numbers are in `core.calls.OfferedCommand`, and go with it.
"""

from typing import Final

from gandy.core.calls import Call
from gandy.core.views import find_bucket
from gandy.limits import MAX_BUCKETS
from gandy.moments import Monotonic

EACH: Final = 16  # of many calls that come at once, one in so many is timed: that takes longer than to pass one on


def note_end(call: Call, now: Monotonic, *, has_failed: bool = False) -> None:
    """A call has ended."""
    call.command.ended += 1
    call.command.failed += has_failed
    if call.began:
        note_time(call, now)


def note_time(call: Call, now: Monotonic) -> None:
    """A call that is timed has ended."""
    command = call.command
    if command.buckets is None:
        command.buckets = [0] * MAX_BUCKETS
    command.buckets[find_bucket(int((float(now) - call.began) * 1e6))] += 1
