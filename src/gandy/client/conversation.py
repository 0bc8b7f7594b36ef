"""The client's side of a link: HELLO, then numbered requests, each with an answer, some also with events.

It owns the numbers of requests and the exceptions for refusals. It does no I/O and never looks into a request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, assert_never

from gandy.core.requests import (
    EVENT,
    REPLY,
    REQUEST,
    Answer,
    Request,
    RequestFailure,
    decode_answer,
    encode,
)
from gandy.errors import (
    ConfigError,
    ErrorCode,
    GandyError,
    JobClosed,
    JobMoved,
    JobNotFound,
    LinkError,
    NoClock,
    NotAllowed,
    Rejected,
    StoreError,
    StoreFull,
)
from gandy.limits import LAST_INTEGER, LAST_NUMBER, MAX_PAYLOAD_BYTES
from gandy.talk.events import Answered, ExchangeEvent, ExtensionReceived, Overflowed, Requested, Restarted
from gandy.talk.exchange import Exchange
from gandy.talk.law import Role
from gandy.wire.calls import OnFrame, TakePlain
from gandy.wire.messages import Error, Extended, Extension, Hello, Job, Ok

OFFERS: Final = Extension.ATOMIC | Extension.CLIENT | Extension.CALLS | Extension.TIMED | Extension.LINKED


class ForemanReady(NamedTuple):
    """The foreman accepts requests from now on."""


class Replied(NamedTuple):
    """The answer to a request of ours."""

    number: int
    answer: Answer


class Happened(NamedTuple):
    """An event that a request of ours asked for."""

    number: int
    answer: Answer


ClientEvent = ForemanReady | Replied | Happened


class Conversation:
    """One per link. `ask` and `receive_data`, then call `next_event` until it is None and write `data_to_send`."""

    def __init__(
        self,
        last_number: int = LAST_NUMBER,
        on_call: OnFrame = lambda *_frame: None,
        take_plain_calls: TakePlain | None = None,
    ) -> None:
        self._exchange = Exchange(Role.WORKER, offers=OFFERS, on_call=on_call, take_plain_calls=take_plain_calls)
        self._last_number = last_number
        self._number = 0
        self._greet()

    def ask(self, request: Request) -> int:
        """Send a request. Returns the number that its answer will have.

        Raises: ConfigError, if it cannot be encoded; LocalProtocolError before `ForemanReady`.
        """
        payload = _encode(request)
        self._number = self._number % self._last_number + 1
        self._exchange.framing.send_extended(Extended(REQUEST, payload), self._number)
        return self._number

    def take_calls(self, data: bytes) -> int:
        """Handle the plain calls at the beginning of data. Returns where the rest begins, which must be received."""
        return self._exchange.framing.take_calls(data)

    def receive_data(self, data: bytes) -> bool:
        """Receive data. True if it contained only calls, so that there is no event.

        Raises: RemoteProtocolError. Close the link.
        """
        return self._exchange.framing.receive_calls(data)

    def data_to_send(self) -> bytes:
        """Return what to write to the link now. Each byte is returned once."""
        return self._exchange.framing.data_to_send()

    @property
    def takes_calls(self) -> bool:
        """True if the foreman accepts calls."""
        return Extension.CALLS in self._exchange.framing.agreed

    @property
    def takes_times(self) -> bool:
        """True if calls and jobs may have a time."""
        return Extension.TIMED in self._exchange.framing.agreed

    @property
    def takes_links(self) -> bool:
        """True if jobs may run after others in any way, or follow others task by task."""
        return Extension.LINKED in self._exchange.framing.agreed

    def next_event(self) -> ClientEvent | None:
        """Return the next event; None until more bytes come.

        Raises: LinkError, if the peer accepts no requests; RemoteProtocolError. Close the link.
        """
        while (event := self._exchange.next_event()) is not None:
            reaction = self._react(event)
            if reaction is not None:
                return reaction
        return None

    def _react(self, event: ExchangeEvent) -> ClientEvent | None:
        match event:
            case ExtensionReceived():
                return _open(event)
            case Answered(_, answer):
                return self._on_welcome(answer.extensions if isinstance(answer, Ok) else Extension.NONE)
            case Requested():
                self._on_request(event)
                return None
            case Restarted() | Overflowed():
                self._greet()
                return None
            case _:
                assert_never(event)

    def _greet(self) -> None:
        # No slots: the foreman gives no work to a peer that has none.
        self._exchange.request(Hello(0, (), self._exchange.framing.offers))

    def _on_welcome(self, extensions: Extension) -> ForemanReady:
        if Extension.CLIENT not in extensions:
            raise LinkError("the peer is not a gandy foreman, or one that accepts no requests from clients")
        self._exchange.framing.agree(extensions & self._exchange.framing.offers)
        return ForemanReady()

    def _on_request(self, ticket: Requested) -> None:
        """Answer a request that is meant for a worker: a client has nothing to start, cancel or stop."""
        answer = Error(ErrorCode.NO_PROCS) if isinstance(ticket.message, Job) else Ok(0)
        self._exchange.answer(ticket, answer)


def _encode(request: Request) -> bytes:
    try:
        payload = encode(request)
    except UnicodeEncodeError as error:
        raise ConfigError(f"{error.object!r} is not text that can be sent: it must be UTF-8") from None
    except OverflowError:
        raise ConfigError(f"a number is too large to be sent: {LAST_INTEGER:,} is the largest") from None
    if len(payload) > MAX_PAYLOAD_BYTES:
        size, limit = len(payload) / 1e6, MAX_PAYLOAD_BYTES / 1e6
        raise ConfigError(f"the request has {size:,.1f} MB, the limit is {limit:,.1f} MB; split it into several jobs")
    return payload


def _open(message: ExtensionReceived) -> ClientEvent | None:
    if message.type == REPLY:
        return Replied(message.seq, decode_answer(message.payload))
    if message.type == EVENT:
        return Happened(message.seq, decode_answer(message.payload))
    return None  # from a foreman that knows more than we do


_ERRORS: Final[Mapping[str, type[GandyError]]] = {
    "not_found": JobNotFound,
    "refused": Rejected,
    "bad_request": Rejected,
    "closed": JobClosed,
    "not_allowed": NotAllowed,
    "no_clock": NoClock,
    "moved": JobMoved,
    "full": StoreFull,
}


def make_error(failure: RequestFailure) -> GandyError:
    """Make the exception for a refusal."""
    if failure.kind in _ERRORS:
        return _ERRORS[failure.kind](failure.message)
    error = StoreError(failure.message) if failure.kind == "store" else GandyError(failure.message)
    error.retryable = failure.retryable
    return error
