"""A ping-pong worker's frontend in a thread of its own, so that a busy worker still sends PINGs.

`doors.pingpong.talk` decides; this has the socket and the clock. Any thread may call the methods; the callbacks run in
the thread of the frontend.
"""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import zmq

from gandy.clocks import read_monotonic
from gandy.doors.pingpong.limits import MAX_BODY_BYTES
from gandy.doors.pingpong.talk import PingPongWorker, Turn
from gandy.doors.pingpong.wire import Exit, PingPongJob
from gandy.doors.sockets.dealer import DealerThread, Keys
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic

log = logging.getLogger("gandy.doors.sockets")

# Milliseconds until libzmq connects again. A frontend is for one connection: we close it within this time, or it would
# send the result of a job to a broker that has given us another one.
RECONNECT_MS: Final = 500


class FrontendThread(DealerThread):
    """The frontend of one worker. `on_job` gets the bytes of a job, which `finish` answers; `on_exit` means EXIT."""

    name = "gandy-frontend"
    watched = zmq.EVENT_DISCONNECTED

    def __init__(
        self, url: str, on_job: Callable[[bytes], None], on_exit: Callable[[], None], keys: Keys | None = None
    ) -> None:
        """Raises: ConfigError."""
        self._on_job = on_job
        self._on_exit = on_exit
        self._side = PingPongWorker()
        self._results: deque[bytes] = deque()  # from other threads
        super().__init__(url, keys)

    def start(self) -> None:
        self._send(self._side.start(read_monotonic()))
        super().start()

    def finish(self, result: bytes) -> None:
        """The job has ended."""
        self._results.append(result)
        self._thread.wake()

    # The thread

    def _set_up(self, socket: "zmq.Socket[bytes]") -> None:
        """No routing id: the broker's socket chooses a new one for each connection."""
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, 2 * MAX_BODY_BYTES)

    def _next_deadline(self) -> Monotonic:
        return self._side.next_deadline()

    def _turn(self) -> None:
        self._receive_all()
        self._read_monitor()
        self._send_results()
        self._take(self._side.on_time(read_monotonic()))

    def _finish(self) -> None:
        self._send_results()

    def _on_change(self) -> None:
        self._take(self._side.on_disconnect(read_monotonic()))

    def _take(self, turn: Turn) -> None:
        if turn.is_renewed:
            log.info("no message from %s: connecting again", self.url)
            self._renew()
        for frames in turn.messages:
            self._send(frames)

    def _send(self, frames: list[bytes]) -> None:
        """Send now, or drop it if the socket is full: it would be out of date later."""
        with suppress(zmq.Again):
            self._socket.send_multipart(frames, zmq.NOBLOCK)

    def _receive_all(self) -> None:
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = self._side.on_frames(frames, read_monotonic())
            except RemoteProtocolError as error:
                log.warning("%s sent an invalid message: %s", self.url, error)
                continue
            self._handle(message)

    def _handle(self, message: PingPongJob | Exit | None) -> None:
        if isinstance(message, PingPongJob):
            self._on_job(message.data)
        elif message is not None:
            self._on_exit()

    def _send_results(self) -> None:
        while self._results:
            frames = self._side.result(self._results.popleft(), read_monotonic())
            if frames is not None:
                self._send(frames)
            self._handle(self._side.next_job())
