"""What the answer to a request needs from outside.

A request is answered by a generator: it yields steps, the program around performs each and sends back what came of it,
and the generator returns the answer. So decisions about requests are made here, and nothing here waits.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from gandy.core.effects import Effect
from gandy.core.links import Link
from gandy.core.requests import (
    DrainForeman,
    Invite,
    ListAudit,
    ListForemen,
    ListKeys,
    LookAtShards,
    MakeKey,
    PutArguments,
    Request,
    RevokeKey,
)
from gandy.core.rows import StoredJobs
from gandy.ids import JobId, TaskNumber

T = TypeVar("T")


class Look(Struct, frozen=True):
    """Read something in the store. The result is that of `read`. Raises: StoreError."""

    read: Callable[[StoredJobs], Awaitable[Any]]


class Decide(Struct, frozen=True):
    """Have effects done as soon as the store knows of them. Does not wait, and has no result."""

    effects: list[Effect]


class Commit(Struct, frozen=True):
    """The same, and wait until the store knows of them, and of everything before. Raises: StoreError."""

    effects: list[Effect]


class Question(NamedTuple):
    """For a worker: a message of an extension that it answers."""

    link: Link
    kind: int
    payload: bytes


class Ask(Struct, frozen=True):
    """Ask workers, all at the same time. The result has the payload of each answer, or None if none came in time."""

    questions: tuple[Question, ...]
    seconds: float


class Note(Struct, frozen=True):
    """Note in the audit what the client does."""

    what: str
    about: dict[str, object] = {}


class Follow(Struct, frozen=True):
    """Send the client events about a job from now on: its changes, or its results. The result is its row, or None.

    Raises: Refusal, StoreError.
    """

    job: JobId
    results: bool


class Show(Struct, frozen=True):
    """Answer a viewer when it is its turn: with all that there is to see of this shard, or of the tasks of a job.

    What changes follows as events, except after the states of some tasks, from `first` on. The result is False if the
    job is not in memory, and then the client has no answer yet. Raises: Refusal.
    """

    job: JobId | None
    first: TaskNumber | None = None


class Unfollow(Struct, frozen=True):
    """Send the client no more events for its request with this number."""

    seq: int


class CompareClocks(Struct, frozen=True):
    """The result is how far the shared time is ahead of ours. Raises: Refusal, if that is not known."""


class DrawIdentity(Struct, frozen=True):
    """The result is a random number for a job, which distinguishes it from a lost job with the same number."""


class KeepArguments(Struct, frozen=True):
    """Keep a piece of large arguments. Raises: Refusal."""

    request: PutArguments


class ManageKeys(Struct, frozen=True):
    """The result is the answer to a request about keys, or about the audit. Raises: Refusal, StoreError."""

    request: ListKeys | MakeKey | RevokeKey | Invite | ListAudit


class Forward(Struct, frozen=True):
    """Have the owner of another shard answer. The result is its answer; events that follow it are passed on.

    Raises: Refusal.
    """

    shard: int
    request: Request


class AskShards(Struct, frozen=True):
    """Ask all other shards. The result has the answers that came in time."""

    request: Request


class ManageCrew(Struct, frozen=True):
    """The result is the answer to a request about the foremen of the crew. Raises: Refusal."""

    request: ListForemen | DrainForeman | LookAtShards


class StopProgram(Struct, frozen=True):
    """Stop the foreman: now, or when the last worker has left."""

    drain: bool


# What the foreman that is asked does alone.
OwnStep = (
    Look
    | Decide
    | Commit
    | Ask
    | Note
    | Follow
    | Show
    | Unfollow
    | CompareClocks
    | DrawIdentity
    | KeepArguments
    | ManageKeys
    | StopProgram
)
# What other shards or foremen have a part in.
CrewStep = Forward | AskShards | ManageCrew
Step = OwnStep | CrewStep
Steps = Generator[Step, Any, T]
