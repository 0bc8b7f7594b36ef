"""Streams of events: what is written for one browser, and what happens when it has left."""

import asyncio

from tests.waiting import run_sync

from gandy.dashboard.audience import EventAudience
from gandy.dashboard.limits import MAX_UNSENT_BYTES
from gandy.dashboard.stream import Stream, make_event


class PlayedTransport(asyncio.Transport):
    """As uvloop's: it refuses everything once it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent = 0
        self.is_gone = False

    def get_write_buffer_size(self) -> int:
        self._check()
        return self.unsent

    def write(self, data: object) -> None:
        self._check()
        assert isinstance(data, bytes)
        self.written.append(data)

    def _check(self) -> None:
        if self.is_gone:
            raise RuntimeError("the handler is closed")


def test_events_are_text_of_one_line() -> None:
    assert make_event("change", {"a": "x\ny"}, 7) == b'id: 7\nevent: change\ndata: {"a":"x\\ny"}\n\n'
    assert make_event("end", "é") == 'event: end\ndata: "é"\n\n'.encode()


def test_browser_that_has_left_gets_nothing_more() -> None:
    """Its connection is lost a moment before the task that sends to it has ended."""
    transport = PlayedTransport()
    stream = Stream(transport)
    stream.write(b"one")
    transport.is_gone = True
    stream.close()
    stream.write(b"two")
    assert not stream.is_full
    run_sync(stream.wait_for_room())
    assert transport.written == [b"one"]


def test_those_that_stay_get_their_events_when_one_has_left() -> None:
    async def test() -> None:
        audience = EventAudience()
        transports = [PlayedTransport() for _ in range(3)]
        streams = [Stream(transport) for transport in transports]
        for stream in streams:
            audience.join(stream)
        audience.publish(b"", lambda: b"whole")
        transports[1].is_gone = True
        streams[1].close()
        audience.publish(b"change", lambda: b"whole")
        assert [transport.written for transport in transports] == [
            [b"whole", b"change"],
            [b"whole"],
            [b"whole", b"change"],
        ]

    asyncio.run(test())


def test_browser_that_does_not_read_misses_changes_until_it_has_read() -> None:
    async def test() -> None:
        audience = EventAudience()
        transport = PlayedTransport()
        stream = Stream(transport)
        audience.join(stream)
        audience.publish(b"", lambda: b"whole")
        transport.unsent = MAX_UNSENT_BYTES + 1
        stream.pause()
        audience.publish(b"missed", lambda: b"whole")
        assert (audience.count(), audience.needs_all(stream)) == ((0, 1), True)
        assert transport.written == [b"whole"]
        audience.wake.clear()
        stream.resume()
        assert audience.wake.is_set()

    asyncio.run(test())
