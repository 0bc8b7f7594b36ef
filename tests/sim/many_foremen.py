"""A whole crew with many foremen, on simulated time: a database, foremen, workers and clients, from one seed.

For twelve seconds clients want things and everything fails: processes are killed, stopped and drained, machines die,
any two parties are cut off from one another, and the database restarts. Then nothing fails any more, all shards must
have owners, and all work must end. Foremen and workers are the real programs (`hosts.py`, `worker_process.py`).

To replay a seed that broke a law: `python -m tests.sim.many_foremen SEED`.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Final

from msgspec import Struct
from tests.sim.crew_clients import CrewClient
from tests.sim.database import SITE, Database, DatabaseFaults
from tests.sim.garbage import freed_at_the_end
from tests.sim.hosts import ForemanProcess
from tests.sim.laws import BrokenLaw, Law, Laws
from tests.sim.network import End, LinkFaults, Network, Wire
from tests.sim.overseer import check_end
from tests.sim.process_loop import simulate_machine
from tests.sim.trouble import Fault
from tests.sim.viewers import CrewViewer, few_updates_for_viewers
from tests.sim.wishes import COMMANDS, JobWishes, Wish
from tests.sim.worker_process import WorkerProcess
from tests.sim.workers import WorkerLuck
from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.policy import Policy
from gandy.core.rows import JobRow
from gandy.foreman.server import Server
from gandy.ids import JobId
from gandy.testing.simulation import Simulation

HORIZON: Final = 10.0  # seconds in which clients want something new
CLEAR: Final = 12.0  # seconds, then nothing fails any more
MAX_SECONDS: Final = 400.0  # by then all work must have ended: some crews have one slot, and tasks of many seconds
TICK: Final = 0.25  # seconds between two faults
CALM_TICK: Final = 0.5
RELEASE_PERIOD: Final = 5.0  # seconds until a user releases a job again that is still held
LONGEST_CUT: Final = 8.0  # seconds: longer than a lease


class ManyPlan(Struct):
    """Chances are from 0 to 1, for each quarter of a second, unless a comment says otherwise."""

    faults: LinkFaults = LinkFaults()
    database: DatabaseFaults = DatabaseFaults()
    luck: WorkerLuck = WorkerLuck()
    grace: float = 30.0  # longer than it takes to notice silence
    foremen: int = 2
    workers: int = 2
    clients: int = 2
    jobs: int = 2  # of each client
    tasks: int = 5  # of each job, at most
    calls: int = 4  # of each client
    is_calm: bool = False
    kill: float = 0.0  # of a foreman
    machine: float = 0.0  # of a kill, that its machine dies too, so that nothing says so
    stop: float = 0.0  # of a foreman, for up to twice its lease
    drain: float = 0.0
    crash: float = 0.0  # of the database
    cut: float = 0.0  # of any two parties from one another
    trouble: float = 0.0  # of a worker, or a client
    has_spare: bool = False  # one foreman that was killed stays dead
    viewers: int = 0


def draw_many_plan(seed: int) -> ManyPlan:
    chance = Random(f"{seed} many")
    slow = chance.choice([0.002, 0.002, 0.05])
    lost = chance.choice([0.0, 0.0, 0.02, 0.1])
    return ManyPlan(
        faults=LinkFaults(max_delay=chance.choice([0.002, 0.01]), cut=chance.choice([0.0, 0.0, 0.01])),
        database=DatabaseFaults(slow, slow, lost / 2, lost, chance.choice([0.0, 0.5])),
        luck=WorkerLuck(task_seconds=chance.choice([0.1, 0.5, 3.0]), task_failure=chance.choice([0.0, 0.0, 0.2])),
        foremen=chance.choice([2, 2, 3, 4]),
        workers=chance.choice([1, 1, 2, 3]),
        clients=chance.choice([1, 2]),
        jobs=chance.choice([1, 2, 3]),
        tasks=chance.choice([1, 4, 8]),
        calls=chance.choice([0, 0, 6]),
        kill=chance.choice([0.0, 0.05, 0.1]),
        machine=chance.choice([0.0, 0.5]),
        stop=chance.choice([0.0, 0.0, 0.05]),
        drain=chance.choice([0.0, 0.0, 0.03]),
        crash=chance.choice([0.0, 0.0, 0.03]),
        cut=chance.choice([0.0, 0.0, 0.1]),
        trouble=chance.choice([0.0, 0.0, 0.04]),
        has_spare=chance.random() < 0.3,
        viewers=int(chance.random() < 0.0625),  # each takes half as long as all the rest
    )


class ManyWishes(JobWishes[CrewClient]):
    """Jobs run after jobs of any shard, and users change jobs of any shard."""

    def __init__(self, crew: "ManyForemenCrew") -> None:
        self._crew = crew
        slots = max((worker.slots for worker in crew.workers), default=0)
        super().__init__(crew.plan, crew.clients, slots, COMMANDS, HORIZON)

    def list_wishes(self) -> list[Wish[CrewClient]]:
        return [*super().list_wishes(), *[self._wait] * self._plan.jobs]

    def list_known(self, client: CrewClient) -> list[JobId]:
        return sorted(job for each in self._crew.clients for job in each.list_jobs())

    def list_workers(self) -> list[str]:
        return self.list_named()

    def list_named(self) -> list[str]:
        return [worker.id for worker in self._crew.workers]

    def _wait(self, client: CrewClient) -> None:
        jobs = self.list_known(client)
        if jobs:
            client.wait(client.random.choice(jobs))


class ComplaintHandler(logging.Handler):
    """Finds the warnings of real programs about peers that break the protocol: here all peers are real programs too."""

    COMPLAINTS = ("broke the protocol", "is cut: ")

    def __init__(self, on_complaint: Callable[[BrokenLaw], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_complaint = on_complaint

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(complaint in text for complaint in self.COMPLAINTS):
            self._on_complaint(BrokenLaw(Law.PROTOCOL, text))


class ManyForemenCrew:
    """`run` it, and every law was kept or `BrokenLaw` is raised."""

    database_class: type[Database] = Database  # tests of the laws have worse ones
    foreman_class: type[ForemanProcess] = ForemanProcess
    worker_class: type[WorkerProcess] = WorkerProcess

    def __init__(self, seed: int, plan: ManyPlan | None = None) -> None:
        simulate_machine()
        self.plan = plan = plan or draw_many_plan(seed)
        self.simulation = Simulation(seed)
        self.random = Random(f"{seed} crew")
        self.laws = Laws()
        self.network = Network(self.simulation, plan.faults)
        self.database = self.database_class(self.simulation, self.network, self.laws, plan.database)
        policy = Policy(grace=plan.grace, crash_limit=1_000)
        self.foremen = [self.foreman_class(self, number, policy) for number in range(1, plan.foremen + 1)]
        self._by_place = {foreman.place: foreman for foreman in self.foremen}
        self.workers = [self._make_worker(number) for number in range(1, plan.workers + 1)]
        self.clients = [
            CrewClient(self.simulation, self, self.laws, f"client{number}") for number in range(1, plan.clients + 1)
        ]
        self.viewers = [CrewViewer(self, f"viewer{number}") for number in range(1, plan.viewers + 1)]
        self.laws.is_there = self._is_there
        self.wishes = ManyWishes(self)
        self.bugs: list[BaseException] = []
        self._due: dict[str, float] = {}  # when foremen that are down start again
        self._spare = self.foremen[-1] if plan.has_spare else None
        self._release: dict[JobId, float] = {}  # when a user releases a held job again
        self.is_done = False
        self._start()

    def _make_worker(self, number: int) -> WorkerProcess:
        commands = COMMANDS if self.plan.calls else ()
        slots = self.random.choice([1, 2, 4])
        places = self._by_place
        return self.worker_class(self, self.laws, f"worker{number}", slots, self.plan.luck, commands, places)

    def _start(self) -> None:
        for actor in (*self.foremen, *self.workers, *self.clients, *self.viewers):
            actor.start()
        self.wishes.give()
        self.simulation.call_later(TICK, self._tick)

    @property
    def is_troubled(self) -> bool:
        """True while anything may fail."""
        return self.simulation.now < CLEAR

    def _is_there(self, worker: str) -> bool:
        """Nothing here keeps a worker away for longer than the grace period."""
        return any(each.is_up and each.id == worker for each in self.workers)

    # What processes need

    def find_listener(self, place: str) -> ForemanProcess:
        return self._by_place[place]

    def connect(self, origin: str, end: End) -> Wire:
        foreman = self.random.choice(self.foremen)
        foreman.check_reach(origin)
        return foreman.accept(origin, end, 0)

    @contextmanager
    def _hear_complaints(self) -> Iterator[None]:
        handler, logger = ComplaintHandler(self.bugs.append), logging.getLogger("gandy")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)

    def on_bug(self, bug: BaseException | str) -> None:
        self.bugs.append(BrokenLaw(Law.BUG, bug) if isinstance(bug, str) else bug)

    def check_server(self, server: Server) -> None:
        self.laws.check_tables(server.foreman)

    # Trouble

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance

    def _strike(self) -> None:
        plan = self.plan
        for foreman in self.foremen:
            if foreman.is_up:
                self._strike_foreman(foreman)
        if self._happens(plan.crash) and self.database.is_up:
            self.database.crash(self.random.choice([0.05, 1.0, 5.0]))
        if self._happens(plan.cut):
            self._cut_off()
        for worker in self.workers:
            if worker.is_up and self._happens(plan.trouble):
                self.laws.seen["worker killed"] += 1
                faults: list[Fault] = [worker.kill, worker.doom, partial(worker.stop_for, 2.0)]
                self.random.choice(faults)()
        for client in self.clients:
            if self._happens(plan.trouble):
                client.cut()

    def _strike_foreman(self, foreman: ForemanProcess) -> None:
        plan, seen = self.plan, self.laws.seen
        if self._happens(plan.kill):
            seen["foreman killed"] += 1
            with_machine = self._happens(plan.machine)
            faults: list[Fault] = [foreman.doom, partial(foreman.kill, with_machine)]
            self.random.choice(faults)()
        if self._happens(plan.stop):
            seen["foreman stopped for a while"] += 1
            foreman.stop_for(self.random.choice([1.0, 5.5, 7.0, 12.0]))
        if self._happens(plan.drain):
            drain = partial(self.random.choice(self.clients).drain, foreman.id)
            ways: list[Fault] = [foreman.stop, drain]
            self.random.choice(ways)()

    def _cut_off(self) -> None:
        """For a while, nothing comes through from one party to another, or neither way."""
        parties = [SITE, *(actor.name for actor in (*self.foremen, *self.workers, *self.clients))]
        one = self.random.choice(self.foremen).name
        other = self.random.choice([party for party in parties if party != one])
        ways = {(one, other), (other, one)}
        if self._happens(0.5):
            ways = {self.random.choice(sorted(ways))}
        self.laws.seen["cut off"] += 1
        self.network.cuts |= ways
        seconds = self.random.uniform(0.0, LONGEST_CUT)
        self.simulation.call_later(seconds, lambda: self.network.cuts.difference_update(ways))

    def _start_again(self, is_clear: bool) -> None:
        """What is down starts again, after a while."""
        now = self.simulation.now
        for actor in (*self.foremen, *self.workers):
            if actor.is_up:
                self._due.pop(actor.name, None)
            elif actor is not self._spare or not is_clear:
                due = self._due.setdefault(actor.name, now + self.random.choice([0.1, 1.0, 8.0]))
                if now >= due or is_clear:
                    actor.start()

    def _clear_up(self) -> None:
        plan = self.plan
        self.network.faults = LinkFaults(max_delay=plan.faults.max_delay)
        self.network.cuts.clear()
        self.database.faults = DatabaseFaults(plan.database.max_delay, plan.database.max_commit)
        for row in self._list_jobs():
            if row.held and row.state not in FINAL_JOB_STATES and self._release.get(row.job, 0.0) < self.simulation.now:
                self._release[row.job] = self.simulation.now + RELEASE_PERIOD
                self.clients[0].change(ask.ReleaseJob(row.job))

    def _list_jobs(self) -> list[JobRow]:
        return run_sync(self.database.store.list_jobs(None, 1_000, None))

    # Running

    def _tick(self) -> None:
        is_clear = self.simulation.now >= CLEAR
        if is_clear:
            self._clear_up()
        else:
            self._strike()
        self._start_again(is_clear)
        self.is_done = is_clear and not self._find_unended()
        if not self.is_done:
            self.simulation.call_later(CALM_TICK if is_clear else TICK, self._tick)

    def _find_unended(self) -> str:
        """What has not ended, as text; empty if everything has."""
        stopped = [foreman.name for foreman in self.foremen if foreman.is_up and foreman.loop.is_stopped]
        if stopped or not self.database.is_up:
            return f"{stopped} or the database do nothing"
        for client in self.clients:
            if client.is_waiting:
                return f"{client.name} waits for {client.calls or client.waits or 'answers'}"
        unended = [
            (row.job, row.state.name, row.counts) for row in self._list_jobs() if row.state not in FINAL_JOB_STATES
        ]
        if unended:
            return f"jobs {unended} have not ended"
        alive = {foreman.id for foreman in self.foremen if foreman.is_up}
        lost = [shard for shard, row in self.database.shards.items() if not row.is_retired and row.owner not in alive]
        return f"shards {lost} have no owner" if lost else self._find_unseen()

    def _find_unseen(self) -> str:
        return next((lack for viewer in self.viewers if (lack := viewer.find_lack())), "")

    def run(self) -> None:
        """Raises: BrokenLaw."""
        try:
            with self._hear_complaints(), few_updates_for_viewers(bool(self.viewers)):
                self._run()
            check_end(self.database.store, self.clients, self.wishes.open_jobs, self.laws)
        except BaseException as broken:
            broken.add_note(f"seed {self.simulation.seed} at {self.simulation.now:.3f} s")
            raise
        finally:
            for process in (*self.foremen, *self.workers):
                process.loop.die()

    def _run(self) -> None:
        simulation, bugs = self.simulation, self.bugs
        while not self.is_done:
            if simulation.now > MAX_SECONDS:
                unended = self._find_unended()
                law = Law.SHOWN if unended == self._find_unseen() else Law.ENDS
                raise BrokenLaw(Law.OWNED if "owner" in unended else law, unended)
            simulation.step()
            if bugs:
                raise bugs[0]


def run_many(seeds: Iterable[int]) -> Counter[str]:
    """Returns what was seen, in all of them together. Raises: BrokenLaw."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        with freed_at_the_end():
            crew = ManyForemenCrew(seed)
            crew.run()
            seen.update(crew.laws.seen)
            del crew
    return seen


def write_many_transcript(seed: int) -> str:
    """One line for each message that arrived anywhere."""
    crew = ManyForemenCrew(seed)
    crew.network.transcript = []
    crew.run()
    return "\n".join(crew.network.transcript)


def main(seed: int) -> None:
    """Print what arrived when. Raises: BrokenLaw, if the seed breaks a law."""
    crew = ManyForemenCrew(seed)
    print(crew.plan)
    lines: list[str] = []
    crew.network.transcript = lines
    try:
        crew.run()
    finally:
        print(*lines, dict(crew.laws.seen), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
