"""Sends calls of commands over the open link, with numbers and credit, and passes results to their futures.

One per client; it outlives links. `pending` decodes results.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf, isfinite
from typing import Any, Final, Protocol

from gandy.client.checks import to_seconds
from gandy.client.options import CallOptions
from gandy.client.pending import CallFuture, CallStream, Pending
from gandy.client.simple import SimpleCalls
from gandy.clocks import read_monotonic
from gandy.errors import GandyError, LinkError, Rejected
from gandy.functions.values import encode_value
from gandy.limits import MAX_ENCODED_NAMES, MAX_PIECE_BYTES, MAX_VALUE_BYTES
from gandy.moments import Monotonic, Shared
from gandy.wire.calls import (
    AT,
    BODY,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    DIRECT,
    FRAME_COST,
    LAST,
    MORE,
    PICKLED,
    RESULT,
    STREAM,
    WINDOW_BYTES,
    encode_target,
    encode_time,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER

LONGEST_MS: Final = 0xFFFF_FFFF  # the header has 32 bits for the milliseconds that are left

_pack: Final = HEADER.pack


class CallsLink(Protocol):
    """What a caller needs of a link."""

    calls: dict[int, Pending]
    simple: SimpleCalls
    takes_calls: bool
    takes_times: bool
    is_open: bool

    @property
    def write_soon(self) -> Callable[[bytes], None]: ...


class Caller:
    """Makes calls over one link after the other."""

    def __init__(
        self,
        get_link: Callable[[], Awaitable[CallsLink]],
        find_link: Callable[[], CallsLink | None],
        get_shared_time: Callable[[], Awaitable[Shared]],
        explain_missing: Callable[[str], Rejected],
    ) -> None:
        """`explain_missing` makes the error for something that the foreman does not offer."""
        self._get_link = get_link
        self._find_link = find_link
        self._get_shared_time = get_shared_time
        self._explain_missing = explain_missing
        self._targets: dict[str, bytes] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def call(
        self, name: str, args: tuple[Any, ...], options: CallOptions | None = None, worker: str = ""
    ) -> "asyncio.Future[Any]":
        """Raises: TypeError, ValueError, NotPicklable."""
        link = self._find_link()
        is_simple = options is None and not worker and not self._is_closed
        if is_simple and link is not None and link.is_open and link.takes_calls:
            body = encode_value(args)
            if len(body) <= MAX_PIECE_BYTES:
                return link.simple.start(self._targets.get(name) or self._make_target(name), body)
        call = CallFuture()
        self._fill(call, name, args, options or CallOptions(), worker)
        self._start(call)
        return call

    def adopt(self, link: CallsLink, number: int) -> CallFuture:
        """Turn a simple call into a CallFuture: it fails, its value comes in pieces, or it must be sent again."""
        future, target, body = link.simple.pop(number)
        call = CallFuture()
        call.caller, call.number, call.target, call.body = self, number, target, body
        link.calls[number] = call
        call.add_done_callback(partial(_pass_on, future))
        future.add_done_callback(lambda _: call.cancel())
        return call

    def stream(self, name: str, args: tuple[Any, ...], options: CallOptions) -> CallStream:
        """Raises: TypeError, ValueError, NotPicklable."""
        call = CallStream()
        call.flags = STREAM
        self._fill(call, name, args, options)
        self._start(call)
        return call

    async def cast(self, name: str, args: tuple[Any, ...], options: CallOptions) -> None:
        """Raises: TypeError, ValueError, NotPicklable, LinkError."""
        call = CallFuture()
        call.flags = CAST
        self._fill(call, name, args, options)
        call.can_wait = False  # nothing would send its arguments again
        link = await self._get_link()
        self._send(link, call)
        if call.sender is not None:
            await asyncio.wait({call.sender})
        link.calls.pop(call.number, None)
        call.forget()
        error = call.exception() if call.done() else None
        if isinstance(error, LinkError):  # refusals are not raised, as for a small cast
            raise error

    def _fill(self, call: Pending, name: str, args: tuple[Any, ...], options: CallOptions, worker: str = "") -> None:
        call.caller = self
        call.target = self._targets.get(name) or self._make_target(name)
        self._fill_flags(call, options, worker)
        call.body = _encode_args(args, call.is_pickled)
        timeout = to_seconds("timeout", options.timeout)
        if timeout is not None and timeout != inf:
            if not timeout >= 0:
                raise ValueError(f"a call cannot end in {timeout} seconds")
            call.patience = timeout
            if call.at is None:
                self._set_deadline(call, timeout)

    def _set_deadline(self, call: Pending, seconds: float) -> None:
        call.deadline = read_monotonic() + seconds
        call.timer = asyncio.get_running_loop().call_later(seconds, call.on_deadline)

    def _make_target(self, name: str) -> bytes:
        if len(self._targets) >= MAX_ENCODED_NAMES:
            self._targets.clear()
        target = self._targets[name] = encode_target(name)
        return target

    def _fill_flags(self, call: Pending, options: CallOptions, worker: str) -> None:
        call.can_wait = options.wait
        call.is_repeatable = options.repeatable
        if options.pickle:
            call.flags |= PICKLED
        if worker:
            call.flags |= DIRECT
            call.target += encode_target(worker)
        if options.at is not None:
            if not isfinite(options.at):
                raise ValueError(f"{options.at} is not a time")
            call.at = Shared(options.at)
            call.flags |= AT
            call.target += encode_time(call.at)

    def open(self) -> None:
        """Allow calls again after `close`."""
        self._is_closed = False

    def close(self) -> None:
        """Send nothing more: new calls fail."""
        self._is_closed = True

    def _start(self, call: Pending) -> None:
        link = self._find_link()
        if self._is_closed:
            call.is_repeatable = False
            call.on_failure(LinkError("the client is closed"))
            return
        is_timed = call.patience is not None and call.deadline is None
        if link is not None and link.is_open and not is_timed:
            self._send(link, call)
            return
        task = asyncio.get_running_loop().create_task(self._connect(call))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def start_again(self, call: Pending) -> None:
        if not call.done():
            self._start(call)

    async def _connect(self, call: Pending) -> None:
        try:
            link = await self._get_link()
            if call.at is not None and call.patience is not None and call.deadline is None:
                left = max(0.0, call.at - await self._get_shared_time())
                if not call.done():
                    self._set_deadline(call, left + call.patience)
        except GandyError as error:
            call.on_failure(error)
        else:
            if not call.done():
                self._send(link, call)

    def _send(self, link: CallsLink, call: Pending) -> None:
        if not link.takes_calls:
            call.on_failure(self._explain_missing("calls"))
            return
        if call.at is not None and not link.takes_times:
            call.on_failure(self._explain_missing("calls with a time"))
            return
        number = call.number = link.simple.take_number()
        link.calls[number] = call
        body, target = call.body, call.target
        if len(body) > MAX_PIECE_BYTES:
            call.room, call.credit = asyncio.Event(), WINDOW_BYTES
            call.sender = asyncio.get_running_loop().create_task(self._send_pieces(link, call, call.room))
            return
        left_ms = 0 if call.deadline is None else _milliseconds_left(call.deadline)
        link.write_soon(_pack(MAGIC, CALL, call.flags, number, left_ms, len(target) + len(body)) + target + body)

    async def _send_pieces(self, link: CallsLink, call: Pending, room: asyncio.Event) -> None:
        """Send large arguments, as fast as the worker grants credit."""
        number, body = call.number, call.body
        left_ms = 0 if call.deadline is None else _milliseconds_left(call.deadline)
        head = _pack(MAGIC, CALL, call.flags | MORE, number, left_ms, len(call.target) + MAX_PIECE_BYTES)
        link.write_soon(head + call.target + body[:MAX_PIECE_BYTES])
        call.credit -= MAX_PIECE_BYTES + FRAME_COST
        for at in range(MAX_PIECE_BYTES, len(body), MAX_PIECE_BYTES):
            piece = body[at : at + MAX_PIECE_BYTES]
            is_last = at + MAX_PIECE_BYTES >= len(body)
            while call.credit <= 0:
                room.clear()
                await room.wait()
            if link.calls.get(number) is not call:
                return
            call.credit -= len(piece) + FRAME_COST
            link.write_soon(_pack(MAGIC, BODY, LAST if is_last else 0, number, 0, len(piece)) + piece)
            await asyncio.sleep(0)  # let other calls write in between

    def grant(self, call: Pending, size: int) -> None:
        link = self._find_link()
        if link is not None and link.calls.get(call.number) is call:
            link.write_soon(_pack(MAGIC, CREDIT, 0, call.number, size, 0))

    def cancel(self, call: Pending) -> None:
        link = self._find_link()
        if link is not None and link.calls.get(call.number) is call:
            del link.calls[call.number]
            link.write_soon(_pack(MAGIC, CANCEL, 0, call.number, 0, 0))


def on_frame(
    link: CallsLink, caller: Caller, kind: int, flags: int, number: int, argument: int, payload: bytes
) -> None:
    """Handle a frame from the foreman about a call."""
    if kind == RESULT:
        call = caller.adopt(link, number) if number in link.simple else link.calls.get(number)
        if call is not None:
            if flags & LAST:
                del link.calls[number]
            call.on_result(flags, payload)
    elif kind == CREDIT:
        call = link.calls.get(number)
        if call is not None and call.room is not None:
            call.credit += argument
            call.room.set()


def _pass_on(future: "asyncio.Future[Any]", call: "asyncio.Future[Any]") -> None:
    if future.done():
        return
    if call.cancelled():
        future.cancel()
    elif (error := call.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(call.result())


def _encode_args(args: tuple[Any, ...], is_pickled: bool = False) -> bytes:
    body = encode_value(args, is_pickled)
    if len(body) > MAX_VALUE_BYTES:
        raise ValueError(f"arguments may have {MAX_VALUE_BYTES:,} bytes, not {len(body):,}: use a file")
    return body


def _milliseconds_left(deadline: Monotonic) -> int:
    return int(min(LONGEST_MS, max(1, (deadline - read_monotonic()) * 1000)))
