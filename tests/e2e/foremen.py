"""A crew with many foremen over one PostgreSQL: each foreman and each worker is a process with a home of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.crew import Crew
from tests.e2e.members import Member
from tests.postgres import Postgres
from tests.waiting import until

from gandy import Client

# How long an absent worker keeps its tasks: enough for another foreman to take over on a busy machine.
GRACE = "20s"


class ForemanMember(Member):
    """One foreman. `said` is what it has logged since its last start."""

    def __init__(self, crew: Crew, name: str, store: str, grace: str) -> None:
        self.crew = crew
        self._begin = 0
        super().__init__(crew, name, "foreman", "run", "--store", store, "--grace", grace)

    def start(self) -> None:
        self._begin = self.log.stat().st_size if self.log.exists() else 0
        super().start()

    @property
    def said(self) -> str:
        return self.log.read_bytes()[self._begin :].decode()

    @property
    def address(self) -> str:
        return f"unix:{self.crew.home}/foreman.sock"

    def wait_up(self) -> None:
        until(lambda: "listens at" in self.said or self.process.poll() is not None)
        assert self.process.poll() is None, self.said


class ManyForemen:
    """Foremen `f1`, `f2`, … and workers `w1`, `w2`, …, and a database."""

    def __init__(self, folder: Path, postgres: Postgres, foremen: int, workers: int, slots: int, grace: str) -> None:
        self.postgres = postgres
        self.store = postgres.url(f"crew_{folder.name.replace('-', '_')}")
        self.foremen = [
            ForemanMember(self._make_home(folder, name), name, self.store, grace)
            for name in (f"f{number}" for number in range(1, foremen + 1))
        ]
        for each in self.foremen:
            each.wait_up()
        self.crew = self._make_home(folder, "clients")
        self.crew.environment["GANDY_FOREMAN"] = ",".join(self.addresses)
        self.workers = []
        for name in (f"w{number}" for number in range(1, workers + 1)):
            home = self._make_home(folder, name)
            home.environment["GANDY_FOREMAN"] = ",".join(self.addresses)
            self.workers.append(Member(home, name, "worker", "run", "--name", name, "--slots", str(slots)))

    @staticmethod
    def _make_home(folder: Path, name: str) -> Crew:
        home = folder / name
        home.mkdir()
        return Crew(home)

    @property
    def addresses(self) -> list[str]:
        return [each.address for each in self.foremen]

    def client(self, *foremen: int) -> Client:
        """A client of these foremen, in this order; without numbers, of all."""
        return Client(",".join(self.addresses[number] for number in foremen or range(len(self.foremen))))

    def wait_workers(self) -> None:
        """Until every worker has a link to every foreman."""
        for number in range(len(self.foremen)):
            with self.client(number) as client:
                until(lambda client=client: sum(row.connected for row in client.workers()) == len(self.workers))  # type: ignore[misc]

    def end(self) -> None:
        for member in (*self.workers, *self.foremen):
            if member.process.poll() is None:
                member.end()


@contextmanager
def many_foremen(
    folder: Path, foremen: int = 3, workers: int = 2, slots: int = 2, grace: str = GRACE
) -> Iterator[ManyForemen]:
    postgres = Postgres.start()
    try:
        crew = ManyForemen(folder, postgres, foremen, workers, slots, grace)
        try:
            yield crew
        finally:
            crew.end()
    finally:
        postgres.stop()
