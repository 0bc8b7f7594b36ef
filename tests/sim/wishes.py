"""What the clients of a simulated crew want: jobs and calls of every kind, and what users do to jobs and workers."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from tests.roundrobin import COPY, FEED, ONCE
from tests.sim import pingpong_peers
from tests.sim.clients import JobClient, OpenJob
from tests.sim.plan import HORIZON
from tests.sim.roundrobin_peers import NAMES
from tests.sim.workers import GandyWorker

from gandy.core import requests as ask
from gandy.core.model import JobSpec
from gandy.ids import JobId, TaskNumber

if TYPE_CHECKING:
    from tests.sim.crew import Crew

C = TypeVar("C", bound=JobClient)

COMMANDS: Final = (*NAMES.values(), "wide")  # of gandy workers

Wish = Callable[[C], None]


class Amount(Protocol):
    """How much each client wants."""

    @property
    def jobs(self) -> int: ...

    @property
    def tasks(self) -> int:
        """Of each job, at most."""

    @property
    def calls(self) -> int: ...

    @property
    def is_calm(self) -> bool:
        """Clients let everything end, and users do nothing to jobs and workers."""


class JobWishes(Generic[C]):
    """What all clients want of gandy workers, within the first seconds."""

    def __init__(self, plan: Amount, clients: Sequence[C], slots: int, commands: Sequence[str], horizon: float) -> None:
        """`slots`: of the largest worker; 0: there are none."""
        self._plan = plan
        self._clients = clients
        self._slots = slots
        self._commands = commands
        self._horizon = horizon
        self.open_jobs: list[OpenJob] = []

    def give(self) -> None:
        for client in self._clients:
            for wish in self.list_wishes():
                delay = client.random.uniform(0.0, self._horizon) * client.random.choice([0.1, 1.0])
                client.call_later(delay, lambda wish=wish, client=client: wish(client))  # type: ignore[misc]

    def list_wishes(self) -> list[Wish[C]]:
        plan = self._plan
        wishes: list[Wish[C]] = []
        if self._slots:
            wishes += [self._submit] * plan.jobs
            wishes += [self._open_job] * (plan.jobs > 1)
            wishes += [self._interfere] * (0 if plan.is_calm else plan.jobs)
        if self._commands:
            wishes += [self._call] * plan.calls
        return wishes

    def list_known(self, client: C) -> list[JobId]:
        """Jobs that the client knows of."""
        return client.list_jobs()

    def list_workers(self) -> list[str]:
        """The ids of all workers that foremen know now."""
        raise NotImplementedError

    def _submit(self, client: C) -> None:
        chance, known = client.random, self.list_known(client)
        shared = client.clock.read() if chance.random() < 0.5 else None
        followed = self._choose_followed(client) if chance.random() < 0.2 else None
        spec = JobSpec(
            command="true",
            tasks=chance.randint(1, self._plan.tasks) if followed is None else followed[1],
            retries=chance.randint(0, 2),
            retry_pause=0.05,
            slots=chance.choice([1, 1, self._slots]) if shared is None else 1,
            priority=chance.choice([0, 0, 5]),
            limit=chance.choice([None, None, 1]),
            held=chance.random() < 0.1,
            after=(chance.choice(known),) if known and chance.random() < 0.2 else (),
            after_any=(chance.choice(known),) if known and chance.random() < 0.1 else (),
            after_each=() if followed is None else (followed[0],),
            at=None if shared is None else shared + chance.choice([0.2, 2.5]),
        )
        has_lines = chance.random() < 0.2
        client.submit(spec, tuple(f"line {number + 1}" for number in range(spec.tasks)) if has_lines else ())

    def _choose_followed(self, client: C) -> tuple[JobId, int] | None:
        """A job of the client's own, and how many tasks it has."""
        known = [
            (each.job, each.spec.tasks) for each in client.submissions if each.job is not None and not each.spec.is_open
        ]
        return client.random.choice(known) if known else None

    def _open_job(self, client: C) -> None:
        job = OpenJob(client, client.random.randint(1, 8))
        self.open_jobs.append(job)
        job.begin()

    def _interfere(self, client: C) -> None:
        """What a user does to jobs and workers."""
        chance, jobs = client.random, self.list_known(client)
        if not jobs:
            return
        job = chance.choice(jobs)
        match chance.randrange(10):
            case 0:
                client.cancel(job)
            case 1:
                client.cancel(job, (TaskNumber(1), TaskNumber(3)))
            case 2 | 3:
                client.retry(job)
            case 4:
                client.change(ask.HoldJob(job))
            case 5:
                client.change(ask.ReleaseJob(job))
            case 6 | 7:
                client.retract(job, tuple(map(TaskNumber, range(1, 6))))
            case _:
                workers = sorted(self.list_workers())
                if workers:
                    client.stop_worker(chance.choice(workers), immediate=chance.random() < 0.5)

    def _call(self, client: C) -> None:
        if not client.is_welcome:
            return
        chance = client.random
        if self._plan.is_calm:
            client.call(chance.choice(self._commands))
            return
        number = client.call(
            chance.choice(self._commands),
            is_cast=chance.random() < 0.15,
            worker=self._choose_worker(client),
            in_seconds=chance.choice([0.1, 0.5]) if chance.random() < 0.2 else None,
            left_ms=chance.choice((0, 0, 0, 300)),
            is_large=chance.random() < 0.1,
        )
        if chance.random() < 0.15:
            client.call_later(chance.choice((0.0, 0.02, 0.3)), lambda: client.give_up(number))

    def _choose_worker(self, client: C) -> str:
        """A worker by name, or mostly none: then any worker will do."""
        named = self.list_named()
        return client.random.choice(named) if named and client.random.random() < 0.15 else ""

    def list_named(self) -> list[str]:
        """The ids of workers that can be called by name."""
        raise NotImplementedError


class Wishes(JobWishes[JobClient]):
    """The wishes of all clients of a single foreman, also of those of its doors."""

    def __init__(self, crew: "Crew") -> None:
        self._crew = crew
        commands = COMMANDS if crew.plan.gandy else tuple(NAMES.values()) if crew.roundrobin else ()
        slots = max((worker.slots for worker in crew.workers), default=0)
        named = [*commands, *(pingpong_peers.COMMAND for _ in crew.pingpong[:1])]
        super().__init__(crew.plan, crew.clients, slots, named, HORIZON)

    def give(self) -> None:
        super().give()
        for asker in self._crew.roundrobin_clients:
            for _ in range(self._plan.calls):
                code = asker.random.choice((COPY, ONCE, FEED))
                delay = asker.random.uniform(0.0, HORIZON)
                self._crew.simulation.call_later(delay, lambda code=code, asker=asker: asker.ask(code))  # type: ignore[misc]

    def list_workers(self) -> list[str]:
        return [worker.info.id for worker in self._crew.program.foreman.reactor.workers]

    def list_named(self) -> list[str]:
        return [worker.id for worker in self._crew.workers if isinstance(worker, GandyWorker)]
