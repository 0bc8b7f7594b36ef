"""A ping-pong worker's frontend (seed 003) in a thread of its own, so that a worker that is busy still sends PINGs.

The law is `talk.pingpong`; here are its socket and its clock. Any thread may call the methods; events are told in the
thread of the frontend.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from socket import socketpair
from threading import Thread, current_thread
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from gandy.errors import ConfigError, RemoteProtocolError
from gandy.gateway.uplink import Keys
from gandy.talk.pingpong import PingPongWorker, Turn
from gandy.wire.pingpong import MAX_BODY_BYTES, Exit, Job

log = logging.getLogger("gandy.gateway")

MAX_REST: Final = 60.0  # seconds; there are clocks that cannot wait for ever
RECONNECT_MS: Final = 500  # between two tries of a frontend that nobody has answered yet
LINGER: Final = 1.0  # seconds to send what is left, when it is closed


class FrontendThread:
    """One worker. `on_job` gets the bytes of a job, to which `finish` is the answer; `on_exit` says that it is over."""

    def __init__(
        self,
        url: str,
        on_job: Callable[[bytes], None],
        on_exit: Callable[[], None],
        keys: Keys | None = None,
        side: PingPongWorker | None = None,
    ) -> None:
        """Raises: ConfigError."""
        self.url = url
        self._on_job = on_job
        self._on_exit = on_exit
        self._keys = keys
        self._side = side or PingPongWorker()
        self._results: deque[bytes] = deque()  # from other threads
        self._reading, self._writing = socketpair()  # wakes the thread
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._is_closing = False
        self._linger = LINGER
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = zmq.Poller()
        self._poller.register(self._reading, zmq.POLLIN)
        try:
            self._socket, self._monitor = self._open()
        except zmq.ZMQError as error:
            self._end()
            raise ConfigError(f"cannot connect to {url}: {error}") from None
        self._thread = Thread(target=self._run, name="gandy-frontend", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, result: bytes) -> None:
        """The job has ended."""
        self._results.append(result)
        self._wake()

    def close(self, linger: float = LINGER) -> None:
        """Send what is left, for at most so many seconds, and end."""
        self._linger = linger
        self._is_closing = True
        self._wake()
        if self._thread.ident is None:
            self._shut()
            self._end()
        elif self._thread is not current_thread():
            self._thread.join(linger + 5.0)

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake, or closed already
            self._writing.send(b"!")

    # The socket

    def _open(self) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
        """A socket, and one that tells what happens to it. Raises: ZMQError."""
        socket = self._context.socket(zmq.DEALER)  # with a routing id that the broker chooses: a new one each time
        try:
            socket.setsockopt(zmq.LINGER, 0)
            # A frontend is for one connection: in this time it is closed, or the result of a job would get to a broker
            # that has given us another one.
            socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
            socket.setsockopt(zmq.MAXMSGSIZE, 2 * MAX_BODY_BYTES)
            socket.setsockopt(zmq.IPV6, "[" in self.url)
            if self._keys is not None:
                self._keys.apply(socket)
            monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            socket.connect(self.url)
        except zmq.ZMQError:
            socket.close(0)
            raise
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(monitor, zmq.POLLIN)
        return socket, monitor

    def _shut(self, linger: float = 0.0) -> None:
        self._poller.unregister(self._socket)
        self._poller.unregister(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(int(linger * 1000))

    def _end(self) -> None:
        self._context.term()
        self._writing.close()
        self._reading.close()

    def _run(self) -> None:
        try:
            self._send(self._side.start(time.monotonic()))
            while not self._is_closing:
                try:
                    self._turn()
                except zmq.ZMQError as error:
                    log.warning("the connection to %s failed: %s", self.url, error)
                    time.sleep(1.0)
        finally:
            self._send_results()
            self._shut(self._linger)
            self._end()

    def _turn(self) -> None:
        rest = self._side.next_deadline() - time.monotonic()
        self._poller.poll(int(max(0.0, min(rest, MAX_REST)) * 1000) + 1)
        with suppress(BlockingIOError):
            self._reading.recv(1024)
        self._receive_all()
        self._read_monitor()
        self._send_results()
        self._take(self._side.on_time(time.monotonic()))

    def _read_monitor(self) -> None:
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                log.warning("%s does not take our keys", self.url)
            else:
                self._take(self._side.on_disconnect(time.monotonic()))

    def _take(self, turn: Turn) -> None:
        if turn.is_renewed:
            log.info("no word from %s: beginning anew", self.url)
            new = self._open()
            self._shut()
            self._socket, self._monitor = new
        for frames in turn.messages:
            self._send(frames)

    def _send(self, frames: list[bytes]) -> None:
        """What the socket does not take now is lost: it would be old news later."""
        with suppress(zmq.Again):
            self._socket.send_multipart(frames, zmq.NOBLOCK)

    def _receive_all(self) -> None:
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = self._side.on_frames(frames, time.monotonic())
            except RemoteProtocolError as error:
                log.warning("%s said something that makes no sense: %s", self.url, error)
                continue
            self._see_to(message)

    def _see_to(self, message: Job | Exit | None) -> None:
        if isinstance(message, Job):
            self._on_job(message.data)
        elif message is not None:
            self._on_exit()

    def _send_results(self) -> None:
        while self._results:
            frames = self._side.result(self._results.popleft(), time.monotonic())
            if frames is not None:
                self._send(frames)
            self._see_to(self._side.next_job())
