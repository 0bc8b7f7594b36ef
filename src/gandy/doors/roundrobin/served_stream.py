"""A stream as the side that gives it sees it: its reader fetches packet by packet, and asks for one at a time."""

from gandy.doors.roundrobin.streams import StreamWriter
from gandy.doors.roundrobin.wire import QueueMessage


class ServedStream:
    """One stream. The first packet answers the request for the stream itself."""

    def __init__(self, request: QueueMessage, handle: bytes) -> None:
        self.host_id = b"".join(request.args[1:2])  # of its reader
        self.writer = StreamWriter(handle)
        self.asked: QueueMessage | None = request  # the next packet answers it
        self.has_begun = False  # the first packet is out
        self.owed = 0  # credit that the command has not been given back

    def take_packet(self, at_once: bool = False) -> tuple[QueueMessage, bytes] | None:
        """The request for a packet and the packet that answers it, if there are both."""
        if self.asked is None or (packet := self.writer.take(at_once)) is None:
            return None
        asked, self.asked, self.has_begun = self.asked, None, True
        return asked, packet

    def take_credit(self, limit: int) -> int:
        """Credit for the command that writes the stream, when fewer bytes than the limit wait for packets."""
        if self.writer.waiting >= limit:
            return 0
        owed, self.owed = self.owed, 0
        return owed
