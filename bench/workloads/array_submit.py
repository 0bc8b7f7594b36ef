"""W5: what it takes to submit one task, or a million. The jobs are held: nothing runs."""

from bench.contract import Kind, Table

TABLES = (
    Table(
        key="array_submit",
        title="W5: submitting an array",
        unit="jobs",
        count=20,
        reference="gandy, 1 task",
        kind=Kind.TIMES,
        note="From the call of `submit` until the job is on disk.",
    ),
)
