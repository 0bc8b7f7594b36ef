"""Encodes and checks the messages that our own program sends, and finds the process that gets each.

Programs send to the same few addresses again and again, so the encoded heads of messages are cached.
"""

from collections.abc import Sequence
from typing import Any

from gandy.bus.core.addresses import split_address
from gandy.bus.core.directory import ServiceDirectory
from gandy.bus.core.effects import Datagram, MemberOutput, Write
from gandy.bus.core.links import Links
from gandy.bus.core.local_services import LocalServices, RawMessage
from gandy.bus.core.processes import Process, ProcessState
from gandy.bus.core.timekeeper import Timekeeper
from gandy.bus.limits import HORIZON, MAX_DRAFT_TYPES, MAX_DRAFTS
from gandy.bus.wire.messages import AT_ONCE, Draft, Order, draft, frame, infer_types, peek
from gandy.errors import AddressError, NoClock, NotScheduled, UnknownService
from gandy.moments import Monotonic, Shared


class Outbox:
    """Sends the messages of one member's program."""

    def __init__(
        self,
        app: str,
        order: Order,
        max_datagram: int,
        links: Links,
        directory: ServiceDirectory,
        local: LocalServices,
        time: Timekeeper,
        output: MemberOutput,
    ) -> None:
        self._app = app
        self._order = order
        self._max_datagram = max_datagram
        self._processes = links.processes
        self._directory = directory
        self._local = local
        self._time = time
        self._effects = output.effects
        self._drafts: dict[tuple[str, str], tuple[str, Draft]] = {}  # service and draft, by address and types

    def send(
        self,
        address: str,
        values: Sequence[Any],
        now: Monotonic,
        *,
        types: str | None = None,
        at: Shared | None = None,
        is_reliable: bool = True,
    ) -> None:
        """Raises: UnknownService, NoClock, AddressError, NotScheduled; ValueError: the values do not fit the types."""
        if types is None:
            types = infer_types(values)
        service, draft = self._drafts.get((address, types)) or self._draft(address, types)
        data = draft.encode(at or AT_ONCE, values)
        if not is_reliable and len(data) > self._max_datagram:
            raise ValueError(f"{len(data):,} bytes do not fit a datagram: send it reliably")
        process = self._find_target(service)
        if at is not None:
            self.check_time(at, process, now)
        if process is None:  # decoded like a message from another process, so mistakes have the same effect
            self._local.accept(RawMessage(at or AT_ONCE, address, data, self._order, peek(data, self._order)[2]), now)
        elif is_reliable:
            self._effects.append(Write(process.link, frame(data)))
        else:
            self._effects.append(Datagram(process.ip, process.udp_port, data))

    def check_time(self, at: Shared, process: Process | None, now: Monotonic) -> None:
        """Raises: NoClock, NotScheduled."""
        if not self._time.is_synced(now):
            raise NoClock("the shared time is not known yet: wait until it is, or send without a time")
        if process is not None and process.state is not ProcessState.OK:
            raise NoClock(f"{process.name}, which has the service, does not know the shared time yet")
        if not at - self._time.clock.read(now) <= HORIZON:  # the receiver would drop it; NaN fails this test too
            raise NotScheduled(f"a message can be at most {HORIZON:g} s ahead", retryable=False)

    def _draft(self, address: str, types: str) -> tuple[str, Draft]:
        parts = split_address(address)
        if parts is None:
            raise AddressError(f"{address!r} is not an address: write /service/path, or !service/path")
        drafted = parts[0], draft(address, types, self._order)
        if len(types) <= MAX_DRAFT_TYPES:
            if len(self._drafts) >= MAX_DRAFTS:
                self._drafts.clear()
            self._drafts[address, types] = drafted
        return drafted

    def _find_target(self, service: str) -> Process | None:
        """The process that has the service; None for ourselves."""
        provider = service if service in self._processes else self._directory.find(service)
        if provider is None:
            raise UnknownService(f"no process in {self._app} offers the service {service}")
        process = self._processes.get(provider)
        if process is not None and not process.is_here:
            raise UnknownService(f"{provider} is not connected yet")
        return process
