"""Sends viewers what they see. It decides nothing, and does nothing while there are no viewers.

However many viewers there are, and whatever they ask, making and sending updates takes at most a fiftieth of the
foreman's time: the more it takes, the longer it rests.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.live_view import LiveView
from gandy.core.records import Record
from gandy.core.refusal import Refusal
from gandy.core.requests import Answer, make_failure
from gandy.core.standing import Standing
from gandy.core.task_view import TaskViews, pack_table
from gandy.core.withdrawal import Withdrawal
from gandy.foreman.audience import Audience
from gandy.foreman.clock import ForemanClock
from gandy.foreman.messenger import Messenger
from gandy.foreman.request_queue import OpenRequest
from gandy.foreman.subscriptions import Token
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_VIEWERS, MAX_VIEWS

log = logging.getLogger("gandy.foreman")

UPDATE_PAUSE: Final = 0.1  # seconds between two updates, at least
REST: Final = 49  # times as long as updates took: the rest of the foreman's time is for its work
LONG_TURN: Final = 0.01  # seconds; after so long, other work comes before the next update

Part = tuple[JobId, TaskNumber]  # of the states of a job's tasks: those from one on


class Viewers:
    """Viewers of the shard, and of the tasks of single jobs."""

    def __init__(self, foreman: Foreman, standing: Standing, clock: ForemanClock, messenger: Messenger) -> None:
        self._foreman = foreman
        self._standing = standing
        self._clock = clock
        self._messenger = messenger
        self._crew = Audience(messenger)
        self.view: LiveView | None = None  # while the crew has viewers
        self._jobs: dict[JobId, Audience] = {}
        self._task_views = TaskViews(foreman.reactor.jobs.find)
        self._parts: dict[Part, Audience] = {}  # that are sent once
        self._counts: Counter[Link] = Counter()  # of viewers of the crew and of jobs
        self.loop: asyncio.Task[None] | None = None  # while there are viewers

    # Viewers come and go

    async def show(self, job: JobId | None, first: TaskNumber | None, request: OpenRequest) -> bool:
        """Answer when it is the request's turn. See `core.steps.Show`. Raises: Refusal."""
        if job is not None and first is not None:
            answered = self._add_reader(job, first, request)
        else:
            answered = self._add_viewer(job, request)
        if answered is None:
            return False
        if self.loop is None:
            self.loop = asyncio.create_task(self._send_updates())
        return await answered

    def _add_reader(self, job: JobId, first: TaskNumber, request: OpenRequest) -> asyncio.Future[bool] | None:
        """None: the job is not in memory. Raises: Refusal."""
        if self._foreman.reactor.jobs.find(job) is None:
            return None
        return self._parts.setdefault((job, first), Audience(self._messenger)).add(request)

    def _add_viewer(self, job: JobId | None, request: OpenRequest) -> asyncio.Future[bool] | None:
        """The same, for a request that events follow."""
        if self._counts[request.link] >= MAX_VIEWS:
            raise Refusal("refused", f"one link watches the crew and its jobs at most {MAX_VIEWS} times")
        audience = self._open_crew() if job is None else self._open_job(job)
        if audience is None:
            return None
        answered = audience.add(request)
        self._counts[request.link] += 1
        return answered

    def _open_crew(self) -> Audience:
        """Raises: Refusal."""
        if len(self._crew) >= MAX_VIEWERS:
            raise Refusal("refused", f"{MAX_VIEWERS:,} viewers look at this foreman already", retryable=True)
        if self.view is None:
            self.view = LiveView(self._foreman, self._standing)
        return self._crew

    def _open_job(self, job: JobId) -> Audience | None:
        if self._task_views.open(job) is None:
            return None
        return self._jobs.setdefault(job, Audience(self._messenger))

    def unfollow(self, token: Token) -> None:
        """The client wants no more events."""
        for audience in (self._crew, *self._jobs.values()):
            if token in audience:
                audience.discard(token)
                self._counts[token[0]] -= 1
        self._close_unused()

    def on_gone(self, link: Link) -> None:
        for audience in self._list_audiences():
            for token in audience.list_of(link):
                audience.discard(token)
        self._counts.pop(link, None)
        self._close_unused()

    def close(self) -> None:
        """The foreman stops."""
        if self.loop is not None:
            self.loop.cancel()

    def _list_audiences(self) -> list[Audience]:
        return [self._crew, *self._jobs.values(), *self._parts.values()]

    def _close_unused(self) -> None:
        """What no viewer sees is not made."""
        if self.view is not None and not self._crew:
            self.view.close()
            self.view = None
        for job in [job for job, audience in self._jobs.items() if not audience]:
            del self._jobs[job]
            self._task_views.close(job)
        self._parts = {part: audience for part, audience in self._parts.items() if audience}
        if self.loop is not None and not any(self._list_audiences()):
            self.loop.cancel()
            self.loop = None

    # What happens

    def on_records(self, records: Sequence[Record]) -> None:
        """These have been committed."""
        if self.view is not None:
            self._guard(partial(self.view.on_records, records))
        if self._task_views:
            self._guard(partial(self._task_views.on_records, records))

    def on_withdrawal(self, new: Withdrawal) -> None:
        """The store could not keep this."""
        self._guard(partial(self._take_back, new))

    def _take_back(self, new: Withdrawal) -> None:
        if self.view is not None:
            self.view.on_withdrawal(new)
        for job in self._task_views.on_withdrawal(new):
            self._end_job(job, make_failure("not_found", f"there is no job {job}"))

    def _guard(self, act: Callable[[], None]) -> None:
        """Do something for viewers. A bug in it ends their views, and nothing else."""
        try:
            act()
        except Exception as error:
            log.exception("viewers cannot be shown what happens: this is a bug in gandy")
            failure = make_failure("internal", f"the foreman has a bug, and its log says more: {type(error).__name__}")
            for audience in self._list_audiences():
                audience.end(failure)
            self._counts.clear()
            self._close_unused()

    # Updates

    async def _send_updates(self) -> None:
        """It is cancelled when the last viewer is gone."""
        while True:
            spent = 0.0
            for turn in self._list_turns():
                begin = read_monotonic()
                self._guard(turn)
                spent += read_monotonic() - begin
                if spent > LONG_TURN:
                    await asyncio.sleep(REST * spent)
                    spent = 0.0
            await asyncio.sleep(max(UPDATE_PAUSE, REST * spent))

    def _list_turns(self) -> list[Callable[[], None]]:
        jobs = [partial(self._send_job, job) for job in self._jobs]
        return [self._send_crew, *jobs, *(partial(self._send_part, part) for part in self._parts)]

    def _send_crew(self) -> None:
        if self.view is not None:
            now, shared_ahead = self._clock.now(), self._clock.find_shared_ahead()
            update = self.view.take(now, shared_ahead)
            self._crew.send(update, partial(self.view.make_whole, now, shared_ahead))

    def _send_job(self, job: JobId) -> None:
        view = self._task_views.find(job)
        if view is None:  # its last viewer has left since this turn was planned
            return
        update = view.take()
        if update is not None and update.is_final:
            self._end_job(job, update)
        else:
            self._jobs[job].send(update, view.make_whole)

    def _end_job(self, job: JobId, last: Answer) -> None:
        for link, _ in self._jobs[job].end(last):
            self._counts[link] -= 1
        self._close_unused()

    def _send_part(self, part: Part) -> None:
        audience = self._parts.get(part)
        if audience is None:
            return
        job, first = part
        active = self._foreman.reactor.jobs.find(job)
        if active is None:
            audience.dismiss()
        else:
            audience.send_once(partial(pack_table, job, active.tasks, first))
        self._close_unused()
