"""What must hold in a crew, whatever happens to it. The laws see peers, the wire and the disk from outside.

Only `TABLES` asks the foreman itself, whose tables must agree after every step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from gandy.core.foreman import Foreman
from gandy.core.liveness import HEARTBEAT_EXPIRY
from gandy.core.model import FINAL_STATES, AttemptKey, Cause, JobSpec, TaskKey, TaskState
from gandy.core.reactor import Reactor
from gandy.core.records import Began, Claimed, Ended, JobAdded, Record, TasksSet
from gandy.core.workers import KnownWorker
from gandy.ids import JobId, TaskNumber
from gandy.talk.slots import Slots

CLOCK_ERROR: Final = 0.005  # seconds by which shared clocks may differ in these networks
MAX_TRIES: Final = 5  # of a repeatable call of a round-robin client whose workers are lost


class Law(StrEnum):
    """Names for people, and for the tests of foremen that break one."""

    TABLES = "the foreman's tables agree with one another"
    STORE_FIRST = "no peer knows what the store does not"
    KEPT = "an acknowledged job is kept, and a refused one is not there"
    ONCE = "a result is recorded once, and what finished does not run again"
    SLOTS = "a worker runs no more than it has slots for"
    ANSWERED = "each call ends once at its client, with its own result or a reason"
    RUNNING = "a task is called running only if its worker began it, and no more run than there are slots"
    RETRACTED = "a task that was retracted does not begin"
    BEGUN = "a call begins on one worker at most"
    ENDS = "all work ends when nothing goes wrong any more"
    IDLE = "no worker stays idle while a task that suits it waits"
    WAITING = "no call waits while a slot that it could have is free"
    RANK = "no task begins while one of higher rank could have had its worker"
    PROTOCOL = "no peer breaks the protocol, and none is refused"
    SILENCE = "no worker is cut for silence that spoke"
    TIME = "nothing begins before its time"
    LINKED = "no task begins before those that it needs have finished, and none is cancelled because of one that has"
    FENCE = "one process at a time commits for a shard, and none after it lost the shard"
    SPEECH = "a foreman says nothing for a shard that it lost, once workers know of the new owner"
    GRACE = "no attempt is lost while its worker is there"
    KEYED = "a job that is submitted again, anywhere, is the same job"
    OWNED = "every shard has an owner that is there"
    SHOWN = "a viewer is shown how the crew stands, and never again how it stood"
    BUG = "no process has a bug"
    PATIENCE = "the foreman waits no longer than it promises"


class BrokenLaw(AssertionError):
    """Something happened that never may."""

    def __init__(self, law: Law, text: str) -> None:
        super().__init__(f"{law}: {text}")
        self.law = law


def require(condition: bool, law: Law, text: object) -> None:
    """Raises: BrokenLaw."""
    if not condition:
        raise BrokenLaw(law, str(text))


class CallNote(Struct):
    """A call that some client made."""

    command: str
    is_repeatable: bool = False
    begun: int = 0


class Laws:
    """All that was seen of one crew."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}  # by the names of workers that say which tasks they have begun
        self.jobs: set[JobId] = set()  # that the store has
        self.linked: dict[JobId, JobSpec] = {}  # those that follow others task by task
        self.claimed: dict[AttemptKey, str] = {}  # by worker
        self.ended: dict[AttemptKey, TaskState] = {}
        self.finished: set[TaskKey] = set()
        self.runs: Counter[TaskKey] = Counter()  # on workers of every kind
        self.started: set[AttemptKey] = set()  # on workers that know attempts
        self.lost: set[AttemptKey] = set()  # with their workers, according to the disk; a worker may still have them
        self.retracted: set[TaskKey] = set()
        self.retried: set[JobId] = set()
        self.dismissed: set[str] = set()  # ids of workers that were to stop at once: what they had is tried again
        self.excused: set[JobId] = set()  # jobs that clients cancelled: what finished meanwhile may run again
        self.times: dict[str, float] = {}  # the shared times at which jobs may begin, by name
        self.begun_at: dict[str, list[float]] = {}  # true times, at which tasks of these began
        self.failures: Counter[TaskKey] = Counter()  # attempts that failed by themselves
        self.calls: dict[bytes, CallNote] = {}  # by token
        self.seen: Counter[str] = Counter()  # what has happened, so that tests can check what was tried
        self.is_there: Callable[[str], bool] = lambda _worker: False  # whether a worker is there that was not away long
        self._successes: dict[TaskKey, str] = {}  # with the worker of the last one

    # The foreman

    def check_tables(self, foreman: Foreman) -> None:
        try:
            foreman.check()
        except AssertionError as error:
            raise BrokenLaw(Law.TABLES, repr(error)) from error

        for worker in foreman.reactor.workers:
            self._check_running(worker, foreman.reactor)

    def _check_running(self, worker: KnownWorker, reactor: Reactor) -> None:
        if worker.held.begun and worker.info.reports_begun:
            require(
                worker.held.begun <= self.started, Law.RUNNING, f"{worker.info.id} did not begin {worker.held.begun}"
            )
            running = sum(worker.held[attempt].slots for attempt in worker.held.begun if attempt in reactor.owners)
            slots = self.slots[worker.info.name]
            require(
                running <= slots, Law.RUNNING, f"tasks run in {running} slots of {worker.info.id}, which has {slots}"
            )

    def on_silent(self, worker: str, silence: float) -> None:
        require(silence >= HEARTBEAT_EXPIRY, Law.SILENCE, f"{worker} spoke {silence:.3f} s ago")
        self.seen["silent"] += 1

    # The disk

    def on_commit(self, records: Sequence[Record], lost: frozenset[AttemptKey]) -> None:
        for record in records:
            match record:
                case JobAdded(job, spec):
                    self.jobs.add(job)
                    if spec.after_each:
                        self.linked[job] = spec
                case TasksSet(job, TaskState.CANCELLED, tasks) if job in self.linked and job not in self.excused:
                    self._check_cancelled(job, tasks)
                case Claimed(worker, attempts, _, state):
                    is_assigned = state is TaskState.ASSIGNED or worker.partition(".")[0] not in self.slots
                    require(is_assigned, Law.RUNNING, f"{worker} was only given {attempts}")
                    for attempt in attempts:
                        if attempt not in lost:
                            self._on_claimed(worker, attempt)
                case Began(worker, attempts):
                    require(self.started.issuperset(attempts), Law.RUNNING, f"{worker} did not begin {attempts}")
                    self.seen["task begun"] += len(attempts)
                case Ended():
                    self._on_ended(record)
                case _:
                    pass

    def _on_claimed(self, worker: str, attempt: AttemptKey) -> None:
        require(attempt not in self.claimed, Law.ONCE, f"{attempt} is claimed again")
        before = attempt._replace(attempt=attempt.attempt - 1)
        require(before in self.ended or before.attempt == 0, Law.ONCE, f"{attempt} begins, and {before} has not ended")
        require(attempt.task_key not in self.finished, Law.ONCE, f"{attempt} begins, and the task has finished")
        self.claimed[attempt] = worker
        if attempt.job in self.linked:
            missing = self._list_missing(attempt.task_key)
            require(not missing, Law.LINKED, f"{attempt} begins, and {missing} have not finished")
            self.seen["linked task"] += 1

    def _check_cancelled(self, job: JobId, tasks: tuple[TaskNumber, ...] | None) -> None:
        """No client asked for this."""
        spec = self.linked[job]
        wrong = [task for task in tasks or () if not self._list_missing((job, task))]
        require(not wrong or bool(spec.after), Law.LINKED, f"tasks {wrong} of job {job} are cancelled for no reason")
        self.seen["cancelled with its source"] += len(tasks or ())

    def _list_missing(self, task: TaskKey) -> list[TaskKey]:
        """What the task needs, and has not finished."""
        sources = ((source, task[1]) for source in self.linked[task[0]].after_each)
        return [source for source in sources if source not in self.finished]

    def _on_ended(self, record: Ended) -> None:
        attempt = record.attempt
        require(attempt in self.claimed, Law.STORE_FIRST, f"{attempt} ends, and was never claimed")
        require(attempt not in self.ended, Law.ONCE, f"{attempt} ends again")
        self.ended[attempt] = record.state
        self.seen[f"task {record.ending.cause.name}"] += 1
        self.failures[attempt.task_key] += record.ending.exit_code == 1
        if record.ending.cause is Cause.WORKER_LOST:
            self.lost.add(attempt)
            worker = self.claimed[attempt]
            require(not self.is_there(worker), Law.GRACE, f"{attempt} is lost, and {worker} is there")
        if record.state is TaskState.FINISHED:
            self.finished.add(attempt.task_key)

    # Workers

    def on_started(self, worker: str, attempt: AttemptKey) -> None:
        """A worker that knows attempts begins one."""
        require(attempt in self.claimed, Law.STORE_FIRST, f"{worker} begins {attempt}")
        require(attempt not in self.started, Law.ONCE, f"{attempt} begins again on {worker}")
        is_retracted = attempt.task_key in self.retracted and attempt.job not in self.retried
        require(not is_retracted or attempt in self.lost, Law.RETRACTED, f"{attempt} begins on {worker}")
        self.started.add(attempt)

    def on_timed(self, name: str, shared: float | None, now: float) -> None:
        """The first attempt at a task of a job with a time begins, by a worker's shared clock."""
        at = self.times.get(name)
        if at is not None:
            require(shared is not None and shared >= at - CLOCK_ERROR, Law.TIME, f"{name} begins at {shared} for {at}")
            self.begun_at.setdefault(name, []).append(now)
            self.seen["timed task"] += 1

    def check_line(self, task: int, line: str | None) -> None:
        require(line is None or line == f"line {task}", Law.KEPT, f"task {task} has the line {line!r}")

    def on_success(self, worker: str, attempt: AttemptKey) -> None:
        """A worker has recorded that a task succeeded, and comes back in time whatever happens to it."""
        task = attempt.task_key
        before = self._successes.get(task)
        if before is not None and before not in self.dismissed:
            require(attempt.job in self.excused, Law.ONCE, f"{attempt} ran on {worker}, and the task had gone well")
        self._successes[task] = worker

    def on_acknowledged(self, worker: str, attempt: AttemptKey) -> None:
        require(attempt in self.ended, Law.STORE_FIRST, f"{worker} hears that {attempt} is safe")

    def check_account(self, name: str, account: Slots, slots: int) -> None:
        """Either side of a conversation counts slots."""
        is_sound = 0 <= account.free <= account.limit <= slots
        require(is_sound, Law.SLOTS, f"{name} has {account.free} of {account.limit} of {slots} slots free")

    def check_slots(self, worker: str, busy: int, slots: int) -> None:
        require(busy <= slots, Law.SLOTS, f"{worker} runs {busy} in {slots} slots")

    def on_begun(self, worker: str, token: bytes, command: str) -> None:
        """A call begins on a worker."""
        note = self.calls.get(token)
        require(note is not None, Law.BEGUN, f"{worker} got a call that no client made: {token!r}")
        assert note is not None
        require(note.command == command, Law.BEGUN, f"{worker} got {token!r} as {command}, and it is {note.command}")
        note.begun += 1
        most = MAX_TRIES if note.is_repeatable else 1
        require(note.begun <= most, Law.BEGUN, f"{token!r} begins again on {worker}")

    # Clients

    def make_token(self, command: str, is_repeatable: bool = False) -> bytes:
        token = b"%d" % (len(self.calls) + 1)
        self.calls[token] = CallNote(command, is_repeatable)
        return token

    def on_submitted(self, job: JobId) -> None:
        require(job in self.jobs, Law.STORE_FIRST, f"a client hears of job {job}")

    def on_retracted(self, job: JobId, tasks: Iterable[TaskNumber]) -> None:
        """A client hears that tasks had not begun and never will."""
        self.retracted.update((job, task) for task in tasks)
        self.seen["retracted task"] += len(list(tasks))

    def check_attempts(self, job: JobId, tasks: Iterable[TaskKey], retries: int) -> None:
        """At the end, by what the disk saw: attempts follow one another, and only the last one is final."""
        by_task: dict[TaskKey, list[AttemptKey]] = {}
        for attempt in sorted(self.claimed):
            by_task.setdefault(attempt.task_key, []).append(attempt)
        is_plain = job not in self.excused | self.retried
        for task in tasks:
            attempts = by_task.get(task, [])
            self._check_order(task, attempts, is_plain)
            if attempts and is_plain:
                most = retries + (self.ended[attempts[-1]] is TaskState.FAILED)
                is_right = self.failures[task] == most if most > retries else self.failures[task] <= most
                require(is_right, Law.ONCE, f"{task} with {retries} retries failed {self.failures[task]} times")

    def _check_order(self, task: TaskKey, attempts: list[AttemptKey], is_plain: bool) -> None:
        if attempts:
            numbers = [attempt.attempt for attempt in attempts]
            require(numbers == list(range(1, len(numbers) + 1)), Law.ONCE, f"{task} has the attempts {numbers}")
            unended = [attempt for attempt in attempts if attempt not in self.ended]
            require(not unended, Law.ENDS, f"{unended} never ended")
            early = [attempt for attempt in attempts[:-1] if self.ended[attempt] in FINAL_STATES]
            require(not early or not is_plain, Law.ONCE, f"{early} are final, but further attempts follow")
