"""Which tasks wait for tasks of other jobs: task by task, each for the one with the same number.

The job whose tasks are needed is a source, and the job that needs them a taker. A task that has finished stays so: what
has become ready is never taken back.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.model import FINAL_STATES, TaskState
from gandy.core.tasks import BLOCKED
from gandy.ids import JobId, TaskNumber

_MISSING: Final = 1
_NEVER: Final = 128  # more than a job can have sources
_MARKS: Final = bytes(
    {TaskState.FINISHED: 0, TaskState.FAILED: _NEVER, TaskState.CANCELLED: _NEVER}.get(state, _MISSING)  # type: ignore[call-overload]
    for state in range(256)
)
_BAD: Final = frozenset({TaskState.FAILED, TaskState.CANCELLED})


class SourceJob(Struct, frozen=True):
    """What is known of a source that is not in this foreman's memory: the state of each task, a byte each."""

    states: bytes
    is_final: bool

    def find_state(self, task: TaskNumber) -> TaskState:
        """A task that a final job does not have will never finish."""
        if task <= len(self.states):
            return TaskState(self.states[task - 1])
        return TaskState.CANCELLED if self.is_final else TaskState.WAITING

    def mark(self, count: int) -> bytes:
        """What so many tasks have to wait for, a byte each: nothing, this source, or what never comes."""
        rest = _NEVER if self.is_final else _MISSING
        return self.states[:count].translate(_MARKS) + bytes([rest]) * (count - len(self.states))


NO_SOURCES: Final[Mapping[JobId, SourceJob]] = MappingProxyType({})
UNKNOWN: Final = SourceJob(b"", is_final=False)

Changed = tuple[ActiveJob, list[TaskNumber]]  # a taker, and its tasks that can never start


class Linking:
    """Knows the takers of each source, and blocks their tasks until their sources have finished."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs
        self._takers: dict[JobId, set[JobId]] = {}
        self._elsewhere: dict[JobId, SourceJob] = {}  # sources that are not here, as their takers know them

    def link(
        self, job: ActiveJob, tasks: Iterable[TaskNumber] | None, known: Mapping[JobId, SourceJob]
    ) -> list[TaskNumber]:
        """Block those of the tasks, which wait, whose sources have not finished. None: all that wait.

        A source that is neither here nor `known` has finished. Returns the tasks that can never start.
        """
        found = [self._watch(job, source, known) for source in job.spec.after_each]
        sources = [source for source in found if source is not None]
        if not sources:
            return []
        if tasks is None and job.tasks.fresh == job.tasks.count and all(map(_is_untouched, sources)):
            job.tasks.block_all(len(sources))
            return []
        hopeless: list[TaskNumber] = []
        marks = [source.mark(job.tasks.count) for source in sources]
        for task in list(job.tasks.in_states(TaskState.WAITING)) if tasks is None else tasks:  # perhaps a million
            missing = sum([mark[task - 1] for mark in marks])
            if missing >= _NEVER:
                hopeless.append(task)
            elif missing:
                job.tasks.block(task, missing)
        return hopeless

    def drop_hopeless(
        self, job: ActiveJob, tasks: Iterable[TaskNumber], known: Mapping[JobId, SourceJob]
    ) -> list[TaskNumber]:
        """Those of the tasks that could start, now or when their sources have finished."""
        found = [self._find(source, known) for source in job.spec.after_each]
        sources = [source for source in found if source is not None]
        return [task for task in tasks if not any(source.find_state(task) in _BAD for source in sources)]

    def pass_on(self, job: ActiveJob) -> Iterator[Changed]:
        """Let the takers know which tasks of a job have just ended."""
        ended, job.just_ended = job.just_ended, []
        finished = [task for task in ended if job.tasks.state(task) is TaskState.FINISHED]
        bad = [task for task in ended if job.tasks.state(task) in _BAD]
        return self._pass_on(job.id, finished, bad)

    def on_final(self, job: ActiveJob) -> Iterator[Changed]:
        """A job is final, and all its ends are passed on: tasks that it does not have will never finish."""
        self.drop(job)
        return self._end(job.id, job.tasks.count)

    def drop(self, job: ActiveJob) -> None:
        """A job leaves the memory: it needs no tasks any more."""
        for source in job.spec.after_each:
            takers = self._takers.get(source, set())
            takers.discard(job.id)
            if not takers:
                self._takers.pop(source, None)
                self._elsewhere.pop(source, None)

    def list_elsewhere(self) -> list[JobId]:
        """Sources that are not here, and have not ended as far as their takers know."""
        return list(self._elsewhere)

    def on_states(self, source: JobId, found: SourceJob) -> Iterator[Changed]:
        """How the tasks of a source stand now that is not here."""
        before = self._elsewhere.get(source)
        if before is None:
            return
        self._elsewhere[source] = found
        new = [task for task in _list_ended(found.states) if before.find_state(task) not in FINAL_STATES]
        finished = [task for task in new if found.find_state(task) is TaskState.FINISHED]
        yield from self._pass_on(source, finished, [task for task in new if found.find_state(task) in _BAD])
        if found.is_final:
            del self._elsewhere[source]
            yield from self._end(source, len(found.states))

    def _watch(self, taker: ActiveJob, number: JobId, known: Mapping[JobId, SourceJob]) -> SourceJob | None:
        """The source, of which the taker hears from now on."""
        source = self._find(number, known)
        here = self._jobs.find(number)
        if here is not None:
            here.has_takers = True
        elif source is not None and not source.is_final:
            self._elsewhere[number] = source
        if source is not None and not source.is_final:
            self._takers.setdefault(number, set()).add(taker.id)
        return source

    def _find(self, number: JobId, known: Mapping[JobId, SourceJob]) -> SourceJob | None:
        """What takers know of a source. All of them know the same, so that none hears of an end twice."""
        here = self._jobs.find(number)
        if here is not None:
            return SourceJob(here.tasks.copy_states(TaskNumber(1), here.tasks.count), is_final=False)
        return self._elsewhere.get(number) or known.get(number)

    def _pass_on(self, source: JobId, finished: list[TaskNumber], bad: list[TaskNumber]) -> Iterator[Changed]:
        for taker in self._list_takers(source):
            for task in finished:
                if task in taker.tasks:
                    taker.tasks.unblock(task)
            waiting = [task for task in bad if task in taker.tasks and taker.tasks.state(task) is TaskState.WAITING]
            yield taker, waiting

    def _end(self, source: JobId, count: int) -> Iterator[Changed]:
        for taker in self._list_takers(source):
            yield taker, [task for task in taker.tasks.in_states(BLOCKED) if task > count]
        self._takers.pop(source, None)

    def _list_takers(self, source: JobId) -> list[ActiveJob]:
        return [self._jobs.get(taker) for taker in sorted(self._takers.get(source, ()))]

    def check(self) -> None:
        """What must hold after every step; for tests."""
        for source, takers in self._takers.items():
            here = self._jobs.find(source)
            assert takers
            assert source in self._elsewhere if here is None else here.has_takers and not here.just_ended
            assert all(source in self._jobs.get(taker).spec.after_each for taker in takers)
        for job in self._jobs:
            known = [found for each in job.spec.after_each if (found := self._find(each, NO_SOURCES)) is not None]
            for task in job.tasks.in_states(TaskState.WAITING):
                assert all(each.find_state(task) is TaskState.FINISHED for each in known)


def _is_untouched(source: SourceJob) -> bool:
    return not source.is_final and source.states.count(int(TaskState.WAITING)) == len(source.states)


def _list_ended(states: bytes) -> Iterator[TaskNumber]:
    for number, state in enumerate(states, 1):
        if state in FINAL_STATES:
            yield TaskNumber(number)
