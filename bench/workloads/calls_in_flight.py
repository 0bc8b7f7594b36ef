"""W3: calls per second, with 1,000 in flight."""

from bench.contract import Table

TABLES = (
    Table(
        key="calls_in_flight",
        title="W3: calls with 1,000 in flight",
        unit="calls",
        count=50_000,
        reference="bare relay",
        repeats=5,
        note="64 bytes there and back.",
    ),
)
