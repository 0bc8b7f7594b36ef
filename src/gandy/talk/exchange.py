"""Requests and answers of one v2 link, seen from one side: docs/protocol/v2.md, rules 4 and 5.

It owns order: who may speak, what waits, what is dropped and sent again. It refuses to know what a JOB is good for:
that is for `worker` and `foreman`, which ask (`request`), answer (`answer`) and pull (`next_event`).
"""

from collections import deque
from typing import NamedTuple, assert_never

from gandy.errors import REFUSALS, ErrorCode, LocalProtocolError, RemoteProtocolError, name_code
from gandy.limits import LAST_NUMBER, MAX_HELD_REQUESTS, MAX_PAYLOAD_BYTES
from gandy.talk.events import Answered, ExchangeEvent, ExtensionReceived, Overflowed, Requested, Restarted
from gandy.talk.law import LAW, Role, State, Step
from gandy.talk.numbers import Numbers
from gandy.wire import calls, v2
from gandy.wire.messages import (
    GREETING,
    Answer,
    Cancel,
    Error,
    Extended,
    Extension,
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
    """Our request that is not answered yet. A RESET also carries the request that had to give way to it."""

    seq: int
    message: Request
    postponed: Request | None = None


class Exchange:
    """One side of one link. At most one request of ours is outstanding, and theirs are handled one after another."""

    def __init__(
        self,
        role: Role,
        *,
        offers: Extension = Extension.ATOMIC,
        held_limit: int = MAX_HELD_REQUESTS,
        last_number: int = LAST_NUMBER,
        payload_limit: int = MAX_PAYLOAD_BYTES,
        on_call: calls.OnFrame = lambda *_frame: None,
        take_plain_calls: calls.TakePlain | None = None,
    ) -> None:
        """`on_call` is told of frames of calls on the way to the next event; no rule of numbers is about them.

        `take_plain_calls`: a shorter way for those that are plain.
        """
        self.role = role
        self.on_call = on_call
        self.take_plain_calls = take_plain_calls
        self.state = State.GREETING
        self.offers = offers
        self.agreed = Extension.NONE
        self.is_gandy = False  # the other side, which has agreed to what every gandy offers
        self._agreed_types: frozenset[int] = frozenset()
        self._held_limit = held_limit
        self._last_number = last_number
        self._decoder = v2.V2Decoder(payload_limit)
        self._output = bytearray()
        self._takes_calls = False
        self._restart()

    def _restart(self) -> None:
        """v2.md, rule 5: the link is as new. What was agreed on stays agreed."""
        self._numbers = Numbers(self.role, self._last_number)
        self._outstanding: _Outstanding | None = None
        self._held: deque[tuple[int, Request]] = deque()  # theirs, waiting for their turn
        self._handling: dict[int, Requested] = {}  # theirs, given out and not answered yet
        self._their_reset: int | None = None
        self._dropped: Request | None = None  # ours, dropped by their RESET
        self._last_reply = 0
        self._has_answered = False  # since our outstanding request went out

    # Bytes

    def receive_data(self, data: bytes) -> None:
        if self.state is not State.CLOSED:
            self._decoder.receive_data(data)

    def take_calls(self, data: bytes) -> int:
        """Let plain calls be taken that data begins with. Gives where the rest begins, which is to be received."""
        if self.take_plain_calls is None or not self._takes_calls or self.state is State.CLOSED:
            return 0
        return self._decoder.pass_by(data, self.take_plain_calls)

    def receive_calls(self, data: bytes) -> bool:
        """Receive data, and tell of the calls in it at once if it begins with one. Whether nothing else was in it.

        Raises: RemoteProtocolError. The link is closed then.
        """
        self.receive_data(data)
        if not self._takes_calls or self.state is State.CLOSED:
            return False
        try:
            self._decoder.take_with(self._read_calls)
        except RemoteProtocolError as error:
            self._give_up(error.code)
            raise
        return self._decoder.unread == 0

    def data_to_send(self) -> bytes:
        """What is to be written to the link now. Asking takes it."""
        if not self._output:
            return b""
        data = bytes(self._output)
        self._output.clear()
        return data

    def close(self) -> None:
        """The link is gone."""
        self.state = State.CLOSED

    # Ours

    @property
    def outstanding(self) -> Request | None:
        """Our request that is not answered yet, or that gave way to a RESET."""
        if self._outstanding is None:
            return self._dropped
        return self._outstanding.postponed or self._outstanding.message

    @property
    def unsent(self) -> Request | None:
        """Our request that had to give way to a RESET and surely was not handled."""
        return self._dropped if self._outstanding is None else self._outstanding.postponed

    def can_request(self, message: Request) -> bool:
        """Whether the rules let this request out now."""
        if self._outstanding is not None:
            return False
        if isinstance(message, Hello) and self.state is State.GREETING:
            return True
        if isinstance(message, Stop) and message.is_immediate and not self._numbers.is_worn_out:
            return self.state is State.OPEN
        # Rule 6: "If a request is received, it should be answered before a new request is made."
        return self.state is State.OPEN and not self._handling and not self._held

    def request(self, message: Request) -> bool:
        """Send a request, or, where only the number for a RESET is left, the RESET: then it gives False, and
        `Restarted` gives the request back.

        Raises: LocalProtocolError, unless `can_request`, or where the request does not fit a frame.
        """
        if not self.can_request(message):
            raise LocalProtocolError(f"{type(message).__name__} cannot be sent in state {self.state.value}")
        postponed = None
        if isinstance(message, Reset):
            message = Reset(self._last_reply)
        elif self._numbers.is_worn_out:
            message, postponed = Reset(self._last_reply), message
        after = self._find_step(self.role, Step(type(message)))
        data = v2.encode(self._numbers.next, message)
        self.state = after
        self._outstanding = _Outstanding(self._numbers.take(), message, postponed)
        self._has_answered = False
        self._output += data
        return postponed is None

    def reset(self) -> None:
        """Start the numbers again although they are not worn out.

        Raises: LocalProtocolError, unless `can_request`.
        """
        self.request(Reset())

    def answer(self, ticket: Requested, message: Answer) -> None:
        """Answer a request. After a RESET or on a closed link that is no longer possible, and nothing happens."""
        if self._handling.get(ticket.seq) is not ticket or self.state is State.CLOSED:
            return
        self._reply(ticket.seq, message, type(ticket.message))
        del self._handling[ticket.seq]

    def greet(self) -> None:
        """Say OK(0), for a worker that waits for it. Number 1, because 0 would look like HELLO's answer."""
        self._output += v2.encode(1, GREETING)

    def agree(self, extensions: Extension) -> None:
        """From now on these extensions are spoken, in both directions, as long as the link is up."""
        self.agreed |= extensions
        self._agreed_types = v2.list_types(self.agreed)
        self._decoder.allow(self.agreed)
        self.is_gandy = Extension.ATOMIC in self.agreed
        self._takes_calls = Extension.CALLS in self.agreed

    def send_extended(self, message: Extended, seq: int = 0) -> None:
        """Send a message of an extension; it is outside all rules of numbers.

        Raises: LocalProtocolError, where the extension is not agreed on.
        """
        if message.type not in self._agreed_types:
            raise LocalProtocolError(f"the peer has not agreed to messages of type 0x{message.type:02x}")
        self._output += v2.encode(seq, message)

    # Theirs

    def _read_calls(self, data: bytes | bytearray, at: int) -> int:
        return calls.read_frames(data, at, self.on_call, self.take_plain_calls)

    def next_event(self) -> ExchangeEvent | None:
        """What follows from the bytes received and the answers given so far; None when there is no more.

        Raises: RemoteProtocolError. The link is closed then; a gandy peer is told the reason in a last ERROR.
        """
        try:
            while self.state is not State.CLOSED:
                if self._held and self._can_handle(self._held[0][0]):
                    return self._give_out(*self._held.popleft())
                if self._their_reset is not None and self._can_finish_reset():
                    return self._finish_reset()
                if self._takes_calls:
                    self._decoder.take_with(self._read_calls)
                numbered = self._decoder.next_message()
                if numbered is None:
                    return None
                event = self._on_message(*numbered)
                if event is not None:
                    return event
        except RemoteProtocolError as error:
            self._give_up(error.code)
            raise
        return None

    def fail(self, text: str, code: ErrorCode) -> RemoteProtocolError:
        """The error to raise for a message that the rules of numbers allow and that still cannot be."""
        self._give_up(code)
        return RemoteProtocolError(text, code)

    def _give_up(self, code: ErrorCode) -> None:
        if self.is_gandy or Extension.ATOMIC in self._decoder.offered:
            # A number of our own parity: this ERROR answers nothing.
            self._output += v2.encode(self.role.parity, Error(code))
        self.close()

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
            raise self._unexpected(seq, message)
        self._take_step(self.role.other, Step(type(message), type(asked.message)))
        self._numbers.on_answer(seq)
        self._outstanding = None
        if isinstance(message, Reset):
            self._restart()
            return Restarted(asked.postponed)
        if isinstance(message, Error) and message.code == ErrorCode.OVERFLOW:
            return self._on_overflow(asked.message)
        return Answered(asked.message, message)

    def _is_greeting(self, asked: _Outstanding | None, seq: int, message: Answer) -> bool:
        """v2.md, greeting: a side may open with OK(0). It answers nothing, whatever number it has."""
        if message != GREETING:
            return False
        if self.state is State.WELCOME and asked is not None and isinstance(asked.message, Hello):
            has_processors = asked.message.nproc + len(asked.message.running) > 0
            return has_processors or not self._numbers.is_ours(seq)
        return self.state is State.GREETING

    def _on_overflow(self, request: Request) -> Overflowed:
        """Rule 6: reissue after progress. Their queue is full only while they wait for us, so once we have answered
        all they asked, which `can_request` sees to, there is room."""
        is_ours_to_wait = self._has_answered or self._handling or self._held
        if not is_ours_to_wait or isinstance(request, Hello):  # a HELLO is never held back
            raise RemoteProtocolError("ERROR(overflow) from a peer that waits for nothing", ErrorCode.BAD_STATE)
        return Overflowed(request)

    def _unexpected(self, seq: int, message: Answer) -> RemoteProtocolError:
        word = type(message).__name__.upper()
        if isinstance(message, Error) and not self._numbers.is_ours(seq):
            if message.code in REFUSALS:
                code = ErrorCode(message.code)
                return RemoteProtocolError(REFUSALS[code], code)
            code = ErrorCode.BAD_STATE
            return RemoteProtocolError(f"the {self.role.other.value} gave up: {name_code(message.code)}", code)
        return RemoteProtocolError(f"{word} with number {seq} answers nothing", ErrorCode.BAD_SEQ)

    def _on_request(self, seq: int, message: Request) -> ExchangeEvent | None:
        if self._numbers.is_ours(seq):
            word = type(message).__name__.upper()
            raise RemoteProtocolError(f"{word} has number {seq} of the wrong parity", ErrorCode.BAD_SEQ)
        self._numbers.on_request(seq, isinstance(message, Reset))
        if self._their_reset is not None:
            raise RemoteProtocolError(f"request {seq} after RESET {self._their_reset}", ErrorCode.BAD_SEQ)
        if self._is_dropped_by_our_reset(seq):
            return self._obey_without_reply(seq, message)
        match message:
            case Reset():
                self._on_reset(seq, message)
            case Stop() if message.is_immediate:
                return self._give_out(seq, message)
            case Hello():
                # A HELLO tells the state at its place in the stream, so it cannot wait for later answers.
                return self._give_out(seq, message)
            case _:
                self._hold(seq, message)
        return None

    def _obey_without_reply(self, seq: int, message: Request) -> Requested | None:
        """Rule 4.6a against rule 5c: above our RESET an immediate STOP is obeyed at once, without a reply."""
        if not (isinstance(message, Stop) and message.is_immediate):
            return None
        self._take_step(self.role.other, Step(Stop))
        return Requested(seq, message)

    def _is_dropped_by_our_reset(self, seq: int) -> bool:
        asked = self._outstanding
        return asked is not None and isinstance(asked.message, Reset) and seq > asked.seq

    def _can_handle(self, seq: int) -> bool:
        """Rule 6: in order; while we wait for an answer, only what is lower than our request."""
        return not self._handling and (self._outstanding is None or seq < self._outstanding.seq)

    def _hold(self, seq: int, message: Request) -> None:
        if not self._can_handle(seq) and len(self._held) >= self._held_limit:
            # No step of the conversation: the request was never given out.
            self._write_reply(seq, Error(ErrorCode.OVERFLOW))
        else:
            self._held.append((seq, message))

    def _give_out(self, seq: int, message: Request) -> Requested:
        self._take_step(self.role.other, Step(type(message)))
        self._handling[seq] = Requested(seq, message)
        return self._handling[seq]

    def _reply(self, seq: int, message: Answer, asked: type[Request]) -> None:
        after = self._find_step(self.role, Step(type(message), asked))
        self._write_reply(seq, message)
        self.state = after

    def _write_reply(self, seq: int, message: Answer) -> None:
        self._output += v2.encode(seq, message)
        self._last_reply = seq
        self._has_answered = True

    # RESET

    def _on_reset(self, seq: int, message: Reset) -> None:
        self._take_step(self.role.other, Step(type(message)))
        self._their_reset = seq
        asked = self._outstanding
        if asked is not None and asked.seq > seq:
            # Rule 5c: they drop it without a reply. A RESET of ours has lost against theirs, and is not missed.
            self._outstanding = None
            self._dropped = asked.postponed if isinstance(asked.message, Reset) else asked.message

    def _can_finish_reset(self) -> bool:
        """Rule 5b: everything lower than the RESET is answered, on both sides."""
        return not (self._outstanding or self._handling)

    def _finish_reset(self) -> Restarted:
        assert self._their_reset is not None
        self._reply(self._their_reset, Reset(self._last_reply), Reset)
        dropped = self._dropped
        self._restart()
        return Restarted(dropped)

    def _take_step(self, sender: Role, step: Step) -> None:
        self.state = self._find_step(sender, step)

    def _find_step(self, sender: Role, step: Step) -> State:
        """The state that follows.

        Raises: LocalProtocolError where we would break the law, RemoteProtocolError where the peer did.
        """
        try:
            return LAW[self.state, sender, step]
        except KeyError:
            text = f"a {sender.value} cannot say {step} in state {self.state.value}"
            if sender is self.role:
                raise LocalProtocolError(text) from None
            raise RemoteProtocolError(text, ErrorCode.BAD_STATE) from None
