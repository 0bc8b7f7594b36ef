"""Bytes, calls and extensions of one link."""

import pytest
from tests.crews import Frame
from tests.unit.talk.one_exchange import JOB, UPDATE, Side, an_open_worker, asked

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import Answered, ExtensionReceived
from gandy.talk.law import State
from gandy.wire import calls, v2
from gandy.wire.messages import (
    Error,
    Extended,
    Extension,
    Ok,
)


def test_an_extension_is_spoken_only_when_agreed() -> None:
    worker = an_open_worker()
    with pytest.raises(LocalProtocolError, match="0x20"):
        worker.exchange.framing.send_extended(Extended(0x20, b""))
    worker.exchange.framing.agree(Extension.HEARTBEAT)
    worker.exchange.framing.send_extended(Extended(0x20, b"x"), 7)
    assert worker.exchange.framing.data_to_send() == v2.encode(7, Extended(0x20, b"x"))
    assert worker.hear((9, Extended(0x21, b"y"))) == [ExtensionReceived(9, 0x21, b"y")]


def test_an_extension_that_was_not_agreed_on_ends_the_link() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown message type 0x20"):
        an_open_worker().hear((0, Extended(0x20, b"")))


def test_a_gandy_peer_is_told_why_the_link_ends() -> None:
    worker = an_open_worker()
    worker.exchange.framing.agree(Extension.ATOMIC)
    with pytest.raises(RemoteProtocolError):
        worker.hear((3, Ok(1)))
    assert worker.said() == [(0, Error(ErrorCode.BAD_SEQ))]
    assert worker.exchange.state is State.CLOSED


def test_a_plain_peer_is_not_told() -> None:
    worker = an_open_worker()
    with pytest.raises(RemoteProtocolError):
        worker.hear((3, Ok(1)))
    assert worker.said() == []


def test_nothing_is_heard_on_a_closed_link() -> None:
    worker = an_open_worker()
    worker.exchange.framing.close()
    assert worker.hear((3, JOB)) == []


# Calls, which are outside the rules of numbers

PONG = Frame(calls.RESULT, calls.LAST, 3, 0, b"pong")
PING = Frame(calls.CALL, 0, 4, 0, calls.encode_target("ping"))


def a_worker_with_calls() -> tuple[Side, list[Frame]]:
    side, heard = an_open_worker(), list[Frame]()
    side.exchange.framing.agree(Extension.CALLS)
    side.exchange.framing.on_call = lambda *frame: heard.append(Frame(*frame))
    return side, heard


def test_calls_are_told_at_once_and_are_no_events() -> None:
    worker, heard = a_worker_with_calls()
    assert worker.exchange.framing.receive_calls(calls.encode(*PING) + calls.encode(*PONG))
    assert (heard, worker.pull()) == ([PING, PONG], [])


def test_what_is_no_call_is_left_for_events() -> None:
    worker, heard = a_worker_with_calls()
    data = calls.encode(*PING) + v2.encode(3, JOB) + calls.encode(*PONG)
    assert not worker.exchange.framing.receive_calls(data)
    assert heard == [PING]
    assert asked(worker.pull()) == [(3, JOB)]
    assert heard == [PING, PONG]


def test_calls_may_come_in_pieces() -> None:
    worker, heard = a_worker_with_calls()
    data = calls.encode(*PING) + calls.encode(*PONG)
    whole = [worker.exchange.framing.receive_calls(data[at : at + 1]) for at in range(len(data))]
    ends = [at for at, is_whole in enumerate(whole) if is_whole]
    assert (heard, ends) == ([PING, PONG], [len(calls.encode(*PING)) - 1, len(data) - 1])
    assert worker.pull() == []


def test_plain_calls_take_the_short_way_unless_a_part_of_a_frame_waits() -> None:
    worker, heard = a_worker_with_calls()
    ping = calls.encode(*PING)
    assert worker.exchange.framing.take_calls(ping) == 0  # there is no short way
    taken: list[bytes] = []

    def take(data: bytes, at: int) -> int:
        taken.append(data[at:])
        return len(data) if data[at:] == ping else at

    worker.exchange.framing.take_plain_calls = take
    assert worker.exchange.framing.take_calls(ping) == len(ping)
    assert not worker.exchange.framing.receive_calls(ping[:-1])
    assert worker.exchange.framing.take_calls(ping[-1:]) == 0
    assert worker.exchange.framing.receive_calls(ping[-1:])
    assert (taken, heard) == ([ping, ping[:-1], ping], [])
    worker.exchange.framing.close()
    assert worker.exchange.framing.take_calls(ping) == 0


def test_calls_pass_while_a_request_is_outstanding() -> None:
    worker, heard = a_worker_with_calls()
    worker.exchange.request(UPDATE)
    assert worker.exchange.framing.receive_calls(calls.encode(*PING))
    worker.exchange.framing.receive_data(calls.encode(*PONG) + v2.encode(2, Ok(1)))
    assert worker.pull() == [Answered(UPDATE, Ok(1))]
    assert heard == [PING, PONG]


def test_calls_that_were_not_agreed_on_end_the_link() -> None:
    worker = an_open_worker()
    assert not worker.exchange.framing.receive_calls(calls.encode(*PING))
    with pytest.raises(RemoteProtocolError, match="unknown message type 0x40"):
        worker.pull()
    assert not worker.exchange.framing.receive_calls(calls.encode(*PING))  # it is closed


def test_calls_without_a_listener_are_dropped() -> None:
    worker = an_open_worker()
    worker.exchange.framing.agree(Extension.CALLS)
    assert worker.exchange.framing.receive_calls(calls.encode(*PING))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_call_that_breaks_a_rule_ends_the_link_and_a_gandy_peer_is_told(at_once: bool) -> None:
    worker, heard = a_worker_with_calls()
    worker.exchange.framing.agree(Extension.ATOMIC)
    data = calls.encode(*PING) + v2.HEADER.pack(0xC047, calls.BODY, 0, 1, 0, 1 << 30)
    if not at_once:
        worker.exchange.framing.receive_data(data)
    with pytest.raises(RemoteProtocolError, match="claims") as caught:
        worker.exchange.framing.receive_calls(data) if at_once else worker.pull()
    assert (heard, caught.value.code) == ([PING], ErrorCode.TOO_LONG)
    assert worker.said() == [(0, Error(ErrorCode.TOO_LONG))]
    assert worker.exchange.state is State.CLOSED
    assert not worker.exchange.framing.receive_calls(calls.encode(*PONG))
    assert heard == [PING]
