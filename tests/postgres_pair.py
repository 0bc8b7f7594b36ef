"""A primary and a synchronous standby: a commit is done when both have it, and the standby can take over."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.postgres import USER, Postgres
from tests.waiting import until

NAME = "spare"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Pair:
    """Which of the two is the primary may change."""

    def __init__(self, primary: Postgres, standby: Postgres) -> None:
        self.primary = primary
        self.standby = standby
        with primary.connect() as db:
            db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
            db.execute("SELECT pg_reload_conf()")
        until(self.is_synchronous)

    def url(self, schema: str = "gandy", **options: str) -> str:
        """Names both, so that a crew finds the one that takes writes."""
        parameters = {"host": f"{self.primary.folder},{self.standby.folder}", "schema": schema, **options}
        return f"postgresql://{USER}@/postgres?" + "&".join(f"{name}={value}" for name, value in parameters.items())

    def is_synchronous(self) -> bool:
        with self.primary.connect() as db:
            return db.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)]

    def list_waiting(self) -> set[int]:
        """The sessions of the primary whose commit waits for the standby."""
        with self.primary.connect() as db:
            return {pid for (pid,) in db.execute(WAITING)}

    def end_waits(self, function: str) -> None:
        """As a user does who finds statements that take long: by pg_cancel_backend or pg_terminate_backend."""
        with self.primary.connect() as db:
            db.execute(f"SELECT {function}(pid) FROM ({WAITING}) AS waiting")

    def fail_over(self, after: float = 0.0) -> None:
        """Kill the primary and, after so many seconds, make the standby the next one."""
        self.primary.kill()
        time.sleep(after)
        if not self.standby.is_running:
            self.standby.restart()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary


@contextmanager
def a_pair() -> Iterator[Pair]:
    primary = Postgres.start(fsync=False)
    try:
        standby = primary.start_standby(NAME)
        try:
            yield Pair(primary, standby)
        finally:
            standby.stop()
    finally:
        primary.stop()
