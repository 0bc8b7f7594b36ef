"""W1: Python functions that do nothing, from submit until all results are back in the client."""

from bench.contract import Table

TABLES = (
    Table(
        key="functions",
        title="W1: Python functions that do nothing",
        unit="tasks",
        count=10_000,
        reference="ProcessPoolExecutor(2), submit",
        note="Two workers. Each task is submitted on its own, and its result comes back to the client.",
    ),
)
