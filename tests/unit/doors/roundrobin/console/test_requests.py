"""What a client asks for, against a line that answers what the test says."""

from collections import deque

import pytest

from gandy.doors.roundrobin.console.requests import Bulk, End, Failed, PingRequest, StreamRequest, check
from gandy.doors.roundrobin.streams import ABORTED, FINISHED, GO_ON, MORE, RAW, Packet, encode_packet, make_blocks
from gandy.doors.roundrobin.uplink_events import Expired, Response
from gandy.doors.roundrobin.wire import FAILED, MQS_MORE, PING, RR_STREAM

DATA = b"".join(make_blocks(1024, lambda _first, last: min(last, 400)))
HANDLE = b"8 bytes."


class FakeLine:
    """Remembers what was asked, and gives numbers."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, ...]] = []
        self.to: list[tuple[bytes, ...]] = []
        self.forgotten: list[bytes] = []

    def request(self, command: bytes, *args: bytes, timeout: float, to: tuple[bytes, ...] = ()) -> bytes:
        self.asked.append((command, *args))
        self.to.append(to)
        return b"%d" % len(self.asked)

    def forget(self, number: bytes) -> None:
        self.forgotten.append(number)


def respond(number: bytes, *args: bytes) -> Response:
    return Response(number, args, (b"worker", b"between"))


def packet(state: bytes, data: bytes) -> bytes:
    return encode_packet(Packet(state, RAW, HANDLE, data))


def test_ping_is_one_request() -> None:
    line, ping = FakeLine(), PingRequest()
    assert ping.begin(line, 1.0) == b"1"
    assert ping.go_on(line, respond(b"1"), 1.0) is None
    assert (ping.id, line.asked) == (b"1", [(PING,)])


def test_stream_in_one_packet_is_checked() -> None:
    line, stream = FakeLine(), StreamRequest()
    stream.begin(line, 1.0)
    assert stream.go_on(line, respond(b"1", packet(FINISHED, DATA)), 1.0) is None
    assert stream.blocks == 3
    assert line.asked == [(RR_STREAM, b"STREAM_ID", b"1024")]


def test_stream_in_several_packets_is_fetched_from_its_worker() -> None:
    line, stream = FakeLine(), StreamRequest()
    stream.begin(line, 1.0)
    assert stream.go_on(line, respond(b"1", packet(MORE, DATA[:500])), 1.0) == b"2"
    assert line.asked[1] == (MQS_MORE, b"STREAM_ID", HANDLE, GO_ON)
    assert line.to[1] == (b"between", b"worker")
    assert stream.go_on(line, respond(b"2", packet(MORE, b"")), 1.0) == b"3"
    assert stream.go_on(line, respond(b"3", packet(FINISHED, DATA[500:])), 1.0) is None
    assert stream.blocks == 3


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ((), "not a packet"),
        ((packet(ABORTED, b""),), "aborted the stream"),
        ((packet(FINISHED, DATA[:-1]),), "cut off"),
        ((packet(FINISHED, b""),), "0 bytes"),
    ],
)
def test_stream_that_is_not_what_was_asked_for_has_failed(frames: tuple[bytes, ...], reason: str) -> None:
    line, stream = FakeLine(), StreamRequest()
    stream.begin(line, 1.0)
    with pytest.raises(Failed, match=reason):
        stream.go_on(line, respond(b"1", *frames), 1.0)


def test_failure_has_its_text() -> None:
    with pytest.raises(Failed, match="too slow"):
        check(Expired(b"1", "too slow"))
    with pytest.raises(Failed, match=r"^the worker \?is ill$"):
        check(respond(b"1", FAILED, b"the worker", b"\x1bis ill"))
    with pytest.raises(Failed, match="no reason was given"):
        check(respond(b"1", FAILED))
    assert check(respond(b"1", b"fine")).args == (b"fine",)


class Answers:
    """Ends of requests in the order of the test. Behind them nothing comes."""

    def __init__(self, *ends: End) -> None:
        self._ends = deque(ends)

    def __call__(self, timeout: float) -> End:
        if not self._ends:
            raise Failed("nothing came")
        return self._ends.popleft()


def test_bulk_counts_successes_and_reasons() -> None:
    line = FakeLine()
    bulk = Bulk(
        line, Answers(respond(b"2"), respond(b"9"), Expired(b"1", "too slow"), respond(b"3", FAILED, b"ill")), 1.0
    )
    for _ in range(4):
        bulk.begin(PingRequest())
    counts = []
    while bulk.under_way:
        bulk.wait_for_one()
        counts.append((bulk.ended, bulk.successes, bulk.under_way))
    assert counts == [(1, 1, 3), (2, 1, 2), (3, 1, 1), (4, 1, 0)]
    assert bulk.reasons == {"too slow": 1, "ill": 1, "nothing came": 1}
    assert line.forgotten == [b"4"]


def test_bulk_goes_on_with_streams_of_several_packets() -> None:
    answers = Answers(respond(b"1", packet(MORE, DATA[:500])), respond(b"2", packet(FINISHED, DATA[500:])))
    bulk = Bulk(FakeLine(), answers, 1.0)
    bulk.begin(StreamRequest())
    bulk.wait_for_one()
    assert (bulk.ended, bulk.successes, bulk.under_way) == (1, 1, 0)


def test_bulk_that_is_broken_off_waits_for_nothing() -> None:
    line = FakeLine()
    bulk = Bulk(line, Answers(), 1.0)
    bulk.begin(PingRequest())
    bulk.begin(PingRequest())
    bulk.close()
    assert bulk.under_way == 0
    assert line.forgotten == [b"1", b"2"]
