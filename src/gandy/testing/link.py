"""A link between two conversations, as TCP would be: bytes in order, in any pieces, until it is cut."""

from collections.abc import Iterable
from typing import Protocol

from gandy.talk.law import Role


class End(Protocol):
    """One side of a link: a conversation with the program around it."""

    def receive_data(self, data: bytes) -> None: ...

    def data_to_send(self) -> bytes: ...

    def on_cut(self) -> None: ...


class Watcher(Protocol):
    """Sees everything that goes over a link, when it leaves and when it arrives."""

    def on_sent(self, sender: Role, data: bytes) -> None: ...

    def on_delivered(self, sender: Role, data: bytes) -> None: ...


class SimulatedLink:
    """Holds what was sent and has not arrived; `deliver` moves it on by as many bytes as the caller likes."""

    def __init__(self, worker: End, foreman: End, watchers: Iterable[Watcher] = ()) -> None:
        self._ends = {Role.WORKER: worker, Role.FOREMAN: foreman}
        self._watchers = tuple(watchers)
        self.in_flight = {Role.WORKER: bytearray(), Role.FOREMAN: bytearray()}
        self.is_up = True

    def flush(self) -> None:
        """Take what both ends want to send."""
        for sender, end in self._ends.items():
            data = end.data_to_send()
            if data and self.is_up:
                self.in_flight[sender] += data
                for watcher in self._watchers:
                    watcher.on_sent(sender, data)

    def deliver(self, sender: Role, count: int) -> None:
        """The next bytes of this sender arrive, and the other end reacts."""
        data = bytes(self.in_flight[sender][:count])
        if not data or not self.is_up:
            return
        del self.in_flight[sender][:count]
        for watcher in self._watchers:
            watcher.on_delivered(sender, data)
        self._ends[sender.other].receive_data(data)
        self.flush()

    def settle(self) -> None:
        """Deliver everything, until both ends are silent."""
        self.flush()
        while self.is_up and any(self.in_flight.values()):
            for sender in Role:
                self.deliver(sender, len(self.in_flight[sender]))

    def cut(self) -> None:
        """What is in flight is lost, and both ends hear of it."""
        if self.is_up:
            self.is_up = False
            for data in self.in_flight.values():
                data.clear()
            for end in self._ends.values():
                end.on_cut()
