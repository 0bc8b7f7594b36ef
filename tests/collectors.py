"""A collector of OpenTelemetry, as far as exporters see it: OTLP over HTTP, decoded with the official classes."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.waiting import until


class SpanCollector:
    """Takes spans, unless a test sets `status` or `rejects`."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Span] = []  # in the order in which they came; some may come twice
        self.batches: list[int] = []  # how many spans each request had, also of those that were refused
        self.headers: Mapping[str, str] = {}  # of the last request
        self.resource: dict[str, Any] = {}
        self.scope = ""
        self.status = 200
        self.largest = 1_000_000  # spans in a request
        self.rejects = ""  # why it leaves one span of each request out
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._make_handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, answer = collector.take(
                    self.path, {name.lower(): text for name, text in self.headers.items()}, body
                )
                self.send_response(status)
                self.send_header("content-type", "application/x-protobuf" if status == 200 else "text/plain")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        if path != "/v1/traces" or headers["content-type"] != "application/x-protobuf":
            return 404, b"no such page"
        self.headers = headers
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        request = ExportTraceServiceRequest.FromString(plain)
        (whole,) = request.resource_spans
        (scoped,) = whole.scope_spans
        self.batches.append(len(scoped.spans))
        if self.status != 200:
            return self.status, b"go away"
        if len(scoped.spans) > self.largest:
            return 413, b"too much"
        self.resource = read_attributes(whole.resource)
        self.scope = scoped.scope.name
        self.spans += scoped.spans
        answer = ExportTraceServiceResponse()
        if self.rejects:
            answer.partial_success.rejected_spans = 1
            answer.partial_success.error_message = self.rejects
        return 200, answer.SerializeToString()

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # What came

    def list_jobs(self) -> list[Span]:
        return [span for span in self.spans if not span.parent_span_id]

    def find_job(self, number: int) -> Span:
        """The span of a job, as it came last."""
        return [span for span in self.list_jobs() if read_attributes(span)["gandy.job.id"] == number][-1]

    def wait_for_job(self, number: int) -> Span:
        """The span of a job that must come."""
        until(lambda: any(read_attributes(span)["gandy.job.id"] == number for span in self.list_jobs()))
        return self.find_job(number)

    def list_attempts(self, number: int) -> list[Span]:
        """The spans of a job's attempts, each once, by task and attempt."""
        found = {span.span_id: span for span in self.spans if span.parent_span_id}
        wanted = [span for span in found.values() if read_attributes(span)["gandy.job.id"] == number]
        return sorted(wanted, key=lambda span: (read_attributes(span)["gandy.task.number"], span.start_time_unix_nano))


@contextmanager
def a_collector(port: int = 0) -> Iterator[SpanCollector]:
    collector = SpanCollector(port)
    collector.start()
    try:
        yield collector
    finally:
        collector.stop()


def read_attributes(owner: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {each.key: _read(each.value) for each in owner.attributes}


def _read(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_read(each) for each in found.values] if kind == "array_value" else found
