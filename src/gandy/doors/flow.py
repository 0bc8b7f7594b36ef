"""Sends a value to a caller in pieces, as the caller grants credit. The last piece needs none."""

from collections import deque
from typing import Final

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.values import encode_value
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire.calls import FRAME_COST, RESULT, WHOLE, WINDOW_BYTES

CHUNK: Final = MAX_PIECE_BYTES // 2  # bytes of a stream in one value


class Flow:
    """The result of one call from a worker of a door: call `number` of `peer` at the switchboard."""

    def __init__(self, board: Switchboard, peer: Peer, number: int) -> None:
        self._board = board
        self._peer = peer
        self.number = number
        self.credit = WINDOW_BYTES
        self.last = b""  # the last piece, which the owner sends with the end of the call
        self.last_flags = 0
        self.is_complete = False
        self._pieces: deque[tuple[int, bytes]] = deque()

    @property
    def is_idle(self) -> bool:
        """True if everything is sent, and the caller has granted more credit."""
        return not self._pieces and self.credit > 0

    @property
    def is_done(self) -> bool:
        """True if only `last` is left to be sent."""
        return self.is_complete and not self._pieces

    def put_value(self, value: object) -> None:
        """Send the only value of the call."""
        body = encode_value(value)
        starts = range(0, len(body), MAX_PIECE_BYTES)
        *first, self.last = (body[at : at + MAX_PIECE_BYTES] for at in starts)
        self._pieces.extend((0, piece) for piece in first)
        self.last_flags = WHOLE
        self.is_complete = True
        self._push()

    def put_chunks(self, data: bytes) -> None:
        """Send more of a stream of bytes."""
        self._pieces.extend((WHOLE, encode_value(data[at : at + CHUNK])) for at in range(0, len(data), CHUNK))
        self._push()

    def close(self) -> None:
        """End the stream."""
        self.is_complete = True

    def grant(self, count: int) -> None:
        self.credit += count
        self._push()

    def _push(self) -> None:
        while self._pieces and self.credit > 0:
            flags, piece = self._pieces.popleft()
            self.credit -= len(piece) + FRAME_COST
            self._board.on_frame(self._peer, RESULT, flags, self.number, 0, piece)
