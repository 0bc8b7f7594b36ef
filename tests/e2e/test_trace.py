"""`gandy trace` of a real crew, to a real receiver of OTLP."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.collectors import SpanCollector, a_collector, read_attributes
from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

OK, ERROR, UNSET = Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    with a_collector() as collector:
        yield collector


@contextmanager
def tracing(crew: Crew, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`gandy trace`, from when it says that it sends what ends."""
    with crew.start("trace", *words) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert b"Jobs that end are sent to http" in line, line + process.stderr.read()
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in errors
    assert output == b""


def codes(spans: list[Span]) -> list[tuple[int, int, int]]:
    """The task, the attempt and the status of each."""
    found = [(read_attributes(span), span.status.code) for span in spans]
    return [(about["gandy.task.number"], about["gandy.attempt.number"], code) for about, code in found]


def test_job_with_failures_and_retries(crew: Crew, collector: SpanCollector) -> None:
    with tracing(crew, "--endpoint", collector.url) as process:
        job = crew.submit("--name", "planets", "--tasks", "3", "--retries", "1", "[ {task} != 2 ] || exit 3")
        crew.run("job", "wait", job, code=1)
        span = collector.wait_for_job(int(job))
        assert (span.name, span.status.code, span.status.message) == ("job planets", ERROR, "1 of 3 tasks failed")
        attempts = collector.list_attempts(int(job))
        assert codes(attempts) == [(1, 1, OK), (2, 1, ERROR), (2, 2, ERROR), (3, 1, OK)]
        assert attempts[1].status.message == "exit code 3"
        assert read_attributes(attempts[1])["process.exit.code"] == 3
        assert {(each.trace_id, each.parent_span_id) for each in attempts} == {(span.trace_id, span.span_id)}
        begin, end = span.start_time_unix_nano, span.end_time_unix_nano
        for each in attempts:
            assert begin <= each.start_time_unix_nano <= each.end_time_unix_nano <= end
        assert attempts[1].end_time_unix_nano <= attempts[2].start_time_unix_nano
        assert (collector.resource["service.name"], collector.scope) == ("gandy", "gandy")
        assert "exit 3" not in str(collector.spans)  # the command was not asked for
    assert process.returncode == 0


def test_cancelled_job_and_one_that_failed_to_start(crew: Crew, collector: SpanCollector) -> None:
    with tracing(crew, "--endpoint", collector.url, "--commands"):
        job = crew.submit("--tasks", "4", "sleep 1000")
        until(lambda: crew.show("job", "show", job)[0]["running"] == 2)
        crew.run("job", "cancel", job)
        span = collector.wait_for_job(int(job))
        assert (span.name, span.status.code) == ("job sh", UNSET)
        assert read_attributes(span)["gandy.job.tasks.cancelled"] == 4
        assert read_attributes(span)["process.command_line"] == "sleep 1000"
        attempts = collector.list_attempts(int(job))
        assert codes(attempts) == [(1, 1, UNSET), (2, 1, UNSET)]  # the others never began
        assert {read_attributes(each)["gandy.attempt.cause"] for each in attempts} == {"cancelled"}
        missing = crew.submit("--", "/no/such/program", "x")
        span = collector.wait_for_job(int(missing))
        assert (span.name, span.status.code) == ("job program", ERROR)
        (attempt,) = collector.list_attempts(int(missing))
        assert read_attributes(attempt)["error.type"] == "not_started"


def test_job_that_is_retried_after_it_ended_keeps_its_ids(crew: Crew, collector: SpanCollector, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with tracing(crew, "--endpoint", collector.url):
        job = crew.submit(f"test -e {flag}")
        before = collector.wait_for_job(int(job))
        assert before.status.code == ERROR
        flag.touch()
        crew.run("job", "retry", job)
        until(lambda: collector.find_job(int(job)).status.code == OK)
        after = collector.find_job(int(job))
        assert (after.trace_id, after.span_id) == (before.trace_id, before.span_id)
        assert after.end_time_unix_nano > before.end_time_unix_nano
        assert codes(collector.list_attempts(int(job))) == [(1, 1, ERROR), (1, 2, OK)]


def test_killed_exporter_loses_nothing_and_makes_no_other_ids(crew: Crew, collector: SpanCollector) -> None:
    with crew.start("trace", "--endpoint", collector.url) as process:
        assert process.stderr is not None
        assert process.stderr.readline()
        first = int(crew.submit("true"))
        collector.wait_for_job(first)
        process.kill()
    while_away = int(crew.submit("--tasks", "3", "true"))
    crew.run("job", "wait", str(while_away))
    with tracing(crew, "--endpoint", collector.url):
        collector.wait_for_job(while_away)
        assert len(collector.list_attempts(while_away)) == 3
    for job in (first, while_away):
        spans = [span for span in collector.list_jobs() if read_attributes(span)["gandy.job.id"] == job]
        assert len({(span.trace_id, span.span_id) for span in spans}) == 1
    # Once it has ended well, what was sent is known for certain.
    count = len(collector.spans)
    with tracing(crew, "--endpoint", collector.url):
        last = int(crew.submit("true"))
        collector.wait_for_job(last)
    assert {read_attributes(span)["gandy.job.id"] for span in collector.spans[count:]} == {last}


def test_collector_that_is_away_gets_everything_later(crew: Crew) -> None:
    with a_collector() as known:
        port = known.port
    with tracing(crew, "--endpoint", f"http://127.0.0.1:{port}") as process:
        jobs = [int(crew.submit("true")) for _ in range(3)]
        assert process.stderr is not None
        line = process.stderr.readline()
        assert b"takes no spans, so jobs wait in the store" in line
        assert b"Connection refused" in line
        with a_collector(port) as collector:
            for job in jobs:
                collector.wait_for_job(job)
            assert b"takes spans again" in process.stderr.readline()


def test_named_jobs_are_sent_at_once(crew: Crew, collector: SpanCollector) -> None:
    job = crew.submit("--tasks", "2", "true")
    crew.run("job", "wait", job)
    done = crew.run("trace", job, "--endpoint", collector.url)
    trace = collector.find_job(int(job)).trace_id.hex()
    assert (done.stdout.decode(), done.stderr) == (f"job {job}: 3 spans in trace {trace}\n", b"")
    assert crew.run("trace", job, job, "--endpoint", collector.url).stdout == done.stdout
    assert len(collector.spans) == 6
    assert len({span.span_id for span in collector.spans}) == 3


def test_sample_has_what_failed(crew: Crew, collector: SpanCollector) -> None:
    job = crew.submit("--tasks", "50", "[ {task} != 7 ]")
    crew.run("job", "wait", job, code=1)
    crew.run("trace", job, "--endpoint", collector.url, "--sample", "0.1")
    assert codes(collector.list_attempts(int(job))) == [
        (1, 1, OK),
        (7, 1, ERROR),
        *[(t, 1, OK) for t in (13, 25, 37, 50)],
    ]
    collector.spans.clear()
    crew.run("trace", job, "--endpoint", collector.url, "--sample", "0")
    assert codes(collector.list_attempts(int(job))) == [(7, 1, ERROR)]


def test_variables_of_opentelemetry_are_respected(crew: Crew, collector: SpanCollector) -> None:
    job = crew.submit("true")
    crew.run("job", "wait", job)
    before = dict(crew.environment)
    crew.environment |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_SERVICE_NAME": "railway",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    try:
        crew.run("trace", job)
    finally:
        crew.environment = before
    assert collector.headers["authorization"] == "Bearer x"
    assert collector.headers["content-encoding"] == "gzip"
    assert (collector.resource["service.name"], collector.resource["deployment.environment.name"]) == (
        "railway",
        "test",
    )


def test_second_exporter_of_one_home_is_refused(crew: Crew, collector: SpanCollector) -> None:
    with tracing(crew, "--endpoint", collector.url) as process:
        done = crew.run("trace", "--endpoint", collector.url, code=1)
        assert b"another 'gandy trace' uses it" in done.stderr
        assert str(process.pid).encode() in done.stderr


def test_mistakes_are_explained(crew: Crew, collector: SpanCollector) -> None:
    done = crew.run("trace", "99999", "--endpoint", collector.url, code=1)
    assert done.stderr == b"gandy: there is no job 99999\n"
    job = crew.submit("--hold", "true")
    assert b"has not ended" in crew.run("trace", job, "--endpoint", collector.url, code=1).stderr
    crew.run("job", "cancel", job)
    for wrong in ("collector:4318", "ftp://x", "http://", "http://x:none", "http://x:99999"):
        done = crew.run("trace", "--endpoint", wrong, code=1)
        assert b"write http://HOST:PORT or https://HOST:PORT" in done.stderr, wrong
    assert b"0<=x<=1" in crew.run("trace", "--sample", "2", code=2).stderr
    collector.status = 401
    done = crew.run("trace", job, "--endpoint", collector.url, code=1)
    assert b"did not take the spans: 401 Unauthorized: go away" in done.stderr
    crew.environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "grpc"
    try:
        assert b"gandy sends http/protobuf" in crew.run("trace", job, code=1).stderr
    finally:
        del crew.environment["OTEL_EXPORTER_OTLP_PROTOCOL"]


def test_without_a_foreman_it_waits_for_one(tmp_path: Path, collector: SpanCollector) -> None:
    crew = Crew(tmp_path)
    with crew.start("trace", "--endpoint", collector.url) as process:
        assert process.stderr is not None
        assert b"the crew cannot be watched" in process.stderr.readline()
        with crew.running("up", "--slots", "1"):
            while b"Jobs that end are sent" not in process.stderr.readline():
                pass
            job = int(crew.submit("true"))
            collector.wait_for_job(job)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
