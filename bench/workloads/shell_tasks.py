"""W4: shell tasks that do nothing, two at a time."""

from bench.contract import Table

TABLES = (
    Table(
        key="shell_tasks",
        title="W4: shell tasks, two at a time",
        unit="tasks",
        count=2_000,
        reference="xargs -P2",
        note="Each task is `sh -c true`.",
        repeats=11,
    ),
)
