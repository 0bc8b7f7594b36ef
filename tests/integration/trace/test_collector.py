"""Spans on their way to a receiver of OTLP that takes them, is busy, refuses them, or is not there."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from tests.collectors import a_collector, read_attributes
from tests.unit.cli.trace.rows import a_row, a_task
from tests.waiting import until_async

from gandy.cli.trace import sender
from gandy.cli.trace.collector import Collector, Receipt, find_endpoint
from gandy.cli.trace.sender import Sender
from gandy.cli.trace.spans import TracedJob, TraceSpan, trace_attempt, trace_job
from gandy.cli.trace.verdict import Verdict
from gandy.errors import ConfigError
from gandy.limits import MAX_SPAN_BATCH

JOB = trace_job(a_row())


def some_spans(count: int) -> list[TraceSpan]:
    return [span for task in range(1, count + 1) if (span := trace_attempt(JOB, a_task(task))) is not None]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "RETRY_PAUSES", (0.01, 0.02))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")  # the exporter's own retries


def test_spans_arrive_as_they_are() -> None:
    async def check() -> None:
        with a_collector() as there:
            collector = Collector(find_endpoint(there.url, {}))
            assert await collector.send([JOB.span, *some_spans(1)]) == Receipt(Verdict.TAKEN)
            collector.close()
            job, attempt = there.spans
            assert int.from_bytes(job.trace_id) == JOB.span.trace
            assert int.from_bytes(job.span_id) == int.from_bytes(attempt.parent_span_id) == JOB.span.span
            assert (job.start_time_unix_nano, job.end_time_unix_nano) == (100 * 10**9, 200 * 10**9)
            assert read_attributes(attempt)["gandy.task.number"] == 1

    asyncio.run(check())


@pytest.mark.parametrize(
    ("status", "verdict"), [(400, Verdict.REFUSED), (401, Verdict.LATER), (503, Verdict.LATER), (302, Verdict.LATER)]
)
def test_answer_is_judged(status: int, verdict: Verdict) -> None:
    async def check() -> None:
        with a_collector() as there:
            there.status = status
            collector = Collector(find_endpoint(there.url, {}))
            receipt = await collector.send(some_spans(1))
            assert receipt.verdict is verdict
            assert receipt.reason.startswith(str(status))
            assert receipt.reason.endswith(": go away")
            collector.close()

    asyncio.run(check())


def test_spans_that_are_left_out_are_counted() -> None:
    async def check() -> None:
        with a_collector() as there:
            there.rejects = "too\x1b[31m old"
            collector = Collector(find_endpoint(there.url, {}))
            assert await collector.send(some_spans(3)) == Receipt(Verdict.TAKEN, "too\\x1b[31m old", 1)
            collector.close()

    asyncio.run(check())


def test_what_is_not_there_is_tried_later() -> None:
    async def check() -> None:
        with a_collector() as there:
            pass
        collector = Collector(find_endpoint(there.url, {}))
        receipt = await collector.send(some_spans(1))
        assert receipt.verdict is Verdict.LATER
        assert "Connection refused" in receipt.reason
        collector.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (None, {}, "http://localhost:4318/v1/traces"),
        ("http://a:1", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b"}, "http://a:1/v1/traces"),
        ("https://a/x/", {}, "https://a/x/v1/traces"),
        ("https://a/v1/traces", {}, "https://a/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b:2/"}, "http://b:2/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/own"}, "http://c/own"),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "http://localhost:4318/v1/traces"),
        (
            None,
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http://localhost:4318/v1/traces",
        ),
    ],
)
def test_endpoint_follows_the_variables(given: str | None, environ: dict[str, str], expected: str) -> None:
    assert find_endpoint(given, environ) == expected


def test_endpoint_that_cannot_be_used_is_an_error() -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        with pytest.raises(ConfigError, match=name):
            find_endpoint(None, {name: "b:4317"})
    with pytest.raises(ConfigError, match="http/json"):
        find_endpoint(None, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"})


class PlayedCollector:
    """Gives the answers that a test lists, then takes everything."""

    endpoint = "http://there"

    def __init__(self, *answers: Receipt) -> None:
        self.answers = list(answers)
        self.batches: list[int] = []

    async def send(self, spans: Sequence[TraceSpan]) -> Receipt:
        self.batches.append(len(spans))
        return self.answers.pop(0) if self.answers else Receipt(Verdict.TAKEN)


def test_job_counts_as_sent_when_its_last_span_was_taken(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        later = Receipt(Verdict.LATER, "503")
        collector, sent = PlayedCollector(later, later, Receipt(Verdict.LATER, "502")), list[TracedJob]()
        out = Sender(collector, sent.extend)
        for span in some_spans(MAX_SPAN_BATCH - 1):
            await out.add(span)
        assert (collector.batches, sent) == ([], [])
        await out.add(JOB.span)
        assert (collector.batches, sent) == ([MAX_SPAN_BATCH] * 4, [])
        await out.end_job(JOB)
        assert sent == [JOB]
        assert out.is_empty

    asyncio.run(check())
    texts = [record.message for record in caplog.records]
    assert [text.partition("spans")[2] for text in texts] == [", so jobs wait in the store: 503", ": 502", " again"]


def test_batch_that_is_too_large_is_sent_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        with a_collector() as there:
            there.largest = 2
            collector = Collector(find_endpoint(there.url, {}))
            out = Sender(collector, lambda _jobs: None)
            for span in some_spans(5):
                await out.add(span)
            await out.flush()
            assert (len(there.spans), there.batches) == (5, [5, 2, 3, 1, 2])
            collector.close()

    asyncio.run(check())
    assert caplog.records == []


def test_spans_that_are_refused_are_told_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        refused = Receipt(Verdict.REFUSED, "400 Bad Request")
        collector, sent = PlayedCollector(refused, refused, Receipt(Verdict.TAKEN, "old", 1)), list[TracedJob]()
        out = Sender(collector, sent.extend)
        for _ in range(3):
            await out.add(JOB.span)
            await out.end_job(JOB)
            await out.flush()
        assert (collector.batches, sent) == ([1, 1, 1], [JOB] * 3)

    asyncio.run(check())
    (record,) = caplog.records  # the next one follows in a minute
    assert record.message.endswith("refused 1 spans, which are lost: 400 Bad Request")


def test_cancelled_batch_is_not_forgotten() -> None:
    async def check() -> None:
        collector, sent = PlayedCollector(*[Receipt(Verdict.LATER, "503")] * 5), list[TracedJob]()
        out = Sender(collector, sent.extend)
        await out.add(JOB.span)
        await out.end_job(JOB)
        sending = asyncio.create_task(out.flush())
        await until_async(lambda: bool(collector.batches))
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        assert (out.is_empty, sent) == (False, [])
        await out.try_flush()  # it is known to be away
        assert sent == []

    asyncio.run(check())
