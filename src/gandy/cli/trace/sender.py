"""Collects spans in batches, and sends each until the collector has taken or refused it. Logs what goes wrong, once."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gandy.cli.trace.collector import Receipt
from gandy.cli.trace.spans import TracedJob, TraceSpan
from gandy.cli.trace.verdict import Verdict
from gandy.client.repeats import growing
from gandy.clocks import read_monotonic
from gandy.limits import MAX_SPAN_BATCH
from gandy.moments import LONG_AGO, NEVER

log = logging.getLogger("gandy.trace")

RETRY_PAUSES: Final = (0.5, 30.0)  # seconds before spans are sent again: the first pause, and the longest
BATCH_SECONDS: Final = 1.0  # that spans wait for those of the next jobs
NOTE_SECONDS: Final = 60.0  # between two lines of the log about spans that were refused


class TakesSpans(Protocol):
    """A collector."""

    endpoint: str

    async def send(self, spans: Sequence[TraceSpan]) -> Receipt: ...


class Sender:
    """Has one batch in memory. `on_sent` is called with the jobs whose last spans the collector has."""

    def __init__(self, collector: TakesSpans, on_sent: Callable[[Sequence[TracedJob]], None]) -> None:
        self._collector = collector
        self._on_sent = on_sent
        self._spans: list[TraceSpan] = []
        self._jobs: list[TracedJob] = []
        self._due_at = NEVER
        self._problem = ""
        self._refused = 0  # spans that the log does not tell of yet
        self._noted_at = LONG_AGO

    @property
    def is_empty(self) -> bool:
        return not self._spans

    async def add(self, span: TraceSpan) -> None:
        """Returns at once, or when a full batch was sent."""
        if not self._spans:
            self._due_at = read_monotonic() + BATCH_SECONDS
        self._spans.append(span)
        if len(self._spans) >= MAX_SPAN_BATCH:
            await self.flush()

    async def end_job(self, job: TracedJob) -> None:
        """All its spans were added."""
        self._jobs.append(job)
        if not self._spans or read_monotonic() >= self._due_at:
            await self.flush()

    async def flush(self) -> None:
        """Send what was collected, however long that takes. If it is cancelled, nothing is forgotten."""
        if self._spans:
            await self._send(self._spans)
        self._forget()

    async def try_flush(self) -> None:
        """Send it once."""
        if not self._spans or self._problem:
            return
        receipt = await self._collector.send(self._spans)
        if receipt.verdict is Verdict.TAKEN:
            self._forget()

    def _forget(self) -> None:
        jobs, self._spans, self._jobs = self._jobs, [], []
        if jobs:
            self._on_sent(jobs)

    async def _send(self, spans: Sequence[TraceSpan]) -> None:
        pauses = growing(*RETRY_PAUSES)
        while True:
            receipt = await self._collector.send(spans)
            match receipt.verdict:
                case Verdict.TAKEN:
                    self._note_problem("")
                    self._note_refused(receipt.rejected, receipt.reason)
                    return
                case Verdict.LATER:
                    self._note_problem(receipt.reason)
                    await asyncio.sleep(next(pauses))
                case Verdict.REFUSED:
                    self._note_problem("")
                    await self._on_refused(spans, receipt)
                    return

    async def _on_refused(self, spans: Sequence[TraceSpan], receipt: Receipt) -> None:
        if receipt.is_too_large and len(spans) > 1:
            half = len(spans) // 2
            await self._send(spans[:half])
            await self._send(spans[half:])
        else:
            self._note_refused(len(spans), receipt.reason)

    # What the log says

    def _note_problem(self, problem: str) -> None:
        where = self._collector.endpoint
        if problem and not self._problem:
            log.warning("the collector at %s takes no spans, so jobs wait in the store: %s", where, problem)
        elif problem != self._problem and problem:
            log.warning("the collector at %s still takes no spans: %s", where, problem)
        elif self._problem and not problem:
            log.warning("the collector at %s takes spans again", where)
        self._problem = problem

    def _note_refused(self, count: int, reason: str) -> None:
        self._refused += count
        now = read_monotonic()
        if self._refused and now >= self._noted_at + NOTE_SECONDS:
            where = self._collector.endpoint
            log.warning("the collector at %s refused %d spans, which are lost: %s", where, self._refused, reason)
            self._refused, self._noted_at = 0, now
