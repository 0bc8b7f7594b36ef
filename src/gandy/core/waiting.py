"""Calls that wait for a slot: first come, first served for each command, and for each worker that is called by name."""

from typing import Final

from gandy.core.calls import Call, OfferedCommand, Peer
from gandy.wire.calls import CALL

TOO_MANY: Final = 0xFFFF_FFFF  # slots; more than any worker has


class WaitingCalls:
    """Keeps up to a number of calls, and of bytes."""

    def __init__(self, max_calls: int, max_bytes: int) -> None:
        self.max_calls = max_calls
        self.max_bytes = max_bytes
        self.count = 0
        self.bytes = 0
        self.commands: dict[bytes, OfferedCommand] = {}  # those that calls wait for
        self._order = 0

    def has_room(self, size: int) -> bool:
        return self.count < self.max_calls and self.bytes + size <= self.max_bytes

    def add(self, call: Call, payload: bytes, peer: Peer | None = None) -> None:
        """Add a call for any worker, or for this one and no other."""
        self._order += 1
        call.order = self._order
        call.pending = [(CALL, call.flags, payload)]
        self.count += 1
        self.bytes += len(payload)
        if peer is not None:
            peer.direct[call.order] = call
            call.target = peer
        else:
            call.command.queue[call.order] = call
            self.commands[call.command.name] = call.command

    def extend(self, call: Call, kind: int, subtype: int, payload: bytes) -> bool:
        """Add a frame to a call that waits. False if there is no room for it."""
        if self.bytes + len(payload) > self.max_bytes:
            return False
        assert isinstance(call.pending, list)
        call.pending.append((kind, subtype, payload))
        self.bytes += len(payload)
        return True

    def remove(self, call: Call) -> None:
        command = call.command
        if call.target is not None:
            del call.target.direct[call.order]
            call.target = None
        else:
            del command.queue[call.order]
            if not command.queue:
                del self.commands[command.name]
        self.count -= 1
        self.bytes -= sum(len(data) for _, _, data in call.pending)

    def find(self, peer: Peer) -> Call | None:
        """The call that came first, of those that this worker can take now."""
        found: Call | None = None
        free = peer.count_free()
        if free <= 0:
            return None
        if peer.direct:
            call = next(iter(peer.direct.values()))
            if peer.offers[call.command.name] <= free:
                found = call
        names = peer.offers if len(peer.offers) < len(self.commands) else self.commands
        for name in names:
            command = self.commands.get(name)
            if command is None or command.offers.get(peer, TOO_MANY) > free:
                continue
            call = next(iter(command.queue.values()))
            if found is None or call.order < found.order:
                found = call
        return found
