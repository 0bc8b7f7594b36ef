"""A crew with many foremen over one PostgreSQL: each foreman and each worker is a process with a home of its own."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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

    def __init__(
        self, folder: Path, postgres: Postgres, foremen: int, workers: int, slots: int, grace: str, store: str
    ) -> None:
        self.postgres = postgres
        self.store = store or postgres.url(f"crew_{folder.name.replace('-', '_')}")
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
def a_crew_over(
    postgres: Postgres,
    folder: Path,
    foremen: int = 3,
    workers: int = 2,
    slots: int = 2,
    grace: str = GRACE,
    store: str = "",
) -> Iterator[ManyForemen]:
    """A crew over a database that is there. `store`: its URL, if it is not that of the server alone."""
    crew = ManyForemen(folder, postgres, foremen, workers, slots, grace, store)
    try:
        yield crew
    finally:
        crew.end()


@contextmanager
def many_foremen(
    folder: Path, foremen: int = 3, workers: int = 2, slots: int = 2, grace: str = GRACE
) -> Iterator[ManyForemen]:
    """A crew over a database of its own."""
    postgres = Postgres.start()
    try:
        with a_crew_over(postgres, folder, foremen, workers, slots, grace) as crew:
            yield crew
    finally:
        postgres.stop()


class Run(NamedTuple):
    """What a task wrote when it began, and when it ended."""

    job: int
    task: int
    attempt: int
    worker: int  # the process that started it


class Book:
    """A file to which every task writes a line when it begins, and one when it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def command(self, seconds: float) -> str:
        line = '"$GANDY_JOB $GANDY_TASK $GANDY_ATTEMPT $PPID'
        return f'echo {line} begins" >> {self.path}; sleep {seconds}; echo {line} ends" >> {self.path}'

    def read(self, what: str) -> Iterator[Run]:
        for line in self.path.read_text().splitlines():
            *numbers, word = line.split()
            if word == what:
                yield Run(*map(int, numbers))


def check_each_ran_once(book: Book, tasks: int) -> None:
    """Each task began once, whatever the number of the attempt: one that is given back does not begin."""
    began = Counter((run.job, run.task) for run in book.read("begins"))
    assert began.most_common(1)[0][1] == 1, began.most_common(3)
    assert Counter(book.read("begins")) == Counter(book.read("ends"))
    assert len(began) == tasks
