"""Checks a simulated crew now and then, and at its end: what waits too long, what has not ended, what was kept."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tests.sim.clients import JobClient, OpenJob, Submission
from tests.sim.laws import Law, Laws, require
from tests.sim.roundrobin_peers import find_unended
from tests.waiting import run_sync

from gandy.core.model import FINAL_JOB_STATES
from gandy.core.reactor import LONGEST_REFUSAL_PAUSE
from gandy.core.workers import PING_PONG
from gandy.doors.roundrobin.door import RoundRobinDoor
from gandy.ids import JobId, TaskNumber
from gandy.store.memory import MemoryStore

if TYPE_CHECKING:
    from tests.sim.crew import Crew

MAX_IDLE: Final = LONGEST_REFUSAL_PAUSE + 1.0  # seconds: the pause after refusals, and what a commit takes
MAX_LOOKS: Final = 3  # at which a call waits while a slot is free


class Overseer:
    """Checks the laws that are about time, and those about the end."""

    def __init__(self, crew: "Crew") -> None:
        self._crew = crew
        self._program = crew.program
        self._idle_since: dict[str, float] = {}
        self._looks = 0  # in a row, at which a call waited while a slot was free

    def look(self) -> None:
        self._check_idle()
        self._check_waiting_calls()
        self._check_patience()

    def _check_idle(self) -> None:
        """A connected, idle worker is offered a task that fits within the bound."""
        program, now = self._program, self._crew.simulation.now
        reactor = program.foreman.reactor
        if not program.is_up or program.standing.trouble:
            self._idle_since.clear()
            return
        ready = [job for job in reactor.jobs if job.may_start and job.at is None and job.tasks.find_ready(program.now)]
        since: dict[str, float] = {}
        for worker in reactor.workers if ready else ():
            if not worker.connected or worker.draining or worker.slots.by_tasks:
                continue
            if any(job.suits(worker) and worker.slots.free_for_tasks >= job.spec.slots for job in ready):
                moved = worker.last_moved - program.now + now
                since[worker.info.id] = max(self._idle_since.get(worker.info.id, now), moved)
        self._idle_since = since
        require(all(now - then <= MAX_IDLE for then in since.values()), Law.IDLE, since)

    def _check_waiting_calls(self) -> None:
        """Slots that tasks have left are for other tasks first, but not for long: calls do not wait for the disk."""
        try:
            self._program.foreman.switchboard.dispatcher.check()
            self._looks = 0
        except AssertionError:
            self._looks += self._program.is_up
        require(self._looks < MAX_LOOKS, Law.WAITING, f"at {self._looks} looks")

    def _check_patience(self) -> None:
        """A foreman that mixes up its clocks waits for hours."""
        plan, deadline = self._crew.plan, self._program.foreman.reactor.next_deadline()
        most = max(plan.grace, plan.look_ahead, LONGEST_REFUSAL_PAUSE) + 0.01  # nothing here has a longer time
        left = 0.0 if deadline is None else deadline - self._program.now
        require(left <= most, Law.PATIENCE, f"for {left:.3f} s")

    # What has not ended, as text; empty if everything has

    def find_unended(self) -> str:
        program = self._program
        if not program.is_up or program.is_committing or program.foreman.has_work or program.standing.trouble:
            return "the foreman works"
        for client in self._crew.clients:
            if client.is_waiting:
                return f"{client.name} waits for calls {client.calls}"
        unended = [job.id for job in program.foreman.reactor.jobs]
        return f"jobs {unended} have not ended" if unended else self._find_unended_calls()

    def _find_unended_calls(self) -> str:
        foreman = self._program.foreman
        for asker in self._crew.roundrobin_clients:
            if asker.asked:
                return f"{asker.name} waits for {asker.asked}"
        for socket in self._crew.doors:
            if isinstance(socket.door, RoundRobinDoor) and (left := find_unended(socket.door)):
                return left
        here = [worker.info.id for worker in foreman.reactor.workers if worker.info.id.startswith(PING_PONG)]
        if len(here) != len(self._crew.pingpong):
            return f"of the ping-pong workers only {here} are back"
        busy = [worker.info.id for worker in foreman.reactor.workers if worker.slots.by_calls]
        busy += [link.name for link in foreman.links.by_name.values() if link.peer.calls or link.peer.serves]
        busy += [machine.name for machine in self._crew.workers if not machine.is_idle]
        return f"{busy} have calls" if busy or foreman.switchboard.waiting.count else ""

    # The end

    def check_end(self) -> None:
        crew = self._crew
        check_end(crew.disk.store, crew.clients, crew.wishes.open_jobs, crew.laws)
        for wire, referee in crew.watched:
            require(wire.is_broken or not referee.owed, Law.PROTOCOL, f"a RESET dropped {referee.owed} on {wire.name}")


def check_end(store: MemoryStore, clients: Iterable[JobClient], open_jobs: Iterable[OpenJob], laws: Laws) -> None:
    """All jobs are final, and all that clients were told is so."""
    rows = run_sync(store.list_jobs(None, 1_000, None))
    names = Counter(row.spec.name for row in rows)
    require(len(rows) == len(names), Law.KEYED, f"several jobs have one name: {names.most_common(1)}")
    for submission in (submission for client in clients for submission in client.submissions):
        _check_submission(submission, submission.spec.name in names)
    for row in rows:
        require(row.state in FINAL_JOB_STATES, Law.ENDS, f"job {row.job} is {row.state.name}")
        tasks = [(row.job, TaskNumber(task)) for task in range(1, row.spec.tasks + 1)]
        laws.check_attempts(row.job, tasks, row.spec.retries)
    for open_job in open_jobs:
        if open_job.job is not None and open_job.is_closed and open_job.job not in laws.excused:
            _check_inputs(store, open_job.job, open_job.tasks)


def _check_inputs(store: MemoryStore, job: JobId, tasks: int) -> None:
    row = run_sync(store.find_job(job))
    is_whole = row is not None and (row.spec.tasks, row.spec.is_open) == (tasks, False)
    require(is_whole, Law.KEPT, f"job {job} of {tasks} tasks is {row}")
    lines = run_sync(store.read_lines(job, TaskNumber(1), tasks + 1))
    expected = [b"%d" % number for number in range(1, tasks + 1)]
    require(lines == expected, Law.KEPT, f"job {job} has the inputs {lines}")


def _check_submission(submission: Submission, is_there: bool) -> None:
    name = submission.spec.name
    if submission.job is not None:
        require(is_there, Law.KEPT, f"{name} was acknowledged, and is lost")
    elif submission.is_refused:
        require(not is_there, Law.KEPT, f"{name} was refused, and is in the store")
