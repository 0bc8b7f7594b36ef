"""Streams of this worker for round-robin clients: sends packets as readers fetch them, and watches their leases.

It ends a stream, and cancels its command, if the reader is silent for the time of its lease.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final

from gandy.doors.roundrobin import streams, wire
from gandy.doors.roundrobin.dispatch import Dispatch
from gandy.doors.roundrobin.limits import MAX_HANDLE_BYTES
from gandy.doors.roundrobin.uplink_thread import UplinkThread
from gandy.wire.calls import CANCEL, CREDIT
from gandy.worker.call_service import CallService

log = logging.getLogger("gandy.worker")

FLUSH_SECONDS: Final = 1.0  # for which a reader waits for a full packet, as in the original
BUFFERED_BYTES: Final = 2 * streams.PACKET_BYTES  # bytes of a stream; while more wait, its command gets no credit


class DispatchStream(streams.ServedStream):
    """The stream of one dispatch. Any client that knows its handle may read it."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__(dispatch.message, secrets.token_bytes(streams.HANDLE_BYTES))
        self.dispatch = dispatch
        self.flusher: asyncio.TimerHandle | None = None
        self.lease: asyncio.TimerHandle | None = None

    def stop_timers(self) -> None:
        for timer in (self.flusher, self.lease):
            if timer is not None:
                timer.cancel()


class WorkerStreams:
    """All streams of one worker, by handle. `end` gets each dispatch whose stream is over, with its last response."""

    def __init__(
        self, serving: CallService, uplink: UplinkThread, end: Callable[[Dispatch, wire.QueueMessage | None], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._serving = serving
        self._uplink = uplink
        self._end = end
        self._streams: dict[bytes, DispatchStream] = {}
        self._by_number: dict[int, DispatchStream] = {}  # of the calls

    def find(self, dispatch: Dispatch) -> DispatchStream | None:
        return self._by_number.get(dispatch.number)

    def begin(self, dispatch: Dispatch) -> None:
        stream = self._by_number[dispatch.number] = DispatchStream(dispatch)
        self._streams[stream.writer.handle] = stream
        self._renew(stream)
        self._flush_later(stream)

    def write(self, stream: DispatchStream, data: bytes, cost: int, is_last: bool) -> None:
        stream.owed += cost
        stream.writer.write(data)
        if is_last:
            stream.writer.close()
        self._send_packet(stream)

    def break_off(self, stream: DispatchStream) -> None:
        self._serving.on_frame(CANCEL, 0, stream.dispatch.number, 0, b"")
        stream.writer.abort()
        if stream.asked is not None:
            self._send_packet(stream)
        else:
            self._end(stream.dispatch, None)

    def forget(self, dispatch: Dispatch) -> None:
        stream = self._by_number.pop(dispatch.number, None)
        if stream is not None:
            stream.stop_timers()
            del self._streams[stream.writer.handle]

    def on_request(self, message: wire.QueueMessage) -> None:
        """MQS_MORE or ONGOING."""
        if message.args[0] == wire.MQS_MORE:
            self._on_more(message, *message.args[2:4])
            return
        found = [stream for stream in self._streams.values() if stream.host_id in message.args[1:2]]
        for stream in found:
            self._renew(stream)
        self._reply(message, wire.encode_status(wire.SUCCESS) if found else wire.FAILED)

    def _on_more(self, message: wire.QueueMessage, handle: bytes = b"", flag: bytes = b"") -> None:
        stream = self._streams.get(handle)
        if stream is None or flag == streams.ABORT:
            is_valid = 0 < len(handle) <= MAX_HANDLE_BYTES
            if stream is not None:
                self.break_off(stream)
            self._reply(
                message,
                streams.encode_packet(streams.Packet(streams.ABORTED, streams.RAW, handle))
                if is_valid
                else wire.FAILED,
            )
        elif stream.asked is not None or message.command != wire.TRACKEXEC:
            self._reply(message, wire.FAILED, b"another request for this stream is under way")
        else:
            stream.asked = message
            self._renew(stream)
            self._flush_later(stream)
            self._send_packet(stream)

    def _reply(self, message: wire.QueueMessage, *payload: bytes) -> None:
        response = wire.make_response(message, *payload)
        if response is not None:
            self._uplink.send(response)

    def _renew(self, stream: DispatchStream) -> None:
        """The reader sent a message: start its lease again."""
        if stream.lease is not None:
            stream.lease.cancel()
        stream.lease = self._loop.call_later(streams.parse_lease(stream.host_id), self._expire, stream)

    def _expire(self, stream: DispatchStream) -> None:
        log.warning("the reader of a stream of %s is gone", stream.dispatch.command.name)
        self.break_off(stream)

    def _flush_later(self, stream: DispatchStream) -> None:
        """Send what there is after a while, even if the packet is not full."""
        stream.flusher = self._loop.call_later(FLUSH_SECONDS, self._send_packet, stream, True)

    def _send_packet(self, stream: DispatchStream, at_once: bool = False) -> None:
        """Send the packet that was asked for, if there is one, and let the command write more."""
        taken = stream.take_packet(at_once)
        response = wire.make_response(*taken) if taken is not None else None
        if taken is not None and stream.flusher is not None:
            stream.flusher.cancel()
        if stream.writer.is_over:
            self._end(stream.dispatch, response)
            return
        if response is not None:
            self._uplink.send(response)
        if (credit := stream.take_credit(BUFFERED_BYTES)) > 0:
            self._serving.on_frame(CREDIT, 0, stream.dispatch.number, credit, b"")
