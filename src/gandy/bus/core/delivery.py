"""What comes to the services of this process: handlers by address, and what waits for its time.

Messages wait as they came, and are opened when there is a handler for them: so what they hold is what they weigh.
Where a message went, the next one with the same head goes too, without a search, until a handler comes or goes.
"""

from collections import Counter, deque
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from gandy.bus.core.addresses import AddressTree, split_address
from gandy.bus.core.coercion import Args, Handler
from gandy.bus.core.processes import MAX_SERVICES
from gandy.bus.core.schedule import Handle, Schedule
from gandy.bus.core.timekeeper import Timekeeper
from gandy.bus.wire.control import is_name, is_process
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE
from gandy.bus.wire.messages import AT_ONCE, Elements, Order, Reading, decode, find_args, find_reading, peek
from gandy.errors import ConfigError, NotScheduled, RemoteProtocolError

MAX_DELIVERIES: Final = 100_000  # that wait for handlers, before our own program may not add to them
MAX_ROUTES: Final = 1_024  # that are remembered; peers choose them, so they are few, and all are forgotten at once
MAX_HEAD: Final = 128  # bytes of what they are remembered by
MAX_ROUTED: Final = 64  # handlers of one of them; a pattern may have found a million


class Delivery(Struct, frozen=True):
    """A handler has something to do."""

    handler: Handler
    args: Args  # as the handler wants them
    time: float
    address: str = ""  # of a timer: none
    types: str = ""  # as they came

    def run(self) -> object:
        """What the handler says."""
        handler = self.handler
        return handler.function(self) if handler.takes_delivery else handler.function(*self.args)


class Route(NamedTuple):
    """What becomes of messages to one address with one type string."""

    address: str
    reading: Reading
    handlers: tuple[Handler, ...]


class Letter(NamedTuple):
    """A message or a bundle whose contents nobody has opened yet."""

    time: float
    address: str
    data: bytes
    order: Order
    at: int  # where its types are, or its elements


class Local:
    """A service of ours."""

    def __init__(self, tree: AddressTree[Handler], is_osc: bool) -> None:
        self.tree = tree
        self.is_osc = is_osc  # what it gets goes on to an OSC program


def check_service(name: str) -> None:
    """Raises: ConfigError."""
    if not is_name(name) or is_process(name) or name in (LOCAL_SERVICE, CLOCK_SERVICE):
        raise ConfigError(f"{name!r} cannot be the name of a service")


class Inbox:
    """Letters in, deliveries out. `locals`: by name, the services that we offer."""

    def __init__(self, time: Timekeeper, dropped: Counter[str]) -> None:
        self.deliveries: deque[Delivery] = deque()
        self.locals: dict[str, Local] = {}
        self._time = time
        self._dropped = dropped
        self._held: Schedule[Letter | Handler] = Schedule()
        self._routes: dict[tuple[bytes, Order], Route] = {}  # by all that comes before the arguments

    def add_service(self, name: str, is_osc: bool) -> bool:
        """Whether it is new. Raises: ConfigError."""
        if name in self.locals:
            return False
        check_service(name)
        if len(self.locals) >= MAX_SERVICES:
            raise ConfigError(f"a process has at most {MAX_SERVICES} services")
        self.locals[name] = Local(AddressTree(self._routes.clear), is_osc)
        return True

    def remove_service(self, name: str) -> bool:
        """Whether it was there."""
        self._routes.clear()
        return self.locals.pop(name, None) is not None

    def repeat(self, data: bytes, order: Order) -> bool:
        """Deliver a message for at once as one with the same head before it. Whether there was one.

        What a message means before its arguments is in these bytes alone: so no other way could end elsewhere.
        """
        begin = find_args(data)
        route = self._routes.get((data[:begin], order))
        if route is None:
            return False
        self._follow(route, 0.0, data, begin)
        return True

    def receive(self, letter: Letter, now: float) -> None:
        """From elsewhere. Raises: RemoteProtocolError."""
        if letter.address[0] == "#":
            decode(letter.data, letter.order)  # nothing of a bundle counts unless all of it makes sense
        self._maybe_take(letter, now)
        if letter.time > 0.0 or letter.address[0] == "#":
            self.release(now)

    def accept(self, letter: Letter, now: float) -> None:
        """From our own program, and no bundle. Raises: NotScheduled."""
        if len(self.deliveries) >= MAX_DELIVERIES:
            raise NotScheduled(f"{MAX_DELIVERIES:,} messages wait for their handlers already", retryable=True)
        self._take(letter, now)
        if letter.time > 0.0:
            self.release(now)

    def call_at(self, time: float, handler: Handler, now: float) -> Handle:
        """Raises: NotScheduled."""
        return self._held.add(time, handler, self._time.clock.read(now))

    def cancel(self, handle: Handle) -> bool:
        return self._held.cancel(handle)

    def clear_held(self) -> int:
        """Drop all that waits for a time. How many there were."""
        count = len(self._held)
        self._held.clear()
        return count

    def next_deadline(self) -> float:
        """In local time."""
        due = self._held.next_deadline()
        return self._time.clock.tell_local(due) if due != inf else inf

    def release(self, now: float) -> None:
        """Deliver what is due. One time after the other: a bundle may hold what comes before the next one."""
        if not len(self._held):
            return
        shared = self._time.clock.read(now)
        while (due := self._held.next_deadline()) <= shared:
            for time, held in self._held.pop_due(due):
                if isinstance(held, Handler):
                    self.deliveries.append(Delivery(held, (), time))
                else:
                    self._deliver(held, now)

    def _maybe_take(self, letter: Letter, now: float) -> None:
        try:
            self._take(letter, now)
        except NotScheduled as error:
            self._dropped["too many timed messages" if error.retryable else "too far ahead"] += 1

    def _take(self, letter: Letter, now: float) -> None:
        """What has a time waits, even if it is late: others may be due before it. Raises: NotScheduled."""
        if letter.time <= 0.0:
            self._deliver(letter, now)
        elif not self._time.is_synced(now):
            self._dropped["timed, and the time is not known"] += 1
        else:
            self._held.add(letter.time, letter, self._time.clock.read(now), len(letter.data))

    def _deliver(self, letter: Letter, now: float) -> None:
        if letter.address[0] != "#":
            self._dispatch(letter)
            return
        # `receive` saw that it makes sense, and that there are few bundles within bundles.
        for data in Elements(letter.order).cut(letter.data, letter.at, 0):
            time, address, at = peek(data, letter.order)
            self._maybe_take(Letter(time, address, data, letter.order, at), now)

    def _dispatch(self, letter: Letter) -> None:
        time, address, data, order, at = letter
        parts = split_address(address)
        local = self.locals.get(parts[0]) if parts is not None else None
        if parts is None or local is None:  # it went since the message came, or an element is for somebody else
            self._dropped["no such service here"] += 1
            return
        handlers = local.tree.find(parts[1], parts[2])
        if not handlers:
            self._dropped["no handler"] += 1
            return
        try:
            reading, begin = find_reading(data, at, order)
        except RemoteProtocolError:  # its frame was right, so whoever sent it is not cut
            self._dropped["nonsense"] += 1
            return
        route = Route(address, reading, handlers)
        if data.startswith(AT_ONCE) and begin <= MAX_HEAD and len(handlers) <= MAX_ROUTED:
            self._remember(route, data[:begin], order)
        self._follow(route, time, data, begin)

    def _remember(self, route: Route, head: bytes, order: Order) -> None:
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[head, order] = route

    def _follow(self, route: Route, time: float, data: bytes, begin: int) -> None:
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
