"""A client's conversation with a foreman's side, byte for byte and without a socket."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.unit.client.builders import a_row

from gandy.client.conversation import (
    OFFERS,
    ClientEvent,
    Conversation,
    ForemanReady,
    Happened,
    Replied,
    make_error,
)
from gandy.core.model import JobSpec
from gandy.core.requests import (
    EVENT,
    REPLY,
    REQUEST,
    Done,
    GetStatus,
    JobFound,
    RequestFailure,
    ShowJob,
    Submit,
    encode,
)
from gandy.errors import (
    ConfigError,
    ErrorCode,
    GandyError,
    JobNotFound,
    LinkError,
    LocalProtocolError,
    Rejected,
    RemoteProtocolError,
    StoreError,
    StoreFull,
)
from gandy.ids import JobId, TaskNumber
from gandy.talk.events import Answered, ExtensionReceived, ForemanEvent
from gandy.talk.foreman import ForemanSide
from gandy.wire import v2
from gandy.wire.messages import Cancel, Error, Extended, Extension, Hello, Job, Ok, Reset, TaskPair

E = TypeVar("E")


class Pair:
    """A client and a foreman's side that hear each other at once."""

    def __init__(self, offers: Extension = OFFERS, last_number: int = 2**32 - 1) -> None:
        self.client = Conversation(last_number)
        self.foreman = ForemanSide(offers=offers)

    def to_foreman(self) -> list[ForemanEvent]:
        self.foreman.receive_data(self.client.data_to_send())
        return pull(self.foreman.next_event)

    def to_client(self) -> list[ClientEvent]:
        self.client.receive_data(self.foreman.data_to_send())
        return pull(self.client.next_event)

    def greet(self) -> "Pair":
        self.to_foreman()
        assert self.to_client() == [ForemanReady()]
        return self

    def say(self, kind: int, number: int, payload: bytes) -> list[ClientEvent]:
        self.foreman.framing.send_extended(Extended(kind, payload), number)
        return self.to_client()


def pull(next_event: Callable[[], E | None]) -> list[E]:
    return list(iter(next_event, None))


def test_hello_offers_no_slots() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(Conversation().data_to_send())
    assert decoder.next_message() == (0, Hello(0, (), OFFERS))


def test_requests_wait_for_the_welcome() -> None:
    with pytest.raises(LocalProtocolError):
        Conversation().ask(GetStatus())


def test_answers_carry_the_number_of_the_request() -> None:
    pair = Pair().greet()
    numbers = [pair.client.ask(ShowJob(JobId(job))) for job in (7, 8)]
    heard = pair.to_foreman()
    assert numbers == [1, 2]
    assert heard == [
        ExtensionReceived(1, REQUEST, encode(ShowJob(JobId(7)))),
        ExtensionReceived(2, REQUEST, encode(ShowJob(JobId(8)))),
    ]
    assert pair.say(REPLY, 2, encode(Done())) == [Replied(2, Done())]
    assert pair.say(EVENT, 1, encode(JobFound(a_row()))) == [Happened(1, JobFound(a_row()))]


def test_numbers_begin_again_at_one() -> None:
    pair = Pair(last_number=2).greet()
    assert [pair.client.ask(GetStatus()) for _ in range(3)] == [1, 2, 1]


def test_types_that_are_not_known_are_passed_over() -> None:
    assert Pair().greet().say(0x3F, 1, b"?") == []


def test_foreman_without_clients_is_refused() -> None:
    pair = Pair(offers=Extension.ATOMIC)
    pair.to_foreman()
    with pytest.raises(LinkError, match="not a gandy foreman"):
        pair.to_client()


def test_foreman_that_refuses_hello_is_refused() -> None:
    client = Conversation()
    client.receive_data(v2.encode(0, Error(ErrorCode.NO_PROCS)))
    with pytest.raises(LinkError, match="not a gandy foreman"):
        client.next_event()


@pytest.mark.parametrize("payload", [b"", b"\xc1", encode(GetStatus())])
def test_answer_that_is_none_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="the foreman's answer"):
        Pair().greet().say(REPLY, 1, payload)


def test_client_that_is_taken_for_a_worker_does_nothing_politely() -> None:
    pair = Pair().greet()
    everything = TaskPair(JobId(1), TaskNumber(-1))
    pair.foreman.cancel([everything])
    assert pair.to_client() == []
    assert pair.to_foreman() == [Answered(Cancel((everything,)), Ok(0))]
    pair.foreman.exchange.request(Job(()))
    assert pair.to_client() == []
    assert [type(event).__name__ for event in pair.to_foreman()] == ["Refused"]


def test_reset_is_followed_by_a_new_hello() -> None:
    pair = Pair().greet()
    pair.foreman.exchange.request(Reset())
    assert pair.to_client() == []
    assert [type(event).__name__ for event in pair.to_foreman()] == ["Restarted", "Greeted"]
    assert pair.to_client() == [ForemanReady()]
    assert pair.client.ask(GetStatus()) == 1


def test_a_number_that_no_message_holds_is_refused() -> None:
    with pytest.raises(ConfigError, match="a number is too large"):
        Pair().greet().client.ask(ShowJob(JobId(2**64)))


def test_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(ConfigError, match="must be UTF-8"):
        Pair().greet().client.ask(Submit(JobSpec(command="echo \udcff")))


def test_request_that_is_too_long_is_not_sent() -> None:
    pair = Pair().greet()
    with pytest.raises(ConfigError, match=r"has 17\.0 MB, the limit is 16\.8 MB"):
        pair.client.ask(Submit(JobSpec(command="x" * 17_000_000)))
    assert pair.client.data_to_send() == b""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("not_found", JobNotFound),
        ("refused", Rejected),
        ("bad_request", Rejected),
        ("store", StoreError),
        ("full", StoreFull),
        ("gone", GandyError),
        ("a word of tomorrow", GandyError),
    ],
)
def test_failure_becomes_an_exception(kind: str, expected: type[GandyError]) -> None:
    error = make_error(RequestFailure(kind, "no, because"))
    assert type(error) is expected
    assert str(error) == "no, because"


@pytest.mark.parametrize("kind", ["store", "gone"])
@pytest.mark.parametrize("retryable", [True, False])
def test_foreman_says_whether_to_ask_again(kind: str, retryable: bool) -> None:
    assert make_error(RequestFailure(kind, "", retryable)).retryable is retryable
