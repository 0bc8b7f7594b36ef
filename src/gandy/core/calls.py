"""Calls under way, the commands that they are for, and the links over which they come and go. Records; others act."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf

from msgspec import Struct

from gandy.core.workers import Worker
from gandy.wire.calls import WINDOW_BYTES


class Peer:
    """A link to a client or to a worker. What is to be sent to it collects in `out`."""

    __slots__ = (
        "asked",
        "asked_count",
        "asked_since",
        "calls",
        "direct",
        "id",
        "in_use",
        "knows_time",
        "missing",
        "next_id",
        "number",
        "offers",
        "on_out",
        "out",
        "place",
        "reserved",
        "serves",
        "slots",
        "worker",
        "yielded",
    )

    def __init__(self, number: int, on_out: "OnOut | None" = None) -> None:
        self.number = number
        self.on_out = on_out  # of the door that it came in by, if that is not the native one
        self.id = ""  # of the worker
        self.out: list[bytes | bytearray] = []
        self.calls: dict[int, Call] = {}  # that it made, by its own numbers
        # What follows is about workers.
        self.worker: Worker | None = None  # its account of jobs
        self.serves: dict[int, Call] = {}  # that it runs, by our numbers
        self.offers: dict[bytes, int] = {}  # commands, with the slots of a call
        self.missing: set[Command] = set()  # those in whose heap it is not, for want of a free slot
        self.direct: OrderedDict[int, Call] = OrderedDict()  # calls that wait for this worker and no other
        self.slots = 0
        self.reserved = 0  # of these, for calls alone
        self.in_use = 0  # by calls
        self.yielded = 0  # that tasks of jobs have left to calls
        self.asked = 0  # that they were asked to leave
        self.asked_since = -inf  # or have left them, or are not asked any more
        self.asked_count = 0
        self.knows_time = False  # the shared one
        self.place = 0  # in the ring of workers
        self.next_id = 0

    @property
    def shared(self) -> int:
        """Slots that tasks of jobs may have."""
        return self.slots - self.reserved

    def count_free(self) -> int:
        """Slots for calls. What jobs hold is taken, up to the slots that they may have."""
        worker = self.worker
        if worker is None or not worker.used:
            return self.slots - self.in_use if worker is None or not worker.draining else 0
        if worker.draining:
            return 0
        return self.slots - self.in_use - min(worker.used, self.shared - self.yielded)


OnOut = Callable[[Peer, bytes, float], None]  # what is to be said to a peer: whole frames, at a time


class Command:
    """A name, who offers it, and the calls that wait for one of them."""

    __slots__ = ("gone_since", "heap", "name", "offers", "queue", "stale")

    def __init__(self, name: bytes, now: float) -> None:
        self.name = name
        self.offers: dict[Peer, int] = {}
        self.heap: list[tuple[int, int, Peer]] = []  # workers that may have a free slot, by their turn
        self.stale: set[Peer] = set()  # those in the heap that do not offer it any more
        self.queue: OrderedDict[int, Call] = OrderedDict()
        self.gone_since = now  # where nobody offers it


class Call(Struct, eq=False):
    """One call under way."""

    client: Peer | None  # None: nobody wants the result
    client_id: int
    command: Command
    flags: int = 0
    deadline: float = inf
    peer: Peer | None = None  # the worker, once it has the call
    id: int = 0  # there
    slots: int = 1
    target: Peer | None = None  # the worker that it waits for, if there is only one
    order: int = 0  # when it came, among those that wait
    is_complete: bool = False  # the last of arguments that go on in BODY has come
    credit: int = WINDOW_BYTES  # that its worker may still send, beside the last frame
    client_credit: int = WINDOW_BYTES  # that its client may still send of the arguments
    pending: Sequence[tuple[int, int, bytes]] = ()  # while it waits: kind, subtype and payload of what is to be sent
