"""How a foreman is configured. It does not change while the foreman runs."""

from typing import Final

from msgspec import Struct


class Policy(Struct, frozen=True):
    """Times are in seconds."""

    grace: float = 15.0  # how long an absent worker keeps its tasks: longer than workers pause before they reconnect
    crash_limit: int = 5  # a task that was lost with so many workers is not tried again
    look_ahead: float = 0.5  # work that waits on a worker for each slot, so that no slot is idle while a result travels
    first_pace: float = 1.0  # how long a task of a job should take, until one has ended


POLICY: Final = Policy()
