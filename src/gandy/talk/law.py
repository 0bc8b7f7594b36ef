"""The native wire as a table: which side may send what in which state, and which state follows.

The table knows senders, never "us", so both sides obey one law. A missing entry is a protocol error. `make docs` draws
the diagram and the table in docs/protocol from it.
"""

from collections.abc import Mapping
from enum import StrEnum  # a plain Enum is slow to look up in a table
from typing import Final, NamedTuple

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.wire.messages import Cancel, Error, Hello, Job, Message, Ok, Request, Reset, Stop, Update


class Role(StrEnum):
    """The two sides of a link. (docs/protocol/v1.md: the original calls them client and server.)"""

    WORKER = "worker"
    FOREMAN = "foreman"

    @property
    def parity(self) -> int:
        """v2.md, rule 4.3: requests of workers are even, requests of the foreman are odd."""
        return 0 if self is Role.WORKER else 1

    @property
    def other(self) -> "Role":
        return Role.FOREMAN if self is Role.WORKER else Role.WORKER


class Step(NamedTuple):
    """A request, or an answer to one, that one side sends."""

    message: type[Message]
    answers: type[Request] | None = None

    def __str__(self) -> str:
        word = self.message.__name__.upper()
        return word if self.answers is None else f"{word} to {self.answers.__name__.upper()}"


class State(StrEnum):
    """Where a conversation of the second generation stands."""

    GREETING = "greeting"  # the foreman does not know the worker's state
    WELCOME = "welcome"  # HELLO is sent and not answered
    OPEN = "open"
    RESETTING = "resetting"  # a RESET is sent and not answered
    CLOSED = "closed"  # the link is gone: nothing can be sent


_WORKER, _FOREMAN = Role.WORKER, Role.FOREMAN
_GREETING, _WELCOME, _OPEN, _RESETTING = State.GREETING, State.WELCOME, State.OPEN, State.RESETTING

LAW: Final[Mapping[tuple[State, Role, Step], State]] = {
    # A worker sends HELLO first. If it sends a result before that, the result counts, and the answer asks for HELLO.
    (_GREETING, _WORKER, Step(Hello)): _WELCOME,
    (_GREETING, _WORKER, Step(Update)): _GREETING,
    (_GREETING, _FOREMAN, Step(Ok, Update)): _GREETING,
    (_GREETING, _FOREMAN, Step(Error, Update)): _GREETING,
    #
    (_WELCOME, _FOREMAN, Step(Ok, Hello)): _OPEN,
    (_WELCOME, _FOREMAN, Step(Error, Hello)): _GREETING,
    # A HELLO in the middle of a conversation may cross messages that the foreman sent before it received the HELLO.
    (_WELCOME, _FOREMAN, Step(Job)): _WELCOME,
    (_WELCOME, _FOREMAN, Step(Cancel)): _WELCOME,
    (_WELCOME, _FOREMAN, Step(Stop)): _WELCOME,
    (_WELCOME, _WORKER, Step(Ok, Job)): _WELCOME,
    (_WELCOME, _WORKER, Step(Ok, Cancel)): _WELCOME,
    (_WELCOME, _WORKER, Step(Ok, Stop)): _WELCOME,
    (_WELCOME, _WORKER, Step(Error, Job)): _WELCOME,
    (_WELCOME, _WORKER, Step(Error, Cancel)): _WELCOME,
    (_WELCOME, _WORKER, Step(Error, Stop)): _WELCOME,
    (_WELCOME, _FOREMAN, Step(Ok, Update)): _WELCOME,
    (_WELCOME, _FOREMAN, Step(Error, Update)): _WELCOME,
    (_WELCOME, _FOREMAN, Step(Reset)): _RESETTING,
    #
    (_OPEN, _WORKER, Step(Hello)): _WELCOME,
    (_OPEN, _FOREMAN, Step(Job)): _OPEN,
    (_OPEN, _WORKER, Step(Ok, Job)): _OPEN,
    (_OPEN, _WORKER, Step(Error, Job)): _OPEN,
    (_OPEN, _FOREMAN, Step(Cancel)): _OPEN,
    (_OPEN, _WORKER, Step(Ok, Cancel)): _OPEN,
    (_OPEN, _WORKER, Step(Error, Cancel)): _OPEN,
    (_OPEN, _FOREMAN, Step(Stop)): _OPEN,
    (_OPEN, _WORKER, Step(Ok, Stop)): _OPEN,
    (_OPEN, _WORKER, Step(Error, Stop)): _OPEN,
    (_OPEN, _WORKER, Step(Update)): _OPEN,
    (_OPEN, _FOREMAN, Step(Ok, Update)): _OPEN,
    (_OPEN, _FOREMAN, Step(Error, Update)): _OPEN,
    (_OPEN, _WORKER, Step(Reset)): _RESETTING,
    (_OPEN, _FOREMAN, Step(Reset)): _RESETTING,
    # v2.md, rule 5b: requests from before the RESET are answered before the RESET is.
    (_RESETTING, _WORKER, Step(Hello)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Ok, Hello)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Error, Hello)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Job)): _RESETTING,
    (_RESETTING, _WORKER, Step(Ok, Job)): _RESETTING,
    (_RESETTING, _WORKER, Step(Error, Job)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Cancel)): _RESETTING,
    (_RESETTING, _WORKER, Step(Ok, Cancel)): _RESETTING,
    (_RESETTING, _WORKER, Step(Error, Cancel)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Stop)): _RESETTING,
    (_RESETTING, _WORKER, Step(Ok, Stop)): _RESETTING,
    (_RESETTING, _WORKER, Step(Error, Stop)): _RESETTING,
    (_RESETTING, _WORKER, Step(Update)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Ok, Update)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Error, Update)): _RESETTING,
    (_RESETTING, _WORKER, Step(Reset)): _RESETTING,
    (_RESETTING, _FOREMAN, Step(Reset)): _RESETTING,
    (_RESETTING, _WORKER, Step(Reset, Reset)): _GREETING,
    (_RESETTING, _FOREMAN, Step(Reset, Reset)): _GREETING,
}


def follow(state: State, us: Role, sender: Role, step: Step) -> State:
    """Return the state after a step.

    Raises: LocalProtocolError, if we would break the law; RemoteProtocolError, if the peer did.
    """
    try:
        return LAW[state, sender, step]
    except KeyError:
        text = f"a {sender.value} cannot send {step} in state {state.value}"
        if sender is us:
            raise LocalProtocolError(text) from None
        raise RemoteProtocolError(text, ErrorCode.BAD_STATE) from None
