"""What it costs to find and call the handlers of a message as their number grows: by `!` address, and by pattern."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.contract import Contestant, Place, Table, Work
from gandy.bus.core.addresses import AddressTree, split_address
from gandy.bus.core.coercion import Handler

MESSAGES = 100_000
NAMES = 100_000  # that all messages of a run with patterns are compared with, at least
PRIME = 7_919  # neighbours in a run are not neighbours in memory

Services = dict[str, AddressTree[Handler]]


def ignore(value: float) -> None:
    """The shortest handler."""


def make_services(paths: list[str]) -> Services:
    tree = AddressTree[Handler]()
    for path in paths:
        tree.add(path, Handler("d", ignore))
    return {"svc": tree}


def dispatch(services: Services, address: str, types: str, args: tuple[float, ...]) -> int:
    """Dispatch as the bus does. Returns how many handlers were called."""
    split = split_address(address)
    assert split is not None
    called = 0
    for handler in services[split[0]].find(split[1], split[2]):
        fitting = handler.fit(args, types)
        if fitting is not None:
            handler.function(*fitting)
            called += 1
    return called


def sending(handlers: int, used: int = 100, mark: str = "!", types: str = "d") -> Callable[[], int]:
    """Each message has an address of its own, as if it had just been read. Those in use are far from one another."""
    services = make_services([f"/group/{number}" for number in range(handlers)])

    def run() -> int:
        args = (0.5,)
        for number in range(MESSAGES):
            dispatch(services, f"{mark}svc/group/{number % used * PRIME % handlers}", types, args)
        return MESSAGES

    return run


def looking_up(handlers: int, used: int = 100) -> Callable[[], int]:
    """One table of whole addresses and nothing else: the cost of memory access alone in a large table."""
    table = {f"!svc/group/{number}": ignore for number in range(handlers)}

    def run() -> int:
        for number in range(MESSAGES):
            table[f"!svc/group/{number % used * PRIME % handlers}"](0.5)
        return MESSAGES

    return run


def matching(matches: int, others: int) -> Callable[[], int]:
    """Counts names, so that an equal rate means that the cost is proportional to their number."""
    services = make_services([f"/yes{n}" for n in range(matches)] + [f"/no{n}" for n in range(others)])
    repeats = max(1, NAMES // (matches + others))

    def run() -> int:
        for _ in range(repeats):
            assert dispatch(services, "/svc/yes*", "d", (0.5,)) == matches
        return repeats * (matches + others)

    return run


def narrowing(address: str, channels: int, parameters: int, matches: int) -> Callable[[], int]:
    """Most handlers are where the pattern does not lead."""
    services = make_services([f"/ch{c}/p{n}" for c in range(channels) for n in range(parameters)])
    repeats = max(1, NAMES // 10 // matches)

    def run() -> int:
        for _ in range(repeats):
            assert dispatch(services, address, "d", (0.5,)) == matches
        return repeats

    return run


@contextmanager
def dispatching(_place: Place, make: Callable[[], Callable[[], int]]) -> Iterator[Work]:
    run = make()
    yield lambda _count: run()


def compete(
    table: str, name: str, make: Callable[..., Callable[[], int]], *args: object, **options: object
) -> Contestant:
    """A row whose handlers are made in its own process."""
    return Contestant(table, name, partial(dispatching, make=partial(make, *args, **options)), packages=("gandy",))


COUNTS = (100, 1_000, 10_000, 100_000)

TABLES = (
    Table("dispatching", "Dispatching to addresses with !", "messages", MESSAGES, "100 handlers"),
    Table("dispatching_patterns", "Dispatching to patterns", "names", NAMES, "100 of 100 match"),
    Table("dispatching_below", "Dispatching to a name below a pattern", "messages", 100, "/*/p0 among 100 x 1"),
    Table("dispatching_choices", "Dispatching to a choice of words", "messages", 5_000, "/ch0/p{1,5} among 100"),
)

CONTESTANTS = (
    *(compete("dispatching", f"{count:,} handlers", sending, count) for count in COUNTS),
    compete("dispatching", "100,000 handlers, all in use", sending, 100_000, used=100_000),
    compete("dispatching", "100 handlers, with /", sending, 100, mark="/"),
    compete("dispatching", "100 handlers, int to float", sending, 100, types="i"),
    compete("dispatching", "a bare dict of 100", looking_up, 100),
    compete("dispatching", "a bare dict of 100,000", looking_up, 100_000),
    compete("dispatching", "a bare dict of 100,000, all in use", looking_up, 100_000, used=100_000),
    *(compete("dispatching_patterns", f"{n:,} of {n:,} match", matching, n, 0) for n in (10, *COUNTS)),
    *(compete("dispatching_patterns", f"1 of {n:,} matches", matching, 1, n - 1) for n in (10, *COUNTS)),
    *(
        compete("dispatching_below", f"/*/p0 among 100 x {count}", narrowing, "/svc/*/p0", 100, count, 100)
        for count in (1, 10, 100, 1_000)
    ),
    *(
        compete("dispatching_choices", f"/ch0/p{{1,5}} among {count:,}", narrowing, "/svc/ch0/p{1,5}", 1, count, 2)
        for count in COUNTS
    ),
)
