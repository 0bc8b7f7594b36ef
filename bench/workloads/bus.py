"""W6: messages of the bus, as round trips and one way."""

from bench.contract import Kind, Table

LIMIT = "Python, blocking sockets"
WINDOW = 50  # the other side acknowledges after this many messages; twice as many may be under way

TABLES = (
    Table("bus_udp", "W6: round trips by UDP", "round trips", 2_000, LIMIT, Kind.TIMES),
    Table("bus_tcp", "W6: round trips by TCP", "round trips", 2_000, LIMIT, Kind.TIMES),
    Table(
        key="bus_one_way",
        title="W6: messages one way",
        unit="messages",
        count=20_000,
        reference=f"{LIMIT}, UDP",
        note=f"The other side answers after each {WINDOW}: UDP loses messages that are not read in time.",
    ),
)
