"""Viewers of a simulated crew with many foremen: each asks any foreman for all shards, and for some jobs' tasks.

It reads nothing for a while now and then, leaves, and comes back. When everything has ended, it must have been shown
how the foremen's tables and the database stand.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from msgspec.structs import astuple
from tests.sim.crew_clients import CrewClient
from tests.sim.laws import Law, require
from tests.waiting import run_sync

from gandy.client.conversation import Happened
from gandy.core import requests as ask
from gandy.core.model import FINAL_JOB_STATES, TaskState
from gandy.core.requests import Answer
from gandy.core.shards import NO_SHARD
from gandy.core.task_view import FIRST
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.foreman import audience, forwarder, viewers
from gandy.foreman.server import Server
from gandy.ids import JobId
from gandy.viewer.picture import Picture
from gandy.viewer.states import TaskStates

if TYPE_CHECKING:
    from tests.sim.many_foremen import ManyForemenCrew

LOOK_PERIOD: Final = 0.5  # seconds between two looks at what is not watched yet
UPDATE_PAUSE: Final = 0.5  # seconds between two updates of a foreman
SLOW_SECONDS: Final = 1.5  # for which it reads nothing, at most
FEW_BYTES: Final = 500  # that wait for a viewer here: an update or two
FEW_JOBS: Final = 2  # whose tasks it watches at a time
EVERYTHING: Final = 1_000  # tasks; more than any job has


@contextmanager
def few_updates_for_viewers(are_there: bool) -> Iterator[None]:
    """Updates are rare here, so that they cost little, and small; viewers must lag all the same."""
    if not are_there:
        yield
        return
    with (
        patch.object(audience, "MAX_VIEWER_BYTES", FEW_BYTES),
        patch.object(forwarder, "MAX_VIEWER_BYTES", FEW_BYTES),
        patch.object(viewers, "UPDATE_PAUSE", UPDATE_PAUSE),
    ):
        yield


class ShardView:
    """What comes for one request about a shard."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.has_all = False
        self.totals: tuple[int, ...] = ()


class JobStates:
    """What comes for one request about the tasks of a job."""

    def __init__(self, job: JobId) -> None:
        self.job = job
        self.has_all = False
        self.states = TaskStates()


class CrewViewer(CrewClient):
    """One viewer, over one link at a time."""

    def __init__(self, crew: "ManyForemenCrew", name: str) -> None:
        super().__init__(crew.simulation, crew, crew.laws, name)
        self.picture = Picture()
        self._crew = crew
        self._views: dict[int, ShardView | JobStates] = {}  # by the number of the request
        self._named: dict[int, tuple[int, ...]] = {}  # by shard: the shards that it named last
        self._seen: dict[JobId, TaskStates] = {}  # of jobs that have ended

    def start(self) -> None:
        super().start()
        self._look()

    def on_link_cut(self) -> None:
        self._views.clear()
        self._named.clear()
        super().on_link_cut()

    def _look(self) -> None:
        """Watch what is not watched, and now and then leave, or read nothing for a while."""
        self.call_later(LOOK_PERIOD, self._look)
        for client in (*self._crew.clients, *self._crew.viewers):
            if client.end is not None:
                client.end.wire.notify_drained()
        if not self.is_welcome:
            return
        if self._crew.is_troubled and self._views and self.happens(0.1):
            self._unwatch(self.random.choice(sorted(self._views)))
        if self._crew.is_troubled and self.happens(0.2):
            self._read_nothing()
        self._watch_shards()
        self._watch_jobs()

    def _watch_shards(self) -> None:
        """As `viewer.watcher` does."""
        wanted = {shard for named in self._named.values() for shard in named} or {NO_SHARD}
        views = {view.shard: number for number, view in self._views.items() if isinstance(view, ShardView)}
        for shard in sorted(views.keys() - wanted):
            self._unwatch(views[shard])
        self.picture.on_lost(sorted(self.picture.shards.keys() - wanted) if self._named else ())
        for shard in sorted(wanted - views.keys()):
            self._watch(ask.WatchCrew(shard), ShardView(shard))

    def _watch_jobs(self) -> None:
        watched = {view.job for view in self._views.values() if isinstance(view, JobStates)}
        known = (job for client in self._crew.clients for job in client.list_jobs())
        wanted = [job for job in dict.fromkeys(known) if job not in self._seen and job not in watched]
        for job in wanted[: max(0, FEW_JOBS - len(watched))]:
            self._watch(ask.WatchTasks(job), JobStates(job))

    def _watch(self, request: ask.WatchCrew | ask.WatchTasks, view: ShardView | JobStates) -> None:
        self.ask(request, lambda answer: self._take(number, answer), lambda: None)
        number = max(self._asked)
        self._views[number] = view

    def _unwatch(self, number: int) -> None:
        self.laws.seen["view left"] += 1
        self._forget(number)
        self.ask(ask.Unwatch(number), lambda _answer: None, lambda: None)

    def _forget(self, number: int) -> None:
        view = self._views.pop(number, None)
        if isinstance(view, ShardView):
            self._named.pop(view.shard, None)

    def _read_nothing(self) -> None:
        """Nothing comes through from any foreman for a while."""
        self.laws.seen["viewer slow"] += 1
        cuts = self._crew.network.cuts
        ways = {(foreman.name, self.name) for foreman in self._crew.foremen} - cuts
        cuts |= ways
        self.call_later(self.random.uniform(0.0, SLOW_SECONDS), lambda: cuts.difference_update(ways))

    # Updates

    def on_event(self, event: Happened) -> None:
        view = self._views.get(event.number)
        if view is not None:
            require(event.number not in self._asked, Law.SHOWN, f"an event comes before the answer to {event.number}")
            self._take(event.number, event.answer)

    def _take(self, number: int, answer: Answer) -> None:
        view = self._views.get(number)
        match answer:
            case CrewUpdate():
                if isinstance(view, ShardView):
                    self._take_crew(view, answer)
            case TaskUpdate():
                if isinstance(view, JobStates):
                    self._take_states(number, view, answer)
            case ask.RequestFailure():
                self._forget(number)  # it is watched again
            case _:
                pass

    def _take_crew(self, view: ShardView, update: CrewUpdate) -> None:
        self._check_whole(view, update.is_whole)
        totals = astuple(update.totals)
        has_fallen = any(new < old for old, new in zip(view.totals, totals, strict=False))
        require(not has_fallen, Law.SHOWN, f"{self.name} saw {view.totals} of shard {view.shard}, and now {totals}")
        view.totals = totals
        for glance in update.jobs:
            before = self.picture.jobs.get(glance.job)
            is_back = before is not None and before.state in FINAL_JOB_STATES and glance.state not in FINAL_JOB_STATES
            require(
                not is_back or update.is_whole or glance.job in self.laws.retried,
                Law.SHOWN,
                f"{self.name} saw the end of job {glance.job}, which is {glance.state.name} now",
            )
        self._named[view.shard] = update.shards
        if update.shard == view.shard:
            self.picture.apply(update, self.simulation.now)

    def _take_states(self, number: int, view: JobStates, update: TaskUpdate) -> None:
        self._check_whole(view, update.is_whole)
        view.states.apply(update)
        if update.is_final:
            del self._views[number]
            self._seen[view.job] = view.states
            self.laws.seen["tasks viewed"] += 1

    def _check_whole(self, view: ShardView | JobStates, is_whole: bool) -> None:
        require(is_whole or view.has_all, Law.SHOWN, f"{self.name} sees a change before everything")
        self.laws.seen["view anew"] += is_whole and view.has_all
        view.has_all = True

    # The end

    def find_lack(self) -> str:
        """What it does not see as it is, when everything has ended; empty if it sees it all."""
        rows = self._crew.database.shards
        servers = {
            server.shard.number: server
            for each in self._crew.foremen
            for server in (each.list_servers() if each.is_up else ())
            if (row := rows[server.shard.number]).owner == each.id and not row.is_retired
        }
        if self.picture.shards.keys() != servers.keys():
            return f"{self.name} sees {sorted(self.picture.shards)} of the shards {sorted(servers)}"
        for shard, server in servers.items():
            if lack := self._find_lack_of(shard, server):
                return f"{self.name} at shard {shard}: {lack}"
        return self._find_lack_of_jobs() or self._find_lack_of_states()

    def _find_lack_of(self, shard: int, server: Server) -> str:
        workers = {worker.info.id: worker.connected for worker in server.foreman.reactor.workers}
        seen = {name: glance.connected for name, glance in self.picture._workers.get(shard, {}).items()}
        if seen != workers:
            return f"it sees the workers {seen}, and there are {workers}"
        last = self.picture.shards[shard]
        numbers = last.unfinished, last.waiting, last.assigned, last.running
        return f"it sees {numbers} of what has ended" if any(numbers) else ""

    def _find_lack_of_jobs(self) -> str:
        # A viewer looks up those that it is unsure of. One that had ended, was retried and has ended again while it saw
        # nothing of the shard is shown as it had ended first.
        excused = self.picture.unsure | self.laws.retried
        for job, glance in self.picture.jobs.items():
            row = run_sync(self._crew.database.store.find_job(job))
            if job not in excused and (row is None or (row.state, row.counts) != (glance.state, glance.counts)):
                return f"{self.name} sees the job {glance}, and it is {row and (row.state, row.counts)}"
        running = [placed.span for placed in self.picture.lanes if placed.span.ended is None]
        return f"{self.name} sees {running} run" if running else ""

    def _find_lack_of_states(self) -> str:
        known = {job for client in self._crew.clients for job in client.list_jobs()}
        if unseen := known - self._seen.keys():
            return f"{self.name} has not seen the end of {sorted(unseen)}"
        for job, seen in self._seen.items():
            found = run_sync(self._crew.database.store.read_states(job, FIRST, EVERYTHING))
            if job not in self.laws.retried and (found is None or found[1] != seen.packed):
                return f"{self.name} sees the tasks {_name_states(seen.packed)} of job {job}, and they are {found}"
        return ""


def _name_states(packed: bytes | bytearray) -> list[str]:
    return [TaskState(state).name for state in packed]
