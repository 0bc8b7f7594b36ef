"""One connection of a browser or a program: HTTP/1.1, one request at a time. h11 parses; nothing here knows the API.

A peer that has shown no token may send one small request; the head of a request must come within seconds.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Final, Protocol, cast

import h11

from gandy.clocks import read_monotonic
from gandy.dashboard.limits import (
    BODY_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    LINGER_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    MAX_UNSENT_BYTES,
    STALL_SECONDS,
    WRITE_SECONDS,
)
from gandy.dashboard.messages import HttpRefusal, HttpRequest, HttpResponse, Streaming
from gandy.dashboard.stream import Stream
from gandy.moments import NEVER, Monotonic
from gandy.net.links import get_source

log = logging.getLogger("gandy.dashboard")


CLOSE: Final = {"Connection": "close"}


class HttpExchange(Protocol):
    """A request that may come in: who sent it is known."""

    is_known: bool  # the peer has shown a token, so the connection may stay open

    async def answer(self, body: bytes) -> HttpResponse | Streaming:
        """Raises: HttpRefusal."""

    def end(self) -> None:
        """The response is written, or the peer is gone."""


class ConnectionOwner(Protocol):
    """Knows all connections, and what requests are about."""

    def on_connected(self, connection: "HttpConnection") -> None: ...

    def on_known(self, connection: "HttpConnection") -> bool:
        """The peer has shown a token. False: there are too many connections."""

    def on_closed(self, connection: "HttpConnection") -> None: ...

    def admit(self, request: HttpRequest) -> HttpExchange | HttpResponse:
        """Look at the head of a request. A response: it is refused, or needs no more than that."""

    def finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Add the headers that every response has."""


class HttpConnection(asyncio.Protocol):
    """From `connection_made` until `connection_lost`."""

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._transport: asyncio.Transport | None = None
        self._request: HttpRequest | None = None
        self._exchange: HttpExchange | None = None
        self._refusal: HttpResponse | None = None  # of a request without a body, whose end has not come yet
        self._body = bytearray()
        self._work: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._must_close = False
        self._is_lingering = False  # the last response is written; what comes is not read any more
        self._is_stalled = False  # the peer does not read what we wrote
        self.source = ""  # what the peer is counted as
        self.is_known = False
        self.deadline = NEVER  # when the connection is cut, unless something happens before

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(MAX_UNSENT_BYTES, 0)
        self.source = get_source(transport)
        self._set_deadline(HEAD_SECONDS)
        self._owner.on_connected(self)

    def data_received(self, data: bytes) -> None:
        if self._stream is not None or self._is_lingering or self._transport is None:
            return
        if self._http.our_state is h11.IDLE and not self._http.trailing_data[0] and self._request is None:
            self._set_deadline(HEAD_SECONDS)
        try:
            self._http.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self._refuse_broken(error)

    def eof_received(self) -> None:
        return None  # so the transport is closed: clients of HTTP close both halves

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._work is not None:
            self._work.cancel()
        elif self._exchange is not None:
            self._exchange.end()
        if self._stream is not None:
            self._stream.close()
        self._owner.on_closed(self)

    def pause_writing(self) -> None:
        self._is_stalled = True
        self._set_deadline(STALL_SECONDS if self._stream is not None else WRITE_SECONDS)
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        self._is_stalled = False
        if self._stream is not None:
            self.deadline = NEVER
            self._stream.resume()
        elif self._http.our_state is h11.DONE and self._work is None:
            self._begin_next()

    # What the server calls

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection after what was written has gone out."""
        if self._transport is not None:
            self._set_deadline(WRITE_SECONDS)
            self._transport.close()

    def _linger(self) -> None:
        """Close it when the peer has read the last response: closing it at once would take that away from the peer."""
        assert self._transport is not None
        self._is_lingering = True
        self._set_deadline(LINGER_SECONDS)
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def expire(self, now: Monotonic) -> None:
        if now >= self.deadline:
            self.abort()

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = read_monotonic() + seconds

    # A request

    def _read(self) -> None:
        """Take what has come of a request. What comes behind it waits until that is answered."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._on_head(event)
            elif isinstance(event, h11.Data):
                self._on_body(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._on_end()
                return
            else:
                if isinstance(event, h11.ConnectionClosed):
                    self.close()
                return
            if self._must_close:
                return

    def _on_head(self, event: h11.Request) -> None:
        request = self._request = _parse(event)
        self._set_deadline(BODY_SECONDS)
        try:
            _check_size(request)
            admitted = self._owner.admit(request)
        except HttpRefusal as refused:
            admitted = refused.make_response()
        if isinstance(admitted, HttpResponse):
            self._refuse(request, admitted)
            return
        self._exchange = admitted
        if admitted.is_known and not self.is_known:
            self.is_known = self._owner.on_known(self)
            self._must_close = not self.is_known
        if self._must_close:
            self._respond(_make_busy().make_response())
        elif self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))

    def _refuse(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer before the body is read, if there is one; then nothing more can be read."""
        self._must_close = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
        if self._must_close:
            self._respond(response)
        else:
            self._refusal = response

    def _on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > MAX_BODY_BYTES:
            self._must_close = True
            self._respond(_make_too_large().make_response())

    def _on_end(self) -> None:
        assert self._transport is not None
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self._respond(refusal)
            self._begin_next()
            return
        self.deadline = NEVER  # the handler has its own
        self._transport.pause_reading()
        body, self._body = bytes(self._body), bytearray()
        self._work = asyncio.get_running_loop().create_task(self._handle(body))

    async def _handle(self, body: bytes) -> None:
        assert self._exchange is not None
        try:
            response = await self._exchange.answer(body)
            if isinstance(response, Streaming):
                await self._run_stream(response)
            else:
                self._respond(response)
        except HttpRefusal as refused:
            self._respond(refused.make_response())
        except Exception:
            log.exception("a request failed: %s", self._request)
            text = "the dashboard has a bug here; its log says more"
            self._respond(HttpRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", text).make_response())
        finally:
            self._work = None
            self._exchange.end()
            self._exchange = None
        self._begin_next()

    # A response

    def _respond(self, response: HttpResponse) -> None:
        request, self._request = self._request, None
        if self._transport is None or request is None:
            return
        response = self._owner.finish(request, response)
        if not self.is_known or self._stream is not None:
            self._must_close = True
        if self._stream is None:
            self._write(self._encode(request, response))
            self._set_deadline(WRITE_SECONDS)
            self._must_close |= self._http.our_state is not h11.DONE  # the peer asked for that, or speaks HTTP/1.0
        if self._must_close:
            if self._http.their_state is h11.SEND_BODY or self._http.their_state is h11.ERROR:
                self._linger()
            else:
                self.close()

    def _encode(self, request: HttpRequest, response: HttpResponse) -> bytes:
        headers = {
            **({} if response.status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(response.body))}),
            **({"Content-Type": response.content_type} if response.content_type else {}),
            **response.headers,
            **(CLOSE if self._must_close else {}),
        }
        fields, status = _encode_headers(headers), response.status
        head = self._http.send(h11.Response(status_code=status, headers=fields, reason=_find_reason(status)))
        body = b"" if request.method == "HEAD" else self._http.send(h11.Data(data=response.body))
        return (head or b"") + (body or b"") + (self._http.send(h11.EndOfMessage()) or b"")

    async def _run_stream(self, response: Streaming) -> None:
        """Send a response that ends with the connection: the same bytes go to all, without a frame for each."""
        assert self._request is not None
        assert self._transport is not None
        self._must_close = True
        bare = HttpResponse(HTTPStatus.OK, b"", response.content_type, response.headers)
        finished = self._owner.finish(self._request, bare)
        headers = {"Content-Type": response.content_type, **finished.headers, **CLOSE}
        self._transport.resume_reading()  # to learn when the browser leaves
        self._stream = Stream(self._transport)
        self._stream.write(_encode_head(headers))
        if self._request.method != "HEAD":
            await response.run(self._stream)
        self._request = None
        self.close()

    def _begin_next(self) -> None:
        """Read the next request, once the peer has read the last response."""
        if self._transport is None or self._transport.is_closing() or self._must_close or self._is_stalled:
            return
        self._http.start_next_cycle()
        self._transport.resume_reading()
        self._set_deadline(IDLE_SECONDS)
        try:
            self._read()
        except h11.RemoteProtocolError as error:
            self._refuse_broken(error)

    def _refuse_broken(self, error: h11.RemoteProtocolError) -> None:
        """What came is not HTTP. Say so if nothing was answered yet."""
        self._must_close = True
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._request = self._request or HttpRequest("GET", "", "", {})
            self._respond(
                HttpRefusal(error.error_status_hint, "bad_request", "this is not a request of HTTP/1.1").make_response()
            )
        else:
            self.close()

    def _write(self, data: bytes | None) -> None:
        if self._transport is not None and data:
            self._transport.write(data)


def _parse(event: h11.Request) -> HttpRequest:
    path, _, query = event.target.decode("ascii").partition("?")
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return HttpRequest(event.method.decode("ascii"), path, query, headers)


def _check_size(request: HttpRequest) -> None:
    """Raises: HttpRefusal. h11 limits a head only while it is incomplete."""
    if sum(map(len, (request.path, request.query, *request.headers, *request.headers.values()))) > MAX_HEAD_BYTES:
        raise HttpRefusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too_large", "the headers are too long")
    if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
        raise _make_too_large()


def _make_busy() -> HttpRefusal:
    return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "there are too many connections")


def _make_too_large() -> HttpRefusal:
    return HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"a body has at most {MAX_BODY_BYTES:,} bytes")


def _encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]


def _encode_head(headers: dict[str, str]) -> bytes:
    lines = [b"HTTP/1.1 200 OK", *(name + b": " + value for name, value in _encode_headers(headers))]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _find_reason(status: int) -> bytes:
    return HTTPStatus(status).phrase.encode("ascii")
