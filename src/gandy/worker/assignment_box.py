"""Where assignments wait for a slot process: it takes them, or the worker takes them back. Never blocks.

So a process goes on with the next task without waiting for its worker.
"""

import socket
from contextlib import suppress

from gandy.worker.frames import BOX_BYTES


class AssignmentBox:
    """A socket of packets. Worker and process both can read it: the first has the whole packet, the other nothing."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._in.setblocking(False)
        self._out.setblocking(False)

    @property
    def theirs(self) -> int:
        """The descriptor that the slot process reads from."""
        return self._out.fileno()

    def put(self, data: bytes) -> bool:
        """False: there is no room."""
        try:
            return self._in.send(data) > 0
        except BlockingIOError:
            return False

    def take_back(self) -> list[bytes]:
        """What the slot process has not taken, the oldest first."""
        packets = []
        with suppress(BlockingIOError):
            while packet := self._out.recv(BOX_BYTES):
                packets.append(packet)
        return packets

    def close(self) -> None:
        self._in.close()
        self._out.close()
