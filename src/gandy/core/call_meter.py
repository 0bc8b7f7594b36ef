"""Counts calls that end, by command, and how long each took from its arrival to its answer.

It exists while viewers look.
"""

from msgspec import Struct, field

from gandy.core.calls import Call
from gandy.core.views import Buckets, find_bucket
from gandy.limits import MAX_BUCKETS
from gandy.moments import Monotonic


class Metered(Struct, eq=False):
    """The calls of one command. An array of numbers, because this is on the hot path."""

    ended: int = 0
    failed: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * MAX_BUCKETS)  # of microseconds

    def list_buckets(self) -> Buckets:
        """Without the empty ones at the end."""
        last = max((number for number, count in enumerate(self.buckets) if count), default=-1)
        return tuple(self.buckets[: last + 1])


class CallMeter:
    """Calls that were under way when it began to look are counted, but their time is not known."""

    def __init__(self) -> None:
        self.commands: dict[bytes, Metered] = {}
        self.ended = 0

    def note(self, call: Call, now: Monotonic, *, has_failed: bool = False) -> None:
        name = call.command.name
        metered = self.commands.get(name)
        if metered is None:
            metered = self.commands[name] = Metered()
        self.ended += 1
        metered.ended += 1
        metered.failed += has_failed
        if call.began:
            metered.buckets[find_bucket(int((float(now) - call.began) * 1e6))] += 1

    def forget(self, names: set[bytes]) -> None:
        """Drop what is known of commands that no worker offers any more."""
        for name in names:
            self.commands.pop(name, None)
