"""A stream that its reader fetches packet by packet."""

import pytest

from gandy.doors.roundrobin.served_stream import ServedStream
from gandy.doors.roundrobin.wire import MQS_MORE, RR_STREAM, TRACKEXEC, QueueMessage

REQUEST = QueueMessage(TRACKEXEC, b"1234", (RR_STREAM, b"60:me", b"1024"))
MORE = QueueMessage(TRACKEXEC, b"1235", (MQS_MORE, b"60:me", b"HANDLE78", b"0"))


@pytest.fixture
def stream() -> ServedStream:
    return ServedStream(REQUEST, b"HANDLE78")


def test_the_first_packet_answers_the_request_for_the_stream(stream: ServedStream) -> None:
    assert stream.host_id == b"60:me"
    stream.writer.write(b"data")
    assert stream.take_packet() is None  # it is not full
    assert not stream.has_begun
    assert stream.take_packet(at_once=True) == (REQUEST, b"0R\x08HANDLE78data")
    assert stream.has_begun


def test_a_packet_goes_out_only_when_it_is_asked_for(stream: ServedStream) -> None:
    stream.take_packet(at_once=True)
    stream.writer.write(b"data")
    stream.writer.close()
    assert stream.take_packet(at_once=True) is None
    stream.asked = MORE
    assert stream.take_packet() == (MORE, b"2R\x08HANDLE78data")


def test_the_command_gets_credit_as_packets_go_out(stream: ServedStream) -> None:
    stream.owed = 100
    stream.writer.write(bytes(10))
    assert stream.take_credit(limit=10) == 0
    assert [stream.take_credit(limit=11), stream.take_credit(limit=11)] == [100, 0]
