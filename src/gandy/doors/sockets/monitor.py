"""Watches the connections of a bound ROUTER socket: reports new ones, and peers that may be gone."""

import asyncio
import struct
from collections.abc import Callable
from typing import Final

import zmq

from gandy.doors.sockets.connections import GRACE, Connections
from gandy.doors.sockets.reader import Socket, SocketReader
from gandy.moments import Monotonic

ADDRESS: Final = "inproc://monitor"
NOTICES_PER_TURN: Final = 200  # read in one turn of the loop

_CONNECTED: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_EVENTS: Final = int(zmq.EVENTS)
_NOWAIT: Final = int(zmq.NOBLOCK)
_NOTICE: Final = struct.Struct("=Hi")


def open_monitor(context: zmq.Context[Socket], watched: Socket) -> Socket:
    """The socket that gets libzmq's notices about another one."""
    notices = context.socket(zmq.PAIR)
    # No limit: libzmq's own thread would wait for room, and hold a lock that `close` needs.
    notices.setsockopt(zmq.RCVHWM, 0)
    watched.monitor(ADDRESS, _CONNECTED | _DISCONNECTED)
    notices.connect(ADDRESS)
    return notices


class ConnectionMonitor:
    """Calls `on_connect` when peers have connected, and `on_gone` when a peer may have lost its connection."""

    def __init__(
        self,
        watched: Socket,
        notices: Socket,
        reader: SocketReader,
        on_connect: Callable[[], None],
        on_gone: Callable[[bytes], None],
    ) -> None:
        """`reader` is that of the watched socket."""
        self._loop = asyncio.get_running_loop()
        self._connections = Connections()
        self.numbers = self._connections.numbers  # of each peer's last connection
        self._watched = watched
        self._notices = notices
        self._reader = reader
        self._on_connect = on_connect
        self._on_gone = on_gone
        self._settling: asyncio.TimerHandle | None = None
        self._has_newcomers = False
        self._is_closed = False
        self._notice_reader = SocketReader(notices, self._read)

    def close(self) -> None:
        """To be called before the watched socket is closed."""
        self._is_closed = True
        if self._settling is not None:
            self._settling.cancel()
        self._notice_reader.close()
        self._watched.disable_monitor()
        self._notices.close(0)

    def note(self, peer: bytes, number: int) -> None:
        """A peer sent a message over a new connection."""
        while self._read_notices():  # libzmq has sent the notice that an older connection of this number is gone
            pass
        self._notice_reader.wake()
        if self._connections.note(peer, number, Monotonic(self._loop.time())):
            self._settle_later()

    def _read(self) -> bool:
        has_more = self._read_notices()
        if self._has_newcomers:
            self._has_newcomers = False
            self._catch_up()
            self._on_connect()
        return has_more

    def _read_notices(self) -> bool:
        for _ in range(NOTICES_PER_TURN):
            try:
                kind, value = _NOTICE.unpack(self._notices.recv(_NOWAIT))
                self._notices.recv(_NOWAIT)  # the address, which is ours
            except zmq.Again:
                return False
            if kind == _DISCONNECTED:
                self._connections.lose(value, Monotonic(self._loop.time()))
                self._settle_later()
            elif kind == _CONNECTED:
                self._has_newcomers = True
        return True

    def _settle_later(self) -> None:
        if self._settling is None:
            self._settling = self._loop.call_later(GRACE, self._settle)

    def _settle(self) -> None:
        self._settling = None
        try:
            self._reader.read_now()  # the last messages of a lost connection come first
        finally:
            if not self._is_closed:
                self._report_gone()

    def _report_gone(self) -> None:
        self._catch_up()
        peers = self._connections.settle(Monotonic(self._loop.time()), is_drained=self._reader.is_drained)
        if not self._connections.are_settled:
            self._settle_later()
        for peer in peers:
            self._on_gone(peer)
            if self._is_closed:
                return

    def _catch_up(self) -> None:
        """Make libzmq notice new and lost peers, which it does only when asked for events; `send` rarely asks."""
        self._watched.getsockopt(_EVENTS)
        self._reader.wake()
