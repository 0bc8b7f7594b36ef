"""`gandy console worker`: a round-robin worker that the user registers by hand, and ten children for bulk tests."""

import random
import secrets
from threading import Event as Flag
from typing import Final

from gandy.clocks import read_monotonic
from gandy.doors.roundrobin import uplink_events
from gandy.doors.roundrobin.codes import format_code
from gandy.doors.roundrobin.console.connection import ConsoleConnection
from gandy.doors.roundrobin.console.screen import BASIC, Screen
from gandy.doors.roundrobin.console.shell import ConsoleCommand
from gandy.doors.roundrobin.console.traffic import format_id
from gandy.doors.roundrobin.console.waiting import wait_for
from gandy.doors.roundrobin.streams import BLOCK_TOTAL, HANDLE_BYTES, StreamWriter, make_blocks
from gandy.doors.roundrobin.wire import FAILED, PING, RR_STREAM, TRACKEXEC, QueueMessage, make_response, parse_count
from gandy.doors.sockets.curve import ClientKeys
from gandy.net.exposure import parse_tcp

ROLE: Final = "WORKER"
SLOTS: Final = 10  # as all workers of the original have
CHILDREN: Final = 10  # as its documentation says; the original starts nine
REGISTER_SECONDS: Final = 5.0  # for an answer, as in the original
BULK_SECONDS: Final = 15.0  # the same for ten at once, on a busy machine
GOODBYE_SECONDS: Final = 1.0  # for the server to read our DEREGISTER; often it was stopped before us


class ConsoleWorker:
    """One worker. It runs dispatches at once, in the thread of its connection."""

    def __init__(self, screen: Screen, url: str, keys: ClientKeys | None) -> None:
        """Raises: ConfigError."""
        self._screen = screen
        self._url = url
        self.is_registered = False
        self._is_silent = False
        self._registered = Flag()
        self._gone = Flag()
        self._connection = ConsoleConnection(url, self._on_events, keys, screen, ROLE)

    def begin(self) -> None:
        """Send REGISTER."""
        self._registered.clear()
        self._connection.register(SLOTS)

    def wait(self, seconds: float) -> bool:
        """True if the server confirms the REGISTER in time. If not, it is not sent again."""
        try:
            self.is_registered = wait_for(self._registered, seconds)
        finally:  # also if the user interrupts it
            if not self.is_registered:
                self._connection.deregister()
        return self.is_registered

    def leave(self) -> None:
        """Send DEREGISTER."""
        self._gone.clear()
        self.is_registered = False
        self._connection.deregister()

    def wait_gone(self, seconds: float) -> bool:
        """True if the server has read the DEREGISTER."""
        return wait_for(self._gone, seconds)

    def close(self) -> None:
        self._connection.disconnect()

    # In the thread of the connection

    def _on_events(self, events: list[uplink_events.Event]) -> None:
        for event in events:
            self._on_event(event)

    def _on_event(self, event: uplink_events.Event) -> None:
        match event:
            case uplink_events.Dispatched(ticket, message):
                payload = self._work(message)
                self._log("Sending INCREMENT message...")
                self._connection.finish(ticket, make_response(message, *payload))
            case uplink_events.StreamRequested(message):  # our streams are over with their first packet
                response = make_response(message, FAILED, b"there is no such stream any more")
                if response is not None:
                    self._connection.send(response)
            case uplink_events.RegisterConfirmed():
                if self._registered.is_set():
                    self._log(f"Registered again with server at {self._url}")
                self._registered.set()
            case uplink_events.RegisterRefused(reason):
                self._screen.complain(f"{ROLE}: the server refuses: {reason}")
            case uplink_events.Deregistered():
                self._gone.set()
            case uplink_events.Connected():
                self._is_silent = False
            case uplink_events.Unreachable() if not self._is_silent:
                self._is_silent = True
                self._log(f"No server answers at {self._url}; trying again")
            case _:
                pass

    def _work(self, message: QueueMessage) -> tuple[bytes, ...]:
        """The payload of the response."""
        command, *args = message.args or (b"",)
        if command == PING:
            if message.command == TRACKEXEC:
                self._log(f"PING id = {format_id(message.id)}")
            return ()
        if command != RR_STREAM:
            # The original neither answers nor returns the slot, and has one slot less from then on.
            return (FAILED, f"the worker does not have the command {format_code(command)}".encode())
        if len(args) < 2 or parse_count(args[1]) != BLOCK_TOTAL:
            return (FAILED, b"rr_stream sends %d bytes, and no other number" % BLOCK_TOTAL)
        self._log(f"STREAM id = {format_id(message.id)}")
        return (make_packet(),)

    def _log(self, text: str) -> None:
        self._screen.log(BASIC, f"{ROLE}: {text}")


def make_packet() -> bytes:
    """A whole stream in one packet: it has about three blocks, and a packet has room for hundreds."""
    writer = StreamWriter(secrets.token_bytes(HANDLE_BYTES))
    for block in make_blocks(BLOCK_TOTAL, random.randint):
        writer.write(block)
    writer.close()
    packet = writer.take()
    assert packet is not None, "a closed stream has one"
    return packet


class WorkerConsole:
    """Implements `Console`."""

    def __init__(self, screen: Screen, url: str, curve: str | None, timeout: float | None = None) -> None:
        """Raises: ConfigError."""
        self.commands = {
            "register": ConsoleCommand(self._register, f"Register with the server, with {SLOTS} slots."),
            "deregister": ConsoleCommand(self._deregister, "Get nothing more from the server."),
            "bulk": ConsoleCommand(self._bulk, f"Start {CHILDREN} child workers, which register by themselves."),
            "endbulk": ConsoleCommand(self._end_bulk, "Deregister the child workers and end them."),
        }
        self._screen = screen
        self._url = str(parse_tcp(url))
        self._keys = ClientKeys.open(curve) if curve is not None else None
        self._timeout = REGISTER_SECONDS if timeout is None else timeout
        self._bulk_timeout = BULK_SECONDS if timeout is None else timeout
        self._children: list[ConsoleWorker] = []
        self._parent = self._make()

    def close(self) -> None:
        self._dismiss([*self._children, self._parent], GOODBYE_SECONDS)

    def _make(self) -> ConsoleWorker:
        return ConsoleWorker(self._screen, self._url, self._keys)

    def _register(self) -> None:
        self._parent.begin()
        if self._parent.wait(self._timeout):
            self._screen.answer(f"{ROLE}: Registered with server at {self._url}, with {SLOTS} slots")
        else:
            self._screen.complain(
                f"{ROLE}: Failed sending REGISTER request to server at {self._url} - error = 20: "
                f"no answer came within {self._timeout:g} s. Is the server running?"
            )

    def _deregister(self) -> None:
        if not self._parent.is_registered:
            self._screen.answer(f"{ROLE}: Not registered.")
            return
        self._parent.leave()
        if self._parent.wait_gone(self._timeout):
            self._screen.answer(f"{ROLE}: Deregistered from server at {self._url}")
        else:
            self._screen.complain(f"{ROLE}: Deregistered, but the server at {self._url} has not confirmed it")

    def _bulk(self) -> None:
        if self._children:
            self._screen.answer(f"{ROLE}: The bulk worker threads are there already; endbulk ends them.")
        elif not self._parent.is_registered:
            self._screen.answer("Parent worker needs to be registered first.")
        else:
            self._screen.log(BASIC, f"{ROLE}: Creating {CHILDREN} worker threads for bulk test...")
            self._start_children()

    def _start_children(self) -> None:
        deadline = read_monotonic() + self._bulk_timeout
        for _ in range(CHILDREN):
            self._children.append(self._make())
            self._children[-1].begin()
        for number, child in enumerate(self._children, start=1):
            if not child.wait(deadline - read_monotonic()):
                self._screen.complain(
                    f"{ROLE}: #{number:05d} could not register within {self._bulk_timeout:g} s; all are shut down"
                )
                self._dismiss_children()
                return
            self._screen.answer(f"{ROLE} #{number:05d} REPORTING IN")
        self._screen.answer(f"{ROLE}: Minions created!")

    def _end_bulk(self) -> None:
        if not self._children:
            self._screen.answer(f"{ROLE}: There are no bulk worker threads; bulk starts them.")
            return
        self._screen.log(BASIC, f"{ROLE}: Shutting down all bulk worker threads...")
        self._dismiss_children()
        self._screen.answer(f"{ROLE}: Done with bulk test.")

    def _dismiss_children(self) -> None:
        children, self._children = self._children, []
        self._dismiss(children, self._timeout)

    def _dismiss(self, workers: list[ConsoleWorker], seconds: float) -> None:
        """Dismiss all workers at once, so that it takes no longer than for one."""
        deadline = read_monotonic() + seconds
        leaving = [worker for worker in workers if worker.is_registered]
        for worker in leaving:
            worker.leave()
        for worker in leaving:
            worker.wait_gone(deadline - read_monotonic())
        for worker in workers:
            worker.close()
