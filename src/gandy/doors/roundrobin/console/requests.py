"""Requests of the client console, one or hundreds: PINGs with an answer, and streams that are checked."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from gandy.doors.roundrobin.console.screen import show_text
from gandy.doors.roundrobin.streams import BLOCK_TOTAL, GO_ON, StreamReader, check_blocks
from gandy.doors.roundrobin.uplink_events import Expired, Response
from gandy.doors.roundrobin.wire import FAILED, MQS_MORE, PING, RR_STREAM
from gandy.errors import RemoteProtocolError

HOST_ID: Final = b"STREAM_ID"  # of our streams, as in the original

End = Response | Expired
Wait = Callable[[float], End]  # waits for the next one, at least this many seconds. Raises: Failed.


class Failed(Exception):
    """A request failed. The text is the reason."""


class RequestSender(Protocol):
    """The part of a connection that a request needs."""

    def request(self, command: bytes, *args: bytes, timeout: float, to: tuple[bytes, ...] = ()) -> bytes: ...

    def forget(self, number: bytes) -> None: ...


class ConsoleRequest(Protocol):
    """A request, and further ones that may follow from it. Each method returns the id of the response to wait for."""

    def begin(self, sender: RequestSender, timeout: float) -> bytes: ...

    def go_on(self, sender: RequestSender, response: Response, timeout: float) -> bytes | None:
        """None when it is done. Raises: Failed."""
        ...


class PingRequest:
    """A TRACKEXEC of PING."""

    id = b""

    def begin(self, sender: RequestSender, timeout: float) -> bytes:
        return sender.request(PING, timeout=timeout)

    def go_on(self, _sender: RequestSender, response: Response, _timeout: float) -> bytes | None:
        self.id = response.id
        return None


class StreamRequest:
    """A stream of 1,024 bytes, in one packet or in several."""

    def __init__(self) -> None:
        self._reader = StreamReader()
        self._data = b""
        self.blocks = 0

    def begin(self, sender: RequestSender, timeout: float) -> bytes:
        return sender.request(RR_STREAM, HOST_ID, b"%d" % BLOCK_TOTAL, timeout=timeout)

    def go_on(self, sender: RequestSender, response: Response, timeout: float) -> bytes | None:
        try:
            self._data += self._reader.receive(b"".join(response.args[:1]))
            if self._reader.is_aborted:
                raise Failed("the worker aborted the stream")
            if not self._reader.is_finished:
                more = (MQS_MORE, HOST_ID, self._reader.handle, GO_ON)
                return sender.request(*more, timeout=timeout, to=response.path[::-1])
            self.blocks = check_blocks(self._data)
        except RemoteProtocolError as error:
            raise Failed(str(error)) from None
        return None


class Bulk:
    """Many requests at once."""

    def __init__(self, sender: RequestSender, wait: Wait, timeout: float) -> None:
        self._sender = sender
        self._wait = wait
        self._timeout = timeout
        self._under_way: dict[bytes, ConsoleRequest] = {}
        self.ended = 0
        self.successes = 0
        self.reasons: Counter[str] = Counter()  # why the rest failed

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def begin(self, request: ConsoleRequest) -> None:
        self._under_way[request.begin(self._sender, self._timeout)] = request

    def wait_for_one(self) -> None:
        """Wait until one of them has ended."""
        ended = self.ended
        while self.ended == ended:
            try:
                self._on_end(self._wait(self._timeout))
            except Failed as failure:  # no answer came at all: any of them may be the one that failed
                number, _ = self._under_way.popitem()
                self._sender.forget(number)
                self._fail(failure)

    def close(self) -> None:
        """Forget the requests that have not ended."""
        for number in self._under_way:
            self._sender.forget(number)
        self._under_way.clear()

    def _on_end(self, end: End) -> None:
        request = self._under_way.pop(end.id, None)
        if request is None:  # of a test that was interrupted
            return
        try:
            number = request.go_on(self._sender, check(end), self._timeout)
        except Failed as failure:
            self._fail(failure)
            return
        if number is not None:
            self._under_way[number] = request
        else:
            self.ended += 1
            self.successes += 1

    def _fail(self, failure: Failed) -> None:
        self.ended += 1
        self.reasons[str(failure)] += 1


def check(end: End) -> Response:
    """Raises: Failed: it is not a response, or its status is a failure."""
    if isinstance(end, Expired):
        raise Failed(end.reason)
    if end.args[:1] == (FAILED,):
        raise Failed(show_text(b" ".join(end.args[1:]).decode(errors="replace")) or "no reason was given")
    return end
