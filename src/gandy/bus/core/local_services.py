"""The services that this process offers: their handlers by address, and the messages that wait for their time.

Messages wait undecoded, so they take no more memory than their bytes. The route of a message is kept for later ones
with the same head, which need no search, until a handler is added or removed.
"""

from collections import Counter, deque
from typing import NamedTuple

from msgspec import Struct

from gandy.bus.core.addresses import AddressTree, split_address
from gandy.bus.core.coercion import Args, Handler
from gandy.bus.core.schedule import Handle, Schedule
from gandy.bus.core.timekeeper import Timekeeper
from gandy.bus.limits import MAX_DELIVERIES, MAX_ROUTE_HANDLERS, MAX_ROUTE_HEAD, MAX_ROUTES, MAX_SERVICES
from gandy.bus.wire.control import is_name, is_process
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE
from gandy.bus.wire.messages import AT_ONCE, UNTIMED, Elements, Order, Reading, decode, find_args, find_reading, peek
from gandy.errors import ConfigError, NotScheduled, RemoteProtocolError
from gandy.moments import NEVER, Monotonic, Shared


class Delivery(Struct, frozen=True):
    """A message, or a timer, and the handler that must run for it now."""

    handler: Handler
    args: Args  # converted for the handler
    time: Shared
    address: str = ""  # empty for a timer
    types: str = ""  # as sent

    def run(self) -> object:
        """Run the handler. Returns what it returns, and raises what it raises."""
        handler = self.handler
        return handler.function(self) if handler.takes_delivery else handler.function(*self.args)


class Route(NamedTuple):
    """How messages to one address with one type string are decoded, and to which handlers they go."""

    address: str
    reading: Reading
    handlers: tuple[Handler, ...]


class RawMessage(NamedTuple):
    """A message or a bundle whose contents are not decoded yet."""

    time: Shared
    address: str
    data: bytes
    order: Order
    at: int  # where its types begin, or its elements


class LocalService:
    """A service of this process."""

    def __init__(self, tree: AddressTree[Handler], is_osc: bool) -> None:
        self.tree = tree
        self.is_osc = is_osc  # its messages go on to an OSC program


def check_service(name: str) -> None:
    """Raises: ConfigError."""
    if not is_name(name) or is_process(name) or name in (LOCAL_SERVICE, CLOCK_SERVICE):
        raise ConfigError(f"{name!r} cannot be the name of a service")


class LocalServices:
    """Raw messages in, deliveries out. `services`: by name."""

    def __init__(self, time: Timekeeper, dropped: Counter[str]) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.services: dict[str, LocalService] = {}
        self._time = time
        self._dropped = dropped
        self._held: Schedule[RawMessage | Handler] = Schedule()
        self._routes: dict[tuple[bytes, Order], Route] = {}  # by the bytes before the arguments, and the byte order

    def add_service(self, name: str, is_osc: bool) -> bool:
        """True if it is new. Raises: ConfigError."""
        if name in self.services:
            return False
        check_service(name)
        if len(self.services) >= MAX_SERVICES:
            raise ConfigError(f"a process has at most {MAX_SERVICES} services")
        self.services[name] = LocalService(AddressTree(self._routes.clear), is_osc)
        return True

    def remove_service(self, name: str) -> bool:
        """True if it was there."""
        self._routes.clear()
        return self.services.pop(name, None) is not None

    def repeat(self, data: bytes, order: Order) -> bool:
        """Deliver an untimed message by the route of an earlier one with the same head. False if there is none.

        The route depends on the head only, so a search would find the same one.
        """
        begin = find_args(data)
        route = self._routes.get((data[:begin], order))
        if route is None:
            return False
        self._follow(route, AT_ONCE, data, begin)
        return True

    def receive(self, message: RawMessage, now: Monotonic) -> None:
        """Take a message from another process. Raises: RemoteProtocolError."""
        if message.address[0] == "#":
            decode(message.data, message.order)  # nothing of a bundle is delivered unless all of it can be decoded
        self._maybe_take(message, now)
        if message.time > AT_ONCE or message.address[0] == "#":
            self.release(now)

    def accept(self, message: RawMessage, now: Monotonic) -> None:
        """Take a message from our own program, which sends no bundles. Raises: NotScheduled."""
        if len(self.deliveries) >= MAX_DELIVERIES:
            raise NotScheduled(f"{MAX_DELIVERIES:,} messages wait for their handlers already", retryable=True)
        self._take(message, now)
        if message.time > AT_ONCE:
            self.release(now)

    def call_at(self, time: Shared, handler: Handler, now: Monotonic) -> Handle:
        """Raises: NotScheduled."""
        return self._held.add(time, handler, self._time.clock.read(now))

    def cancel(self, handle: Handle) -> bool:
        return self._held.cancel(handle)

    def clear_held(self) -> int:
        """Drop everything that waits for its time. Returns how many there were."""
        count = len(self._held)
        self._held.clear()
        return count

    def next_deadline(self) -> Monotonic:
        """In local time."""
        due = self._held.next_deadline()
        return self._time.clock.local_time_of(due) if self._held else NEVER

    def release(self, now: Monotonic) -> None:
        """Deliver what is due, in order of time: a bundle may contain messages that are due before the next item."""
        if not len(self._held):
            return
        shared = self._time.clock.read(now)
        while (due := self._held.next_deadline()) <= shared:
            for time, held in self._held.pop_due(due):
                if isinstance(held, Handler):
                    self.deliveries.append(Delivery(held, (), time))
                else:
                    self._deliver(held, now)

    def _maybe_take(self, message: RawMessage, now: Monotonic) -> None:
        try:
            self._take(message, now)
        except NotScheduled as error:
            self._dropped["too many timed messages" if error.retryable else "too far ahead"] += 1

    def _take(self, message: RawMessage, now: Monotonic) -> None:
        """Rule 17: timed messages wait, even late ones, since earlier ones may be waiting. Raises: NotScheduled."""
        if message.time <= AT_ONCE:
            self._deliver(message, now)
        elif not self._time.is_synced(now):
            self._dropped["timed, and the time is not known"] += 1
        else:
            self._held.add(message.time, message, self._time.clock.read(now), len(message.data))

    def _deliver(self, message: RawMessage, now: Monotonic) -> None:
        if message.address[0] != "#":
            self._dispatch(message)
            return
        # `receive` checked the whole bundle, and how deep it is.
        for data in Elements(message.order).cut(message.data, message.at, 0):
            time, address, at = peek(data, message.order)
            self._maybe_take(RawMessage(time, address, data, message.order, at), now)

    def _dispatch(self, message: RawMessage) -> None:
        time, address, data, order, at = message
        parts = split_address(address)
        local = self.services.get(parts[0]) if parts is not None else None
        if parts is None or local is None:  # the service was removed meanwhile, or an element is for another one
            self._dropped["no such service here"] += 1
            return
        handlers = local.tree.find(parts[1], parts[2])
        if not handlers:
            self._dropped["no handler"] += 1
            return
        try:
            reading, begin = find_reading(data, at, order)
        except RemoteProtocolError:  # its frame was valid, so the link is not cut
            self._dropped["nonsense"] += 1
            return
        route = Route(address, reading, handlers)
        if data.startswith(UNTIMED) and begin <= MAX_ROUTE_HEAD and len(handlers) <= MAX_ROUTE_HANDLERS:
            self._remember(route, data[:begin], order)
        self._follow(route, time, data, begin)

    def _remember(self, route: Route, head: bytes, order: Order) -> None:
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[head, order] = route

    def _follow(self, route: Route, time: Shared, data: bytes, begin: int) -> None:
        address, reading, handlers = route
        types = reading.types
        try:
            args = reading.read(data, begin)
        except RemoteProtocolError:  # as above
            self._dropped["nonsense"] += 1
            return
        for handler in handlers:
            fitting = args if handler.types == types else handler.fit(args, types)
            if fitting is None:
                self._dropped["other types"] += 1
            else:
                self.deliveries.append(Delivery(handler, fitting, time, address, types))
