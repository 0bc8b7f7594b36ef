"""Sends every job of the crew that ends. The store is the queue: what waits for a slow collector is not read before.

Jobs are sent in the order in which they ended, one after the other, so that a few numbers say which have been sent.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from gandy.cli.trace.choice import choose
from gandy.cli.trace.foreman import SlowReader
from gandy.cli.trace.kept import KeptFile
from gandy.cli.trace.sender import Sender, TakesSpans
from gandy.cli.trace.sent import STEP_MARGIN, SentJobs
from gandy.cli.trace.spans import TracedJob, TraceSpan, has_ended, trace_attempt, trace_job
from gandy.cli.trace.waiting import WaitingJobs
from gandy.client.aio import AsyncClient
from gandy.clocks import read_monotonic
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.rows import JobRow
from gandy.errors import JobNotFound
from gandy.ids import JobId
from gandy.limits import MAX_WAITING_TRACES
from gandy.viewer.watcher import CrewWatcher

log = logging.getLogger("gandy.trace")

LOOKED_UP: Final = 100  # jobs, together
SAVE_SECONDS: Final = 2.0  # between two writes of the file: after a kill, what was sent since is sent again
EARLY_SECONDS: Final = 0.2  # updates may be ahead of the store: then jobs are looked up again after this time
SETTLE_SECONDS: Final = 1.0  # before all jobs are listed, for the same reason
LIST_SECONDS: Final = 600.0  # between two lists of all jobs, even if no update seems to be missing
LAST_SECONDS: Final = 2.0  # for the last batch, when we are told to stop


class Tracer:
    """`run` sends every job that ends, until it should stop."""

    def __init__(
        self,
        client: AsyncClient,
        collector: TakesSpans,
        kept: KeptFile,
        share: float | None,
        since: float,
        with_commands: bool,
        on_begin: Callable[[], None] = lambda: None,
    ) -> None:
        """`since`: seconds before now, for the first start. `on_begin`: from then on, no job that ends is missed.

        Raises: ConfigError: the file cannot be read.
        """
        self._kept = kept
        self._share = share
        self._since = since
        self._with_commands = with_commands
        self._on_begin = on_begin
        self._reader = SlowReader(client)
        self._watcher = CrewWatcher(client, self._on_change)
        self._sender = Sender(collector, self._on_sent)
        self._sent = kept.read()
        self._margin = STEP_MARGIN  # how far back to look if the foreman's clock was set back
        self._seen_at: dict[int, float] = {}  # by shard: the foreman's clock, as it was last
        self._ended: set[JobId] = set()  # by what the foremen tell; not looked up yet
        self._waiting = WaitingJobs()
        self._under_way: dict[JobId, float] = {}  # by end: jobs of which the collector may not have all spans
        self._changed = asyncio.Event()
        self._saved_at = read_monotonic()
        self._is_saved = True
        self._list_at = read_monotonic() + LIST_SECONDS

    async def run(self, should_stop: asyncio.Event) -> None:
        """Raises: what ended the work before it should stop."""
        work = [asyncio.create_task(each) for each in (self._watcher.run(), self._work())]
        stopping = asyncio.create_task(should_stop.wait())
        try:
            ended, _ = await asyncio.wait([stopping, *work], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in (*work, stopping):
                task.cancel()
            await asyncio.gather(*work, stopping, return_exceptions=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._sender.try_flush()
            self._save()

    # What has ended

    def _on_change(self) -> None:
        picture = self._watcher.picture
        changes = picture.take_changes()
        self._compare_clocks()
        for job in changes.jobs:
            if self._seems_ended(job):
                self._ended.add(job)
        if changes.is_new or (changes.jobs and read_monotonic() >= self._list_at):
            self._waiting.on_missed()
        if len(self._ended) > MAX_WAITING_TRACES:
            self._ended.clear()
            self._waiting.on_missed()
        self._changed.set()

    def _compare_clocks(self) -> None:
        for shard, update in self._watcher.picture.shards.items():
            now = float(update.at)
            if self._seen_at.get(shard) == now:
                continue
            self._seen_at[shard] = now
            if self._sent is None:
                self._sent = SentJobs(now - self._since)
                self._is_saved = False
                self._save()  # a kill must not make the next start the first one
            if self._sent.on_foreman_clock(now, self._margin):
                log.warning("the clock of the crew was set back; some jobs may be sent once more, with the same ids")
                self._waiting.on_missed()
            if self._margin:  # it is the first one
                self._margin = 0.0
                self._on_begin()

    # What is sent

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            if self._sent is not None and (self._ended or self._waiting or self._waiting.has_more):
                await self._send_some(self._sent)
                continue
            await self._sender.flush()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._is_saved else SAVE_SECONDS):
                    await self._changed.wait()
            self._save_if_due()

    async def _send_some(self, sent: SentJobs) -> None:
        if self._waiting:
            await self._send_jobs(sent, await self._reader.find_jobs(self._waiting.take(LOOKED_UP)))
        elif self._waiting.has_more:
            await self._list_ended(sent)
        else:
            await self._send_ended(sent)

    async def _send_ended(self, sent: SentJobs) -> None:
        """Those that the store has as ended, too; the others in a moment."""
        rows = await self._reader.find_jobs(self._take_ended())
        await self._send_jobs(sent, rows)
        early = [row.job for row in rows if not has_ended(row) and self._seems_ended(row.job)]
        if early:
            await asyncio.sleep(EARLY_SECONDS)
            self._ended.update(early)

    def _seems_ended(self, job: JobId) -> bool:
        glance = self._watcher.picture.jobs.get(job)
        return glance is not None and glance.state in FINAL_JOB_STATES

    def _take_ended(self) -> Sequence[JobId]:
        taken = sorted(self._ended)[:LOOKED_UP]
        self._ended.difference_update(taken)
        return taken

    async def _list_ended(self, sent: SentJobs) -> None:
        """Nothing is sent meanwhile: the store lists the newest first, and what ended first must be sent first."""
        await asyncio.sleep(SETTLE_SECONDS)
        self._list_at = read_monotonic() + LIST_SECONDS
        self._waiting.begin_listing()
        is_complete = False
        try:
            async with aclosing(self._reader.list_ended_jobs()) as rows:
                async for row in rows:
                    if self._must_send(sent, row):
                        self._waiting.add(row.job, float(row.changed))
            is_complete = True
        finally:
            if not is_complete:
                self._waiting.on_missed()

    async def _send_jobs(self, sent: SentJobs, rows: Iterable[JobRow]) -> None:
        for row in sorted(rows, key=lambda row: row.changed):
            if self._must_send(sent, row):
                await self._send_job(trace_job(row, self._with_commands))

    def _must_send(self, sent: SentJobs, row: JobRow) -> bool:
        changed = float(row.changed)
        return has_ended(row) and not sent.has(row.job, changed) and self._under_way.get(row.job) != changed

    async def _send_job(self, job: TracedJob) -> None:
        try:
            async with aclosing(read_spans(self._reader, job, self._share)) as spans:
                async for span in spans:
                    await self._sender.add(span)
        except JobNotFound:
            return  # it was forgotten meanwhile
        self._under_way[job.job] = job.changed
        await self._sender.end_job(job)

    # What was sent

    def _on_sent(self, jobs: Sequence[TracedJob]) -> None:
        assert self._sent is not None, "jobs are sent only then"
        for job in jobs:
            self._sent.note(job.job, job.changed)
        self._under_way.clear()  # they were all in one batch
        self._is_saved = False
        self._save_if_due()

    def _save_if_due(self) -> None:
        if not self._is_saved and read_monotonic() >= self._saved_at + SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        if self._sent is None or self._is_saved:
            return
        self._saved_at = read_monotonic()
        try:
            self._kept.write(self._sent)
        except OSError as error:
            log.warning("cannot write %s, so a restart sends jobs again: %s", self._kept.path, error.strerror)
        else:
            self._is_saved = True


async def read_spans(reader: SlowReader, job: TracedJob, share: float | None) -> AsyncGenerator[TraceSpan, None]:
    """The span of the job, and those of its attempts. Raises: JobNotFound."""
    yield job.span
    async with aclosing(reader.list_attempts(job.job, choose(job.tasks, share))) as rows:
        async for row in rows:
            span = trace_attempt(job, row)
            if span is not None:
                yield span
