"""Sends spans to a collector by OTLP over HTTP, with OpenTelemetry's own exporter and its environment variables.

The exporter blocks and retries for some seconds by itself, so it is called in a thread that no exit waits for.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from gandy import __version__
from gandy.bounds import escape_controls
from gandy.cli.trace.spans import SpanStatus, TraceSpan
from gandy.cli.trace.verdict import Verdict, judge
from gandy.errors import ConfigError
from gandy.limits import MAX_ERROR_LINE

PATH: Final = "/v1/traces"
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
PROTOCOL: Final = "http/protobuf"

_STATUS: Final = {
    SpanStatus.UNSET: StatusCode.UNSET,
    SpanStatus.OK: StatusCode.OK,
    SpanStatus.ERROR: StatusCode.ERROR,
}
_SCOPE: Final = InstrumentationScope("gandy", __version__)


class Receipt(NamedTuple):
    """What became of a batch, and why, for people."""

    verdict: Verdict
    reason: str = ""
    rejected: int = 0  # spans that the collector did not want, of those that it took
    is_too_large: bool = False


def find_endpoint(given: str | None, environ: Mapping[str, str]) -> str:
    """The address that spans are sent to: `given`, else as OpenTelemetry's variables say. Raises: ConfigError."""
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(name):
            if protocol != PROTOCOL:
                raise ConfigError(f"{name} is {protocol}, and gandy sends {PROTOCOL}")
            break
    if given is not None:
        return _complete(given, "--endpoint")
    if whole := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        _check_url(whole, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        return whole
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    return _complete(environ.get(name) or DEFAULT_ENDPOINT, name)


def _complete(base: str, source: str) -> str:
    _check_url(base, source)
    return base if base.endswith(PATH) else base.rstrip("/") + PATH


def _check_url(text: str, source: str) -> None:
    try:
        url = urlsplit(text)
        is_valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:  # a port that is not a number
        is_valid = False
    if not is_valid:
        raise ConfigError(f"{source} is {text!r}; write http://HOST:PORT or https://HOST:PORT")


class Collector:
    """Sends one batch at a time."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._answers = _Answers()
        self._exporter = OTLPSpanExporter(endpoint=endpoint, session=self._answers)
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # what goes wrong is in `Receipt`
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "gandy"}))
        self._resource = resource

    async def send(self, spans: Sequence[TraceSpan]) -> Receipt:
        """Returns when they were taken, or not. It may take as long as OTEL_EXPORTER_OTLP_TIMEOUT allows."""
        ready = [self._convert(span) for span in spans]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Receipt] = loop.create_future()

        def settle(receipt: Receipt) -> None:
            if not done.done():
                done.set_result(receipt)

        def work() -> None:
            receipt = self._export(ready)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, receipt)

        threading.Thread(target=work, name="otlp", daemon=True).start()
        return await done

    def close(self) -> None:
        """A batch that is under way may be taken or not."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _export(self, spans: Sequence[ReadableSpan]) -> Receipt:
        self._answers.forget()
        self._exporter.export(spans)
        response, error = self._answers.response, self._answers.error
        if response is None:
            return Receipt(Verdict.LATER, _shorten(error or "no answer"))
        verdict = judge(response.status_code)
        if verdict is Verdict.TAKEN:
            return _read_success(response)
        reason = f"{response.status_code} {response.reason or ''}".strip()
        is_too_large = response.status_code == requests.codes.request_entity_too_large
        return Receipt(verdict, f"{reason}: {text}" if (text := _find_text(response)) else reason, 0, is_too_large)

    def _convert(self, span: TraceSpan) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_make_context(span.trace, span.span),
            parent=None if span.parent is None else _make_context(span.trace, span.parent),
            resource=self._resource,
            attributes=span.attributes,
            status=Status(_STATUS[span.status], span.problem or None),
            start_time=max(0, round(span.began * 1e9)),
            end_time=max(0, round(span.ended * 1e9)),
            instrumentation_scope=_SCOPE,
        )


class _Answers(requests.Session):
    """Keeps what the exporter does not tell: the last answer, or why there was none."""

    def __init__(self) -> None:
        super().__init__()
        self.response: Any = None
        self.error: Exception | None = None

    def forget(self) -> None:
        self.response = self.error = None

    def request(self, *args: Any, **options: Any) -> Any:
        self.response = self.error = None
        try:
            self.response = super().request(*args, **options)
        except requests.RequestException as error:
            self.error = error
            raise
        return self.response


def _make_context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _read_success(response: Any) -> Receipt:
    """A collector may take a batch, and leave some of its spans out."""
    try:
        partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    except Exception:  # noqa: BLE001 - not every collector answers in protobuf
        return Receipt(Verdict.TAKEN)
    return Receipt(Verdict.TAKEN, _shorten(partial.error_message), partial.rejected_spans)


def _find_text(response: Any) -> str:
    """What the collector says, if that is text: OTLP has it in protobuf, proxies in HTML."""
    text = response.content[: 4 * MAX_ERROR_LINE].decode(errors="replace")
    is_text = response.headers.get("content-type", "").startswith("text/plain")
    return _shorten(text) if is_text else ""


def _shorten(reason: object) -> str:
    """The innermost error says what happened; those around it repeat it with the address."""
    while isinstance(reason, BaseException):
        inner = getattr(reason, "reason", None) or next(
            (arg for arg in reason.args if isinstance(arg, Exception)), None
        )
        if not isinstance(inner, BaseException):
            break
        reason = inner
    words = " ".join(str(reason).split())
    return escape_controls(words[:MAX_ERROR_LINE])
