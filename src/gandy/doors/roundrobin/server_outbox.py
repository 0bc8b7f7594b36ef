"""Messages on their way to a round-robin server. It holds those sent without a server for the next one."""

from collections import deque
from collections.abc import Container
from typing import Final

from gandy.doors.roundrobin.heartbeat import Heartbeat
from gandy.doors.roundrobin.wire import DEREGISTER, EXEC, INCREMENT, REGISTER, RESPONSE, TRACKEXEC, QueueMessage

CONTROL: Final = frozenset((INCREMENT, REGISTER, DEREGISTER))


class ServerOutbox:
    """The socket sends `messages`, in order."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.messages: deque[QueueMessage] = deque()
        self._heartbeat = heartbeat
        self._held: list[QueueMessage] = []

    @property
    def has_server(self) -> bool:
        return self._heartbeat.is_connected

    def put(self, *messages: QueueMessage) -> None:
        """Send to the current socket, whether or not its server has answered yet."""
        self.messages.extend(messages)

    def send(self, message: QueueMessage) -> None:
        """Send now, or when there is a server."""
        if self.has_server:
            self.messages.append(message)
        else:
            self._held.append(message)

    def on_server(self, requests: Container[bytes]) -> None:
        """Send what was held, except for requests that have expired. `requests`: the ids of the others."""
        held, self._held = self._held, []
        self.put(*(message for message in held if message.command != TRACKEXEC or message.id in requests))

    def on_lost(self) -> None:
        """Hold what the next server can use as well."""
        self._held.extend(filter(_is_lasting, self.messages))
        self.messages.clear()


def _is_lasting(message: QueueMessage) -> bool:
    """True if the message means the same to the next server."""
    if message.command in (EXEC, TRACKEXEC):
        return not CONTROL.intersection(message.args[:1])
    return message.command == RESPONSE
