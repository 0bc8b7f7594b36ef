"""Sends viewers what they see: each update is made once, for all of them. It decides nothing, and runs while they look.

A viewer that does not read fast enough misses updates, and then gets everything anew. However many there are, viewers
get at most a fiftieth of the foreman's time.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.live_view import LiveView
from gandy.core.records import Record
from gandy.core.refusal import Refusal
from gandy.core.requests import Answer, encode
from gandy.core.standing import Standing
from gandy.core.task_view import TaskViews
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.foreman.clock import ForemanClock
from gandy.foreman.messenger import Messenger
from gandy.foreman.subscriptions import Subscriptions, Token
from gandy.ids import JobId
from gandy.limits import MAX_VIEWER_BYTES, MAX_VIEWERS
from gandy.net.links import get_port

UPDATE_PAUSE: Final = 0.1  # seconds between two updates, at least
REST: Final = 49  # times as long as the last update took: the rest of the foreman's time is for its work


class Viewers:
    """Viewers of the crew, and of the tasks of single jobs."""

    def __init__(self, foreman: Foreman, standing: Standing, clock: ForemanClock, messenger: Messenger) -> None:
        self._foreman = foreman
        self._standing = standing
        self._clock = clock
        self._messenger = messenger
        self._crew: dict[Token, None] = {}
        self._view: LiveView | None = None
        self._tasks = Subscriptions()
        self._task_views = TaskViews(foreman.reactor.jobs.find)
        self._lagging: set[Token] = set()
        self._loop: asyncio.Task[None] | None = None

    def watch(self, job: JobId | None, token: Token) -> CrewUpdate | TaskUpdate | None:
        """What there is to see of the shard, or of a job; what changes follows as events. Raises: Refusal."""
        return self._watch_crew(token) if job is None else self._watch_tasks(job, token)

    def _watch_crew(self, token: Token) -> CrewUpdate:
        if len(self._crew) >= MAX_VIEWERS:
            raise Refusal("refused", f"{MAX_VIEWERS:,} viewers look at this foreman already", retryable=True)
        if self._view is None:
            self._view = LiveView(self._foreman, self._standing)
        self._crew[token] = None
        self._run()
        return self._make_whole(self._view)

    def _watch_tasks(self, job: JobId, token: Token) -> TaskUpdate | None:
        """None: the job is not in memory."""
        self._tasks.add(job, token)
        update = self._task_views.open(job)
        if update is None:
            self._tasks.discard(job, token)
        else:
            self._run()
        return update

    def on_records(self, records: Sequence[Record]) -> None:
        if self._view is not None:
            self._view.on_records(records)
        if self._task_views:
            self._task_views.on_records(records)

    def on_gone(self, link: Link) -> None:
        for token in [token for token in self._crew if token[0] is link]:
            del self._crew[token]
        self._tasks.forget_link(link)
        self._lagging = {token for token in self._lagging if token[0] is not link}

    def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()

    # Updates

    def _run(self) -> None:
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._send_updates())

    async def _send_updates(self) -> None:
        """Until the last viewer is gone."""
        pause = UPDATE_PAUSE
        while self._crew or self._tasks:
            await asyncio.sleep(pause)
            begin = read_monotonic()
            self._send_crew()
            self._send_tasks()
            self._messenger.flush()
            pause = max(UPDATE_PAUSE, REST * (read_monotonic() - begin))
        if self._view is not None:
            self._view.close()
            self._view = None

    def _send_crew(self) -> None:
        view = self._view
        if view is None:
            return
        if not self._crew:
            view.close()
            self._view = None
            return
        update = view.take(self._clock.now(), self._clock.find_shared_ahead())
        self._send(self._crew, update, lambda: self._make_whole(view))

    def _make_whole(self, view: LiveView) -> CrewUpdate:
        return view.make_whole(self._clock.now(), self._clock.find_shared_ahead())

    def _send_tasks(self) -> None:
        for job in self._task_views.list_jobs():
            tokens = self._tasks[job]
            update = self._task_views.take(job)
            is_final = update is not None and update.is_final
            if is_final:
                self._lagging.difference_update(tokens)
            self._send(tokens, update, partial(self._task_views.make_whole, job))
            if is_final or not tokens:
                self._task_views.close(job)
                self._tasks.forget_job(job)

    def _send(self, tokens: Collection[Token], update: Answer | None, make_whole: Callable[[], Answer]) -> None:
        """Send the same to many viewers, encoded once. Those that lagged and have caught up get everything anew."""
        recovered = [token for token in tokens if token in self._lagging and not is_behind(token)]
        if update is not None:
            self._send_encoded([token for token in tokens if token not in self._lagging], encode(update))
        if recovered:
            self._lagging.difference_update(recovered)
            self._send_encoded(recovered, encode(make_whole()))

    def _send_encoded(self, tokens: Iterable[Token], payload: bytes) -> None:
        for token in tokens:
            self._messenger.send_encoded(*token, payload)
            if is_behind(token):
                self._lagging.add(token)


def is_behind(token: Token) -> bool:
    """True if much of what was sent to a viewer waits in our memory."""
    return get_port(token[0]).unsent_bytes > MAX_VIEWER_BYTES
