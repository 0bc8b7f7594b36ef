"""What a foreman was configured with when it started."""

from typing import Final

from msgspec import Struct


class Policy(Struct, frozen=True):
    """Times are in seconds."""

    grace: float = 15.0  # how long an absent worker keeps its tasks: longer than it pauses between two tries
    crash_limit: int = 5  # a task that was lost with so many workers is not tried again
    look_ahead: float = 0.5  # work that waits on a worker for each slot, so that none is idle while we hear of its end
    first_pace: float = 1.0  # how long a task of a job is thought to take as long as none has ended


POLICY: Final = Policy()
