"""Sequence numbers of one side of a link (docs/protocol/v2.md, rule 4).

Numbers come in pairs, the even one for the worker and the odd one for the foreman. A new request takes our half of the
first pair above everything sent and received, which is the original's choice too, so our bytes equal its bytes.
"""

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import LAST_NUMBER
from gandy.talk.law import Role


class Numbers:
    """Allocates our numbers and checks theirs. The last pair is kept for RESET, so numbers never wrap around."""

    def __init__(self, role: Role, last: int = LAST_NUMBER) -> None:
        self._parity = role.parity
        self._last_pair = last >> 1
        self._next_pair = 0
        self._their_last = -1

    @property
    def is_worn_out(self) -> bool:
        """True if only the number for a RESET is left: v2.md, rule 5."""
        return self._next_pair >= self._last_pair

    def is_ours(self, seq: int) -> bool:
        return seq % 2 == self._parity

    @property
    def next(self) -> int:
        """The number of our next request."""
        return self._next_pair * 2 + self._parity

    def take(self) -> int:
        """Return the number of our next request, and use it up."""
        seq = self.next
        self._next_pair += 1
        return seq

    def on_request(self, seq: int, is_reset: bool) -> None:
        """Check the number of a request of theirs.

        Raises: RemoteProtocolError, if it is not one of theirs, not greater than their last, or kept for RESET.
        """
        if seq % 2 == self._parity:
            raise RemoteProtocolError(f"request number {seq} has the wrong parity", ErrorCode.BAD_SEQ)
        if seq <= self._their_last:
            raise RemoteProtocolError(f"request number {seq} is not greater than {self._their_last}", ErrorCode.BAD_SEQ)
        if seq >> 1 > self._last_pair - (not is_reset):
            raise RemoteProtocolError(f"request number {seq} is past the last one", ErrorCode.BAD_SEQ)
        self._their_last = seq
        self._next_pair = max(self._next_pair, (seq >> 1) + 1)

    def on_answer(self, seq: int) -> None:
        """They answered our request, so their next number must be greater than its number."""
        self._their_last = max(self._their_last, seq)
