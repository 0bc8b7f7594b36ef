"""`gandy trace` as a program: sends the jobs that are named, or follows the crew until a signal."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import aclosing
from typing import NamedTuple

from gandy.cli.trace.collector import Collector, find_endpoint
from gandy.cli.trace.foreman import SlowReader
from gandy.cli.trace.kept import KeptFile
from gandy.cli.trace.spans import TracedJob, TraceSpan, has_ended, trace_job
from gandy.cli.trace.tracer import Tracer, read_spans
from gandy.cli.trace.verdict import Verdict
from gandy.client.aio import AsyncClient
from gandy.config import find_home
from gandy.errors import GandyError, Rejected
from gandy.limits import MAX_SPAN_BATCH
from gandy.net import loop
from gandy.net.logs import begin_log
from gandy.reach import find_reach
from gandy.terminal.say import say


class TraceOptions(NamedTuple):
    """What the user asked for."""

    foreman: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()  # none: follow the crew
    endpoint: str | None = None
    share: float | None = None  # of the tasks of each job
    since: float = 0.0  # seconds before the first start
    with_commands: bool = False


def run(options: TraceOptions) -> None:
    """Raises: GandyError."""
    begin_log(logging.WARNING)
    collector = Collector(find_endpoint(options.endpoint, os.environ))
    loop.run(_send_named(options, collector) if options.jobs else _follow(options, collector))


async def _send_named(options: TraceOptions, collector: Collector) -> None:
    try:
        async with AsyncClient(options.foreman) as client:
            rows = [await client.job(job).status() for job in dict.fromkeys(options.jobs)]
            for row in rows:
                if not has_ended(row):
                    raise Rejected(f"job {row.job} has not ended; it can be sent when it has")
            for row in rows:
                await _send_job(SlowReader(client), collector, trace_job(row, options.with_commands), options.share)
    finally:
        collector.close()


async def _send_job(reader: SlowReader, collector: Collector, job: TracedJob, share: float | None) -> None:
    """Raises: JobNotFound, GandyError."""
    count = refused = 0
    spans: list[TraceSpan] = []
    async with aclosing(read_spans(reader, job, share)) as found:
        async for span in found:
            spans.append(span)
            if len(spans) >= MAX_SPAN_BATCH:
                refused += await _send_once(collector, spans)
                count, spans = count + len(spans), []
    if spans:
        refused += await _send_once(collector, spans)
        count += len(spans)
    note = f"; the collector refused {refused:,} of them" if refused else ""
    say(f"job {job.job}: {count:,} {'span' if count == 1 else 'spans'} in trace {job.span.trace:032x}{note}")


async def _send_once(collector: Collector, spans: list[TraceSpan]) -> int:
    """How many of the spans the collector left out. Raises: GandyError."""
    receipt = await collector.send(spans)
    if receipt.verdict is not Verdict.TAKEN:
        raise GandyError(f"the collector at {collector.endpoint} did not take the spans: {receipt.reason}")
    return receipt.rejected


async def _follow(options: TraceOptions, collector: Collector) -> None:
    home = find_home(os.environ, sys.platform)
    kept = KeptFile(home, _describe_crew(options.foreman), collector.endpoint)
    client = AsyncClient(options.foreman)
    should_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, should_stop.set)

    def on_begin() -> None:
        say(f"Jobs that end are sent to {collector.endpoint}. Ctrl-C stops this.", err=True)

    try:
        tracer = Tracer(client, collector, kept, options.share, options.since, options.with_commands, on_begin)
        await tracer.run(should_stop)
    finally:
        collector.close()
        kept.close()
        await client.close()


def _describe_crew(foreman: tuple[str, ...]) -> tuple[str, ...]:
    """What tells the crew from others, wherever its foremen are at the moment."""
    reach = find_reach(foreman, os.environ, sys.platform)
    if reach.keys is not None and reach.places[0].scheme != "unix":
        return (reach.keys.about.foreman,)
    return tuple(map(str, reach.places))
