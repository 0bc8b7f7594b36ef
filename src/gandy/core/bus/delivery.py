"""What comes to the services of this process: handlers by address, and what waits for its time.

Messages wait as they came, and are opened when there is a handler for them: so what they hold is what they weigh.
"""

from collections import Counter, deque
from math import inf
from typing import NamedTuple

from gandy.core.bus.addresses import AddressTree, split_address
from gandy.core.bus.coercion import Args, Handler
from gandy.core.bus.processes import MAX_SERVICES
from gandy.core.bus.schedule import Handle, Schedule
from gandy.core.bus.timekeeper import Timekeeper
from gandy.errors import ConfigError, NotScheduled, RemoteProtocolError
from gandy.wire.bus import BusMessage, Elements, Order, decode, decode_args, peek
from gandy.wire.bus_control import is_name, is_process
from gandy.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE


class Delivery(NamedTuple):
    """A handler has something to do."""

    handler: Handler
    message: BusMessage  # of a timer: its time, and no address
    args: Args  # as the handler wants them


class Letter(NamedTuple):
    """A message or a bundle whose contents nobody has opened yet."""

    time: float
    address: str
    data: bytes
    order: Order
    at: int  # where its types are, or its elements


class Local:
    """A service of ours."""

    def __init__(self, is_osc: bool = False) -> None:
        self.tree: AddressTree[Handler] = AddressTree()
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

    def add_service(self, name: str, is_osc: bool) -> bool:
        """Whether it is new. Raises: ConfigError."""
        if name in self.locals:
            return False
        check_service(name)
        if len(self.locals) >= MAX_SERVICES:
            raise ConfigError(f"a process has at most {MAX_SERVICES} services")
        self.locals[name] = Local(is_osc)
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
        self._take(letter, now)
        if letter.time > 0.0:
            self.release(now)

    def call_at(self, time: float, handler: Handler, now: float) -> Handle:
        """Raises: NotScheduled."""
        return self._held.add(time, handler, self._time.clock.read(now))

    def cancel(self, handle: Handle) -> bool:
        return self._held.cancel(handle)

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
                    self.deliveries.append(Delivery(held, BusMessage(time, ""), ()))
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
            types, args = decode_args(data, at, order)
        except RemoteProtocolError:  # its frame was right, so whoever sent it is not cut
            self._dropped["nonsense"] += 1
            return
        message = BusMessage(time, address, types, args)
        for handler in handlers:
            fitting = handler.fit(args, types)
            if fitting is None:
                self._dropped["other types"] += 1
            else:
                self.deliveries.append(Delivery(handler, message, fitting))
