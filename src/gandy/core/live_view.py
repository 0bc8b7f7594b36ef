"""What viewers see of one shard: jobs, workers, commands and attempts. It exists while a viewer looks.

An update is made once for all viewers, whatever their number. It shows what the foreman has decided, which may be a few
milliseconds before the store has it; after a crash every viewer gets everything anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from gandy.core.call_meter import CallMeter
from gandy.core.foreman import Foreman
from gandy.core.job_view import JobView
from gandy.core.records import Record
from gandy.core.rows import CHARACTER_BYTES, ROW_BYTES, take_page
from gandy.core.spans import Spans
from gandy.core.standing import Standing
from gandy.core.views import CommandGlance, CrewUpdate, Totals, WorkerGlance
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import KnownWorker
from gandy.limits import MAX_GLANCES, MAX_PAGE, MAX_TEXT
from gandy.moments import LONG_AGO, Monotonic

QUIET_SECONDS: Final = 5.0  # of silence that are usual for a worker: it sends a heartbeat more often
MANY_WORKERS: Final = 200  # looking at more of them, in every update, would take a part of the foreman's time
LOOK_PERIOD: Final = 1.0  # seconds between two looks at so many


class LiveView:
    """`on_records` after each commit; `take` gives what has changed since the last `take`."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing
        self._jobs = JobView(foreman.reactor.jobs)
        self._workers: dict[str, WorkerGlance] = {}
        self._commands: dict[str, CommandGlance] = {}
        self._commands = {glance.name: glance for glance in self._list_commands()}
        self._looked_at = LONG_AGO  # at the workers
        self._spans = Spans(foreman.reactor.workers, foreman.reactor.clocks.wall_ahead)
        self._totals = Totals()
        self._last: tuple[object, ...] = ()  # what else viewers know
        self._meter = foreman.switchboard.output.meter = CallMeter()

    def close(self) -> None:
        self._foreman.switchboard.output.meter = None

    def on_records(self, records: Sequence[Record]) -> None:
        """These have been committed."""
        self._spans.on_records(records, self._totals)
        self._jobs.on_records(records)

    def on_withdrawal(self, new: Withdrawal) -> None:
        """The store could not keep this, and the foreman has taken it back."""
        self._jobs.on_withdrawal(new)

    # Updates

    def make_whole(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate:
        """All that there is to see, for a viewer that has just come."""
        table = self._foreman.reactor.workers
        workers = (_describe_worker(worker, now) for worker in islice(table, MAX_PAGE))
        return replace(
            self._make(now, shared_ahead),
            is_whole=True,
            jobs=self._jobs.list_all(),
            workers=tuple(take_page(workers, MAX_PAGE, _weigh_worker)),
            commands=tuple(self._list_commands()),
            spans=self._spans.list_running(),
            calls=self._meter.list_running(),
        )

    def take(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate | None:
        """What has changed since the last time; None if nothing has."""
        jobs, forgotten = self._jobs.take()
        workers, left = self._take_workers(now)
        commands, gone = self._take_commands()
        wall_ahead = self._foreman.reactor.clocks.wall_ahead
        spans, skipped = self._spans.take(wall_ahead)
        calls = self._meter.take(now, wall_ahead)
        before, self._last = self._last, self._list_others()
        is_same = before == self._last and not skipped
        if is_same and not any((jobs, forgotten, workers, left, commands, gone, spans, calls)):
            return None
        return replace(
            self._make(now, shared_ahead),
            jobs=jobs,
            forgotten=forgotten,
            workers=workers,
            left=left,
            commands=commands,
            gone=gone,
            spans=spans,
            skipped=skipped,
            calls=calls,
        )

    def _list_others(self) -> tuple[object, ...]:
        """What may change by itself: without a job, a worker or a command."""
        board, reactor, standing = self._foreman.switchboard, self._foreman.reactor, self._standing
        return standing.trouble, standing.shards, len(reactor.jobs), board.waiting.count

    def _make(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate:
        counts = self._jobs.counts
        return CrewUpdate(
            at=self._foreman.reactor.clocks.stamp(now),
            shard=self._foreman.shard,
            waiting=counts.waiting,
            assigned=counts.assigned,
            running=counts.running,
            unfinished=len(self._foreman.reactor.jobs),
            calls_waiting=self._foreman.switchboard.waiting.count,
            totals=replace(self._totals),
            trouble=self._standing.trouble[:MAX_TEXT],
            shared_ahead=shared_ahead,
            shards=self._standing.shards,
            foremen=self._standing.foremen,
            version=self._standing.version,
        )

    # Workers

    def _take_workers(self, now: Monotonic) -> tuple[tuple[WorkerGlance, ...], tuple[str, ...]]:
        """The workers that changed, as many as fit, and the ids of those that are not listed any more."""
        table = self._foreman.reactor.workers
        if len(table) > MANY_WORKERS and now - self._looked_at < LOOK_PERIOD:
            return (), ()
        self._looked_at = now
        self._meter.look(self._foreman.switchboard.dispatcher.offers.workers.values(), now)
        before = self._workers
        glances = [_describe_worker(worker, now) for worker in islice(table, MAX_PAGE)]
        changed = take_page((each for each in glances if each != before.get(each.id)), MAX_PAGE, _weigh_worker)
        self._workers = {each.id: before[each.id] for each in glances if each.id in before}
        self._workers.update((each.id, each) for each in changed)
        left = tuple(before.keys() - self._workers.keys())
        self._follow_attempts(self._workers.keys() - before.keys(), left)
        return tuple(changed), left

    def _follow_attempts(self, new: Iterable[str], left: Iterable[str]) -> None:
        for name in new:
            worker = self._foreman.reactor.workers.find(name)
            assert worker is not None, "it was just listed"
            self._spans.on_worker(worker)
        for name in left:
            self._spans.on_left(name)

    # Commands

    def _take_commands(self) -> tuple[tuple[CommandGlance, ...], tuple[str, ...]]:
        """The commands that changed, and the names of those that are not listed any more."""
        before = self._commands
        self._commands = {glance.name: glance for glance in self._list_commands()}
        changed = tuple(glance for name, glance in self._commands.items() if glance is not before.get(name))
        self._totals.calls += sum(_count_new(glance, before.get(glance.name)) for glance in changed)
        return changed, tuple(before.keys() - self._commands.keys())

    def _list_commands(self) -> Iterator[CommandGlance]:
        """Those that are as they were are the same objects as before."""
        known = self._foreman.switchboard.dispatcher.offers.commands.values()
        shown = (command for command in known if command.offers or command.queue or command.ended)
        for command in islice(shown, MAX_GLANCES):
            name = command.name.decode(errors="replace")
            now = (name, len(command.offers), len(command.queue), command.ended, command.failed)
            before = self._commands.get(name)
            if before is not None and now == (name, before.workers, before.waiting, before.ended, before.failed):
                yield before
            else:
                yield CommandGlance(*now, command.list_buckets())


def _describe_worker(worker: KnownWorker, now: Monotonic) -> WorkerGlance:
    info, silence = worker.info, now - worker.last_heard
    return WorkerGlance(
        info.id,
        info.name,
        worker.all_slots,
        worker.slots.busy,
        len(worker.held.begun),
        len(worker.held) - len(worker.held.begun),
        len(worker.serves),
        worker.connected,
        worker.draining,
        float(int(silence)) if silence > QUIET_SECONDS else 0.0,
        worker.problem,
        tuple(sorted(info.tags)),
        info.version,
        worker.knows_time,
        worker.machine_now,
    )


def _weigh_worker(glance: WorkerGlance) -> int:
    return ROW_BYTES + CHARACTER_BYTES * sum(map(len, (glance.id, glance.name, glance.problem, *glance.tags)))


def _count_new(now: CommandGlance, before: CommandGlance | None) -> int:
    """Calls that have ended since. A command that was not offered for a while is counted anew."""
    return now.ended if before is None or before.ended > now.ended else now.ended - before.ended
