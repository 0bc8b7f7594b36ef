"""Requests and answers of one v2 link, seen from one side: docs/protocol/v2.md, rules 4 and 5.

It owns the order: which side may send what, what waits, what is dropped and sent again. It does not know what requests
mean: `worker` and `foreman` do, which call `request`, `answer` and `next_event`.
"""

from collections import deque
from typing import Any, NamedTuple, assert_never

from gandy.errors import REFUSALS, ErrorCode, LocalProtocolError, RemoteProtocolError, name_code
from gandy.limits import LAST_NUMBER, MAX_HELD_REQUESTS
from gandy.talk.events import Answered, ExchangeEvent, ExtensionReceived, Overflowed, Requested, Restarted
from gandy.talk.framing import Framing
from gandy.talk.law import Role, State, Step, follow
from gandy.talk.numbers import Numbers
from gandy.wire.messages import (
    GREETING,
    Answer,
    Cancel,
    Error,
    Extended,
    Hello,
    Job,
    Message,
    Ok,
    Request,
    Reset,
    Stop,
    Update,
)


class _Outstanding(NamedTuple):
    """Our request that is not answered yet. A RESET also has the request that it postponed."""

    seq: int
    message: Request
    postponed: Request | None = None


class Exchange:
    """One side of one link. At most one request of ours is outstanding; theirs are handled one after another."""

    def __init__(
        self,
        role: Role,
        *,
        held_limit: int = MAX_HELD_REQUESTS,
        last_number: int = LAST_NUMBER,
        **framing_options: Any,
    ) -> None:
        self.role = role
        self._them = role.other
        self.framing = Framing(role, **framing_options)
        self._state = State.GREETING
        self._held_limit = held_limit
        self._last_number = last_number
        self._restart()

    def _restart(self) -> None:
        """v2.md, rule 5: the link starts again. Agreed extensions stay agreed."""
        self._numbers = Numbers(self.role, self._last_number)
        self._outstanding: _Outstanding | None = None
        self._held: deque[tuple[int, Request]] = deque()  # their requests that wait for their turn
        self._handling: dict[int, Requested] = {}  # their requests that were returned and are not answered yet
        self._their_reset: int | None = None
        self._dropped: Request | None = None  # our request that their RESET dropped
        self._last_reply = 0
        self._has_answered = False  # since we sent our outstanding request

    @property
    def state(self) -> State:
        return State.CLOSED if self.framing.is_closed else self._state

    # Ours

    @property
    def outstanding(self) -> Request | None:
        """Our request that is not answered yet, or that a RESET postponed or dropped."""
        if self._outstanding is None:
            return self._dropped
        return self._outstanding.postponed or self._outstanding.message

    @property
    def unsent(self) -> Request | None:
        """Our request that a RESET postponed or dropped: the peer has certainly not handled it."""
        return self._dropped if self._outstanding is None else self._outstanding.postponed

    def can_request(self, message: Request) -> bool:
        """True if the rules allow this request now."""
        if self._outstanding is not None or self.framing.is_closed:
            return False
        if isinstance(message, Hello) and self._state is State.GREETING:
            return True
        if isinstance(message, Stop) and message.is_immediate and not self._numbers.is_worn_out:
            return self._state is State.OPEN
        # Rule 6: "If a request is received, it should be answered before a new request is made."
        return self._state is State.OPEN and not self._handling and not self._held

    def request(self, message: Request) -> bool:
        """Send a request. If only the number for a RESET is left, send that and return False: `Restarted` will have
        the request.

        Raises: LocalProtocolError, unless `can_request`, or if the request does not fit a frame.
        """
        if not self.can_request(message):
            raise LocalProtocolError(f"{type(message).__name__} cannot be sent in state {self.state.value}")
        postponed = None
        if isinstance(message, Reset):
            message = Reset(self._last_reply)
        elif self._numbers.is_worn_out:
            message, postponed = Reset(self._last_reply), message
        after = follow(self._state, self.role, self.role, Step(type(message)))
        self.framing.send(self._numbers.next, message)
        self._state = after
        self._outstanding = _Outstanding(self._numbers.take(), message, postponed)
        self._has_answered = False
        return postponed is None

    def answer(self, ticket: Requested, message: Answer) -> None:
        """Answer a request. Does nothing after a RESET or on a closed link."""
        if self._handling.get(ticket.seq) is not ticket or self.framing.is_closed:
            return
        after = follow(self._state, self.role, self.role, Step(type(message), type(ticket.message)))
        self._reply(ticket.seq, message)
        self._state = after
        del self._handling[ticket.seq]

    # Theirs

    def next_event(self) -> ExchangeEvent | None:
        """Return the next event from the bytes received so far; None: more bytes or answers are needed.

        Raises: RemoteProtocolError. The link is closed then, and a gandy peer gets the reason in a last ERROR.
        """
        framing = self.framing
        try:
            while not framing.is_closed:
                if self._held and self._can_handle(self._held[0][0]):
                    return self._give_out(*self._held.popleft())
                # Rule 5b: both sides have answered everything below the RESET.
                if self._their_reset is not None and not self._outstanding and not self._handling:
                    return self._finish_reset(self._their_reset)
                numbered = framing.next_message()
                if numbered is None:
                    return None
                event = self._on_message(*numbered)
                if event is not None:
                    return event
        except RemoteProtocolError as error:
            framing.give_up(error.code)
            raise
        return None

    def _on_message(self, seq: int, message: Message) -> ExchangeEvent | None:
        match message:
            case Extended():
                return ExtensionReceived(seq, message.type, message.payload)
            case Reset() if not self._numbers.is_ours(seq):
                return self._on_request(seq, message)
            case Ok() | Error() | Reset():
                return self._on_answer(seq, message)
            case Hello() | Job() | Update() | Cancel() | Stop():
                return self._on_request(seq, message)
            case _:
                assert_never(message)

    def _on_answer(self, seq: int, message: Answer) -> ExchangeEvent | None:
        asked = self._outstanding
        if self._is_greeting(asked, seq, message):
            return None
        if asked is None or seq != asked.seq:
            raise _explain_unexpected(self.role, seq, message)
        self._state = follow(self._state, self.role, self._them, Step(type(message), type(asked.message)))
        self._numbers.on_answer(seq)
        self._outstanding = None
        if isinstance(message, Reset):
            self._restart()
            return Restarted(asked.postponed)
        if isinstance(message, Error) and message.code == ErrorCode.OVERFLOW:
            return self._on_overflow(asked.message)
        return Answered(asked.message, message)

    def _is_greeting(self, asked: _Outstanding | None, seq: int, message: Answer) -> bool:
        """v2.md, greeting: a side may begin with OK(0), which answers nothing, whatever its number."""
        if message != GREETING:
            return False
        if self._state is State.WELCOME and asked is not None and isinstance(asked.message, Hello):
            has_processors = asked.message.nproc + len(asked.message.running) > 0
            return has_processors or not self._numbers.is_ours(seq)
        return self._state is State.GREETING

    def _on_overflow(self, request: Request) -> Overflowed:
        """Rule 6: reissue after progress. Their queue is full only while they wait for us, so it has room once we have
        answered all their requests, which `can_request` demands."""
        waits_for_us = self._has_answered or self._handling or self._held
        if not waits_for_us or isinstance(request, Hello):  # a HELLO is never held
            raise RemoteProtocolError("ERROR(overflow) from a peer that waits for nothing", ErrorCode.BAD_STATE)
        return Overflowed(request)

    def _on_request(self, seq: int, message: Request) -> ExchangeEvent | None:
        self._numbers.on_request(seq, isinstance(message, Reset))
        if self._their_reset is not None:
            raise RemoteProtocolError(f"request {seq} after RESET {self._their_reset}", ErrorCode.BAD_SEQ)
        asked = self._outstanding
        if asked is not None and isinstance(asked.message, Reset) and seq > asked.seq:
            return self._obey_without_reply(seq, message)
        match message:
            case Reset():
                self._on_reset(seq, message)
            case Stop() if message.is_immediate:
                return self._give_out(seq, message)
            case Hello():
                # A HELLO describes the state at its position in the stream, so it cannot wait for later answers.
                return self._give_out(seq, message)
            case _ if self._can_handle(seq) or len(self._held) < self._held_limit:
                self._held.append((seq, message))
            case _:  # `follow` is not called, since the request was never handled
                self._reply(seq, Error(ErrorCode.OVERFLOW))
        return None

    def _obey_without_reply(self, seq: int, message: Request) -> Requested | None:
        """Rule 4.6a takes precedence over 5c: an immediate STOP above our RESET is obeyed at once, without a reply."""
        if not (isinstance(message, Stop) and message.is_immediate):
            return None
        self._state = follow(self._state, self.role, self._them, Step(Stop))
        return Requested(seq, message)

    def _can_handle(self, seq: int) -> bool:
        """Rule 6: one request at a time; while we wait for an answer, only requests below ours."""
        return not self._handling and (self._outstanding is None or seq < self._outstanding.seq)

    def _give_out(self, seq: int, message: Request) -> Requested:
        self._state = follow(self._state, self.role, self._them, Step(type(message)))
        self._handling[seq] = Requested(seq, message)
        return self._handling[seq]

    def _reply(self, seq: int, message: Answer) -> None:
        self.framing.send(seq, message)
        self._last_reply = seq
        self._has_answered = True

    # RESET

    def _on_reset(self, seq: int, message: Reset) -> None:
        self._state = follow(self._state, self.role, self._them, Step(type(message)))
        self._their_reset = seq
        asked = self._outstanding
        if asked is not None and asked.seq > seq:
            # Rule 5c: they drop it without a reply. If it was a RESET, theirs replaces ours.
            self._outstanding = None
            self._dropped = asked.postponed if isinstance(asked.message, Reset) else asked.message

    def _finish_reset(self, seq: int) -> Restarted:
        after = follow(self._state, self.role, self.role, Step(Reset, Reset))
        self._reply(seq, Reset(self._last_reply))
        self._state = after
        dropped = self._dropped
        self._restart()
        return Restarted(dropped)


def _explain_unexpected(us: Role, seq: int, message: Answer) -> RemoteProtocolError:
    """Make the error for an answer that matches no request of ours."""
    if isinstance(message, Error) and seq % 2 != us.parity:  # the peer's last message before it closes the link
        if message.code in REFUSALS:
            code = ErrorCode(message.code)
            return RemoteProtocolError(REFUSALS[code], code)
        text = f"the {us.other.value} gave up: {name_code(message.code)}"
        return RemoteProtocolError(text, ErrorCode.BAD_STATE)
    word = type(message).__name__.upper()
    return RemoteProtocolError(f"{word} with number {seq} answers nothing", ErrorCode.BAD_SEQ)
