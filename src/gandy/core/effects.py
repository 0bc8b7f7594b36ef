"""What the reactor wants done. Records come first: no peer may learn what the store does not know."""

from typing import Any

from msgspec import Struct

from gandy.core.model import AttemptKey, JobSpec
from gandy.core.records import Record


class Assignment(Struct, frozen=True):
    """An attempt for a worker to make."""

    attempt: AttemptKey
    spec: JobSpec


class Give(Struct, frozen=True):
    """Have a worker start these attempts."""

    worker: str
    assignments: tuple[Assignment, ...]


class KillAttempts(Struct, frozen=True):
    """Have a worker end these attempts; their results are not waited for."""

    worker: str
    attempts: tuple[AttemptKey, ...]


class Recall(Struct, frozen=True):
    """Have a worker give back these attempts, unless they have begun."""

    worker: str
    attempts: tuple[AttemptKey, ...]


class Acknowledge(Struct, frozen=True):
    """Tell a worker that its results are safe, or that they came too late: either way it can forget them."""

    worker: str
    attempts: tuple[AttemptKey, ...]


class Dismiss(Struct, frozen=True):
    """Have a worker stop: when its tasks have ended, or now."""

    worker: str
    immediate: bool


class Reply(Struct, frozen=True):
    """Answer a client's request. `takes_work`: it confirms new work, and is refused if the store cannot keep that."""

    token: Any
    value: Any
    takes_work: bool = False


Send = Give | KillAttempts | Recall | Acknowledge | Dismiss | Reply
Effect = Record | Send
