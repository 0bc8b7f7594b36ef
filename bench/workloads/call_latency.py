"""W2: one call at a time, with 64 bytes there and back."""

from bench.contract import Kind, Table

TABLES = (
    Table(
        key="call_latency",
        title="W2: calls one at a time",
        unit="calls",
        count=2_000,
        reference="bare relay",
        kind=Kind.TIMES,
        repeats=7,
        note="64 bytes there and back. The bare relay is three processes that pass frames on and do nothing else.",
    ),
)
