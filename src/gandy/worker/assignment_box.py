"""The box in which assignments wait for a slot process, until it takes them or the worker takes them back.

With it, a process goes on with the next task without waiting for its worker. The worker's end never blocks.
"""

import socket
from contextlib import suppress

from gandy.worker.frames import BOX_BYTES


class AssignmentBox:
    """A packet socket that the worker and the process can both read: each packet goes to the one that reads first."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._in.setblocking(False)
        self._out.setblocking(False)

    @property
    def theirs(self) -> int:
        """The descriptor that the slot process reads from."""
        return self._out.fileno()

    def put(self, data: bytes) -> bool:
        """Add an assignment. False: there is no room."""
        try:
            return self._in.send(data) > 0
        except BlockingIOError:
            return False

    def take_back(self) -> list[bytes]:
        """Remove and return what the slot process has not taken, the oldest first."""
        packets = []
        with suppress(BlockingIOError):
            while packet := self._out.recv(BOX_BYTES):
                packets.append(packet)
        return packets

    def close(self) -> None:
        self._in.close()
        self._out.close()
