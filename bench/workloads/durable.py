"""W8: queues that are durable in PostgreSQL, all on one server, and gandy's own costs there."""

from functools import partial

from bench.contract import Table

make_table = partial(Table, unit="tasks", reference="gandy", server="postgres")

TABLES = (
    make_table(
        "durable",
        "W8: durable queues on PostgreSQL",
        count=5_000,
        note="No-op tasks, two workers, one server for all. Each task is submitted on its own. "
        "`alone` is the median of tasks one at a time, from submit until the client knows that it is done.",
    ),
    make_table(
        "durable_batches",
        "W8: durable queues on PostgreSQL, in batches",
        count=10_000,
        note="The same, submitted in batches; workers take and finish up to 50 tasks together.",
    ),
)
