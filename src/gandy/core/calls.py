"""Records of calls under way, of the commands that they are for, and of the peers that make and run them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from gandy.core.slots import SlotAccount
from gandy.core.workers import KnownWorker
from gandy.moments import NEVER, Monotonic
from gandy.wire.calls import WINDOW_BYTES

NO_SLOTS: Final = SlotAccount()  # of a peer that is not a worker; nothing is counted in it


class Peer:
    """A client or a worker, as the switchboard sees it. Frames for it collect in `out`."""

    __slots__ = (
        "calls",
        "direct",
        "id",
        "knows_time",
        "missing",
        "next_id",
        "number",
        "offers",
        "on_out",
        "out",
        "place",
        "serves",
        "slots",
        "worker",
        "write",
    )

    def __init__(self, number: int, on_out: "OnOut | None" = None) -> None:
        self.number = number
        self.write: Callable[[bytes], None] | None = None  # to its link, if it has one
        self.on_out = on_out  # of its door, if it has no link
        self.id = ""  # of the worker
        self.out: list[bytes | bytearray] = []
        self.calls: dict[int, Call] = {}  # that it made, by its own numbers
        # What follows is about workers.
        self.worker: KnownWorker | None = None
        self.slots = NO_SLOTS  # the worker's account
        self.serves: dict[int, Call] = {}  # that it runs, by our numbers
        self.offers: dict[bytes, int] = {}  # commands, with the slots of a call
        self.missing: set[OfferedCommand] = set()  # those whose heap it is not in, for lack of a free slot
        self.direct: OrderedDict[int, Call] = OrderedDict()  # calls that wait for this worker and no other
        self.knows_time = False  # the shared one
        self.place = 0  # in the ring of workers
        self.next_id = 0

    def count_free(self) -> int:
        """Slots for calls."""
        return 0 if self.worker is None or self.worker.draining else self.slots.free_for_calls


OnOut = Callable[[Peer, bytes, Monotonic], None]  # gets whole frames for a peer, and the time


class OfferedCommand:
    """A name, the workers that offer it, and the calls that wait for one of these."""

    __slots__ = ("buckets", "ended", "failed", "gone_since", "heap", "name", "offers", "queue", "stale")

    def __init__(self, name: bytes, now: Monotonic) -> None:
        self.name = name
        self.offers: dict[Peer, int] = {}
        self.heap: list[tuple[int, int, Peer]] = []  # workers that may have a free slot, by their turn
        self.stale: set[Peer] = set()  # those in the heap that do not offer it any more
        self.queue: OrderedDict[int, Call] = OrderedDict()
        self.gone_since = now  # if no worker offers it
        self.ended = 0  # calls, while calls are metered
        self.failed = 0  # of these
        self.buckets: list[int] | None = None  # a histogram of the microseconds that a sample of these took

    def list_buckets(self) -> tuple[int, ...]:
        """The histogram without the empty buckets at its end."""
        buckets = self.buckets or ()
        last = max((number for number, count in enumerate(buckets) if count), default=-1)
        return tuple(buckets[: last + 1])


class Call(Struct, eq=False):
    """One call under way."""

    client: Peer | None  # None: the result is not wanted
    client_id: int
    command: OfferedCommand
    flags: int = 0
    deadline: Monotonic = NEVER
    began: float = 0.0  # when it came, on the monotonic clock; 0 unless it is timed
    sent: float = 0.0  # when it went to its worker, on the same clock; 0 unless viewers look, and see it
    peer: Peer | None = None  # the worker, once it has the call
    id: int = 0  # its number there
    slots: int = 1
    target: Peer | None = None  # the worker that it waits for, if there is only one
    order: int = 0  # when it came, among those that wait
    is_complete: bool = False  # the last of arguments that go on in BODY has come
    credit: int = WINDOW_BYTES  # bytes that its worker may still send, besides the last frame
    client_credit: int = WINDOW_BYTES  # bytes that its client may still send of the arguments
    pending: Sequence[tuple[int, int, bytes]] = ()  # while it waits: kind, subtype and payload of what is to be sent
