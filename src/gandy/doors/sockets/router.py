"""A bound ROUTER socket on the running loop: passes messages to a callback, and sends messages at once or not at all.

It reports peers that may be gone. It does not know what messages mean, keeps none, and waits for no peer.
"""

import errno
import time
from collections.abc import Callable
from typing import Final

import zmq

from gandy.config import Address
from gandy.doors.limits import MAX_FRAME_BYTES, MAX_FRAMES
from gandy.doors.sockets.binding import bind_router
from gandy.doors.sockets.curve import ServerKeys
from gandy.doors.sockets.monitor import ConnectionMonitor, open_monitor
from gandy.doors.sockets.reader import Socket, SocketReader
from gandy.doors.sockets.unsent import LARGE_FRAME, Unsent
from gandy.doors.sockets.zap import ZapSocket
from gandy.net.exposure import parse_tcp

# Messages handled in one turn of the loop, and the time that they may take.
TURN_MESSAGES: Final = 200
TURN_SECONDS: Final = 0.005

LINGER_MS: Final = 200  # for which `close` tries to send what is left

# Plain numbers: combining enums for each frame takes longer than sending it.
_LAST: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_SOURCE: Final = int(zmq.SRCFD)
_UNDELIVERED: Final = (errno.EAGAIN, zmq.EHOSTUNREACH)


class Router:
    """The socket of one door. Set the callbacks right after making it: they are called from the next turn on."""

    def __init__(
        self,
        address: Address | str,
        *,
        curve: ServerKeys | None = None,
        max_message: int = MAX_FRAME_BYTES,
        routing_id: bytes | None = None,
    ) -> None:
        """Listen at an address; port 0: any free one. Our own routing id is by default the address as peers write it.

        Raises: ConfigError: the address is invalid, or another program has it.
        """
        self.on_message: Callable[[list[bytes]], None] = lambda _frames: None  # the first is the peer's routing id
        self.on_disconnect: Callable[[bytes], None] = lambda _routing_id: None  # this peer may be gone
        self.on_connect: Callable[[], None] = lambda: None  # one or more peers have connected
        self.on_refused: Callable[[str], None] = lambda _place: None  # the IP of a peer without a valid key
        self.dropped = 0  # messages of too many frames
        self._unsent: dict[bytes, Unsent] = {}
        self._is_closed = False
        self._is_skipping = False  # the rest of a message of too many frames
        address = parse_tcp(address) if isinstance(address, str) else address
        self._context: zmq.Context[Socket] = zmq.Context()
        try:
            # First: as soon as we listen, libzmq asks about every peer that connects.
            self._zap = ZapSocket(self._context, curve, self._on_refused) if curve is not None else None
            self._socket, self.address = bind_router(self._context, address, curve, max_message, routing_id)
            notices = open_monitor(self._context, self._socket)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._reader = SocketReader(self._socket, self._read)
        self._monitor = ConnectionMonitor(self._socket, notices, self._reader, self._on_connect, self._on_gone)
        if self._zap is not None:
            self._zap.start()

    @property
    def refused(self) -> int:
        """Handshakes of peers without a valid key."""
        return self._zap.refused if self._zap is not None else 0

    def send(self, frames: list[bytes]) -> bool:
        """Send all frames or none; the first, of two or more, is the peer's routing id.

        False: the peer is not connected, or does not read. True does not mean that it has received them.
        """
        if self._is_closed:
            return False
        if max(map(len, frames)) >= LARGE_FRAME:
            return self._send_large(frames)
        send = self._socket.send
        last = len(frames) - 1
        try:
            # libzmq refuses at the first frame only: its limit counts whole messages, and it drops the other frames for
            # a peer that leaves in between. So no half-sent message is left, to which the next would be joined.
            for at in range(last):
                send(frames[at], _MORE)
            send(frames[last], _LAST)
        except zmq.ZMQError as error:
            if error.errno in _UNDELIVERED:
                return False
            raise
        finally:
            self._reader.wake()
        return True

    def _send_large(self, frames: list[bytes]) -> bool:
        unsent = self._unsent.get(frames[0]) or Unsent()
        size = sum(map(len, frames))
        if not unsent.has_room(size):
            return False
        try:
            tracker = self._socket.send_multipart(frames, _LAST, copy=False, track=True)
        except zmq.ZMQError as error:
            if error.errno in _UNDELIVERED:
                return False
            raise
        finally:
            self._reader.wake()
        assert tracker is not None  # as long as copy is False
        unsent.add(tracker, size)
        self._unsent[frames[0]] = unsent
        return True

    def close(self) -> None:
        """Close the socket. Peers that read still get what was sent just before."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._zap is not None:
            self._zap.stop()
        self._reader.close()
        self._monitor.close()
        self._socket.close(LINGER_MS)
        if self._zap is not None:
            self._zap.close()
        self._context.term()

    def _read(self) -> bool:
        if self._is_skipping and not self._skip():
            return True
        numbers = self._monitor.numbers
        recv = self._socket.recv
        end = time.perf_counter() + TURN_SECONDS
        for _ in range(TURN_MESSAGES):
            try:
                # Frames instead of bytes: a frame knows whether more follow; asking the socket would be slower.
                frame = recv(_LAST, False)
            except zmq.Again:
                return False
            peer = frame.bytes
            number = _find_number(frame)
            if number is not None and numbers.get(peer) != number:
                self._monitor.note(peer, number)
            frames = [peer]
            while frame.more and len(frames) <= MAX_FRAMES:
                frame = recv(_LAST, False)
                frames.append(frame.bytes)
            if len(frames) > MAX_FRAMES:  # the protocols need ten, and one for each router on the way
                self.dropped += 1
                self._is_skipping = frame.more
                return True
            self.on_message(frames)
            if self._is_closed or time.perf_counter() > end:
                break
        return True

    def _skip(self) -> bool:
        """Skip the rest of a message of too many frames, a part in each turn. True when all of it is skipped."""
        for _ in range(MAX_FRAMES):
            if not self._socket.recv(_LAST, False).more:
                self._is_skipping = False
                return True
        return False

    def _on_connect(self) -> None:
        self.on_connect()

    def _on_refused(self, place: str) -> None:
        self.on_refused(place)

    def _on_gone(self, peer: bytes) -> None:
        self._unsent.pop(peer, None)
        self.on_disconnect(peer)


def _find_number(frame: zmq.Frame) -> int | None:
    """The file number of the connection over which a message came, if libzmq knows it."""
    try:
        number: int = frame.get(_SOURCE)
    except zmq.ZMQError:
        return None
    return number
