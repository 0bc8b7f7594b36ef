"""`gandy console client`: sends requests to a round-robin server, one or many, and shows their results."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event as Flag
from typing import Final

from gandy.clocks import read_monotonic
from gandy.doors.roundrobin.console.connection import ConsoleConnection
from gandy.doors.roundrobin.console.requests import Bulk, ConsoleRequest, End, Failed, PingRequest, StreamRequest, check
from gandy.doors.roundrobin.console.screen import BASIC, Screen
from gandy.doors.roundrobin.console.shell import ConsoleCommand
from gandy.doors.roundrobin.console.traffic import format_id
from gandy.doors.roundrobin.console.waiting import take, wait_for
from gandy.doors.roundrobin.streams import BLOCK_TOTAL
from gandy.doors.roundrobin.uplink_events import Connected, Event, Expired, Response, Unreachable
from gandy.doors.roundrobin.wire import FAILURE, PING
from gandy.doors.sockets.curve import ClientKeys
from gandy.net.exposure import parse_tcp

ROLE: Final = "CLIENT"
WINDOW: Final = 10  # messages in parallel, as in the original
MARGIN: Final = 5.0  # seconds beyond a timeout that we wait for the connection to report it

# Seconds, as in the original; but there a bulk request has 5, too few for the last of many that wait for slots.
PING_SECONDS: Final = 15.0
DATA_SECONDS: Final = 10.0
BULK_SECONDS: Final = 15.0

SUMMARY: Final = f"{ROLE}: BULK TEST DONE - RESULTS:\ntype\t# total\t# success\n----\t-------\t---------\n"


class ClientConsole:
    """Implements `Console`."""

    def __init__(self, screen: Screen, url: str, curve: str | None, timeout: float | None = None) -> None:
        """Raises: ConfigError."""
        self.commands = {
            "ping": ConsoleCommand(self._ping, "Send an EXEC of PING, which gets no answer."),
            "pingt": ConsoleCommand(self._track_ping, "Send a TRACKEXEC of PING, and wait for the response."),
            "data": ConsoleCommand(self._data, f"Ask for a stream of {BLOCK_TOTAL} bytes, and check them."),
            "bulkping": ConsoleCommand(self._bulk_ping, f"Do pingt N times, {WINDOW} at once.", needs_count=True),
            "bulkdata": ConsoleCommand(self._bulk_data, "Do data N times, all at once.", needs_count=True),
        }
        self._screen = screen
        self._url = str(parse_tcp(url))
        self._ping_timeout = PING_SECONDS if timeout is None else timeout
        self._data_timeout = DATA_SECONDS if timeout is None else timeout
        self._bulk_timeout = BULK_SECONDS if timeout is None else timeout
        self._connected = Flag()
        self._ends: SimpleQueue[End] = SimpleQueue()
        keys = ClientKeys.open(curve) if curve is not None else None
        self._connection = ConsoleConnection(self._url, self._on_events, keys, screen, ROLE)

    def close(self) -> None:
        self._connection.disconnect()

    def _on_events(self, events: list[Event]) -> None:
        """Runs in the thread of the connection."""
        for event in events:
            if isinstance(event, Response | Expired):
                self._ends.put(event)
            elif isinstance(event, Connected):
                self._connected.set()
            elif isinstance(event, Unreachable):
                self._connected.clear()

    # Commands

    def _ping(self) -> None:
        """Wait for a server, without which the message would be lost, but not for an answer."""
        try:
            self._connect(self._ping_timeout)
        except Failed as failure:
            self._complain("PING", failure)
            return
        self._connection.request(PING, timeout=self._ping_timeout, track=False)
        self._log(f"Sent PING request to server at {self._url}")

    def _track_ping(self) -> None:
        request = PingRequest()
        if self._run(request, "PING", self._ping_timeout):
            self._screen.answer(f"{ROLE}: Successfully received ID: {format_id(request.id)}")

    def _data(self) -> None:
        request = StreamRequest()
        if self._run(request, "RR_STREAM", self._data_timeout):
            self._screen.answer(f"{ROLE}: Successfully received {BLOCK_TOTAL} bytes in {request.blocks} blocks")

    def _bulk_ping(self, total: int) -> None:
        if self._begin_bulk("PING", "PING", total):
            self._run_bulk("PING", PingRequest, total, WINDOW)

    def _bulk_data(self, total: int) -> None:
        if self._begin_bulk("STREAM", "RR_STREAM", total):
            self._run_bulk("STREAM", StreamRequest, total, total + 1, dashes=18)

    # One

    def _run(self, request: ConsoleRequest, command: str, timeout: float) -> bool:
        """True if it was answered."""
        try:
            self._wait_for(request, timeout)
        except Failed as failure:
            self._complain(command, failure)
            return False
        return True

    def _wait_for(self, request: ConsoleRequest, timeout: float) -> None:
        """Raises: Failed."""
        deadline = read_monotonic() + timeout
        self._connect(timeout)
        number: bytes | None = request.begin(self._connection, deadline - read_monotonic())
        try:
            while number is not None:
                end = self._wait(timeout)
                if end.id == number:  # otherwise it belongs to a request that was interrupted
                    number = request.go_on(self._connection, check(end), deadline - read_monotonic())
        finally:
            if number is not None:
                self._connection.forget(number)

    def _connect(self, timeout: float) -> None:
        """Raises: Failed."""
        if not wait_for(self._connected, timeout):
            raise Failed(f"no server answered there within {timeout:g} s. Is it running?")

    def _wait(self, timeout: float) -> End:
        """Raises: Failed."""
        end = take(self._ends, timeout + MARGIN)
        if end is None:
            raise Failed("no answer came in time")
        return end

    # Many

    def _begin_bulk(self, what: str, command: str, total: int) -> bool:
        """False if there is no server: then each request would take its time to fail."""
        self._log(f"Starting bulk {what} test")
        self._log(f"{total} tests")
        try:
            self._connect(self._bulk_timeout)
        except Failed as failure:
            self._complain(command, failure)
            return False
        return True

    def _run_bulk(
        self, what: str, make: Callable[[], ConsoleRequest], total: int, window: int, dashes: int = 20
    ) -> None:
        bulk = Bulk(self._connection, self._wait, self._bulk_timeout)
        try:
            for _ in range(total):
                bulk.begin(make())
                if bulk.under_way >= window:
                    bulk.wait_for_one()
                    self._log(f"{bulk.ended} of {total} completed{'-' * dashes}")
            self._log(f"Submitted all {what} jobs; opque holds {bulk.under_way}")
            while bulk.under_way:
                bulk.wait_for_one()
                self._log(f"{what} {bulk.ended} of {total} completed{'-' * dashes}")
        finally:
            bulk.close()
        self._screen.answer(f"{SUMMARY}{what}\t{total:7d}\t{bulk.successes:9d}")
        for reason, count in bulk.reasons.most_common(1):
            self._screen.complain(f"{ROLE}: {total - bulk.successes} failed, {count} of them like this: {reason}")

    def _complain(self, command: str, failure: Failed) -> None:
        self._screen.complain(
            f"{ROLE}: Failed sending {command} request to server at {self._url} - error = {FAILURE}: {failure}"
        )

    def _log(self, text: str) -> None:
        self._screen.log(BASIC, f"{ROLE}: {text}")
