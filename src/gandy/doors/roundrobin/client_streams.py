"""Sends streams of gandy's workers to round-robin clients, packet by packet, as the clients ask for them."""

from collections.abc import Callable
from typing import Final

from gandy.doors.limits import MAX_FLOW_BYTES
from gandy.doors.roundrobin.client_requests import ClientRequest, Responder
from gandy.doors.roundrobin.streams import ABORT, ServedStream, parse_lease
from gandy.doors.roundrobin.wire import FAILURE, SUCCESS, QueueMessage, encode_status
from gandy.doors.values import decode_value, encode_payload
from gandy.moments import Monotonic
from gandy.wire.calls import FRAME_COST, LAST, WHOLE, WINDOW_BYTES

PACKET_PATIENCE: Final = 1.0  # seconds that a reader of a stream waits for a full packet


class ClientStream(ServedStream):
    """The stream of one request."""

    def __init__(self, request: ClientRequest, handle: bytes, now: Monotonic) -> None:
        super().__init__(request.message, handle)
        self.request = request
        self.asked_at = now
        self.renewed = now


class ClientStreams:
    """All streams of one door, by handle. `finish` is called with a request whose stream is over."""

    def __init__(self, responder: Responder, finish: Callable[[ClientRequest], None]) -> None:
        self._responder = responder
        self._finish = finish
        self._streams: dict[bytes, ClientStream] = {}
        self._handles = 0

    def __len__(self) -> int:
        return len(self._streams)

    def write(self, request: ClientRequest, flags: int, payload: bytes, now: Monotonic) -> None:
        """Write a piece of a value to the stream. Raises: ValueError: the value is too long, or has no bytes."""
        stream = self._find(request) or self._add(request, now)
        if payload:
            request.value += payload
            stream.owed += len(payload) + FRAME_COST
        if len(request.value) > MAX_FLOW_BYTES:
            raise ValueError(f"one of its values has more than {MAX_FLOW_BYTES:,} bytes")
        if flags & WHOLE:
            try:
                stream.writer.write(b"".join(encode_payload(decode_value(bytes(request.value)))))
            except ValueError as error:
                raise ValueError(f"the stream cannot be written as bytes: {error}") from None
            request.value.clear()
        if flags & LAST:
            stream.writer.close()
        self._send(stream)

    def _find(self, request: ClientRequest) -> ClientStream | None:
        return None if request.stream is None else self._streams[request.stream.writer.handle]

    def _add(self, request: ClientRequest, now: Monotonic) -> ClientStream:
        self._handles += 1
        stream = request.stream = ClientStream(request, self._handles.to_bytes(8, "little"), now)
        self._streams[stream.writer.handle] = stream
        return stream

    def abort(self, request: ClientRequest) -> bool:
        """Send the reader an aborted packet. False if the stream has not begun."""
        stream = self._find(request)
        if stream is None or not stream.has_begun:
            return False
        stream.writer.abort()
        self._send(stream)
        return True

    def forget(self, request: ClientRequest) -> None:
        if request.stream is not None:
            del self._streams[request.stream.writer.handle]
            request.stream = None

    def on_more(self, message: QueueMessage, now: Monotonic) -> None:
        """A client asks for the next packet. MQS_MORE has the host id, the handle, and whether to go on."""
        stream = self._streams.get(message.args[2]) if len(message.args) > 3 else None
        if stream is None or stream.request.sender != message.path[-1]:
            self._responder.fail(message, "there is no such stream any more")
            return
        stream.renewed = now
        if message.args[3] == ABORT:
            stream.writer.abort()
            stream.request.cancel()
        if stream.asked is not None:
            self._responder.fail(stream.asked, "the next packet was asked for again")
        stream.asked, stream.asked_at = message, now
        self._send(stream)

    def on_ongoing(self, message: QueueMessage, now: Monotonic) -> None:
        """A client still wants the streams of its host id."""
        wanted = (message.path[-1], message.args[1]) if len(message.args) > 1 else (b"", b"")
        found = [stream for stream in self._streams.values() if (stream.request.sender, stream.host_id) == wanted]
        for stream in found:
            stream.renewed = now
        self._responder.answer(message, encode_status(SUCCESS if found else FAILURE))

    def on_time(self, now: Monotonic) -> None:
        """Drop streams whose readers are silent, and send packets that are not full to readers that have waited."""
        for stream in list(self._streams.values()):
            if now - stream.renewed >= parse_lease(stream.host_id) and stream.asked is None:
                self._finish(stream.request)
            elif stream.asked is not None and now - stream.asked_at >= PACKET_PATIENCE:
                self._send(stream, at_once=True)

    def _send(self, stream: ClientStream, at_once: bool = False) -> None:
        """Send the packet that was asked for, if there is one, and let the command write more."""
        taken = stream.take_packet(at_once)
        if taken is not None:
            self._responder.answer(*taken)
        if stream.writer.is_over:
            self._finish(stream.request)
        elif (credit := stream.take_credit(WINDOW_BYTES // 2)) > 0:
            stream.request.grant(credit)
