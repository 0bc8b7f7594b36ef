"""A worker of the command line at a round-robin server, which is a plain ROUTER here and speaks no word of gandy's."""

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.e2e.crew import GANDY
from tests.forks import run_command
from tests.free_ports import find_port
from tests.processes import find_busy
from tests.waiting import until
from zmq.auth import load_certificate

from gandy.doors.roundrobin import heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.uplink_events import (
    Connected,
    Event,
    Expired,
    RegisterConfirmed,
    Renew,
    Response,
    Unreachable,
)
from gandy.doors.roundrobin.uplink_thread import UplinkThread, make_routing_id
from gandy.doors.sockets.curve import ServerKeys
from gandy.errors import ConfigError

PATIENCE = 20.0  # seconds; far more than anything here takes on a busy machine
CLIENT = b"tcp://127.0.0.1:6714:62939"
PING_ID = bytes.fromhex("0400000000000000")

KITCHEN = """
import asyncio, time
import gandy

worker = gandy.Worker()

@worker.command
def tell(kind):
    return {
        b"none": None, b"bytes": b"\\0raw", b"text": "gr\\u00f6\\u00dfer", b"number": -7, b"list": ["a", b"b", 3],
        b"large": b"x" * 1_000_000, b"float": 1.5, b"empty": ["a", ""],
    }[kind]

@worker.command
def join(*parts):
    return b"+".join(parts)

@worker.command
async def block(seconds):
    time.sleep(float(seconds))  # and the worker's loop with it

@worker.command
async def rest(seconds):
    await asyncio.sleep(float(seconds))
    return b"rested"

@worker.command
def sleep(seconds):
    time.sleep(float(seconds))

@worker.command(isolate=True)
def cage(word):
    return word * 2

@worker.command
async def count(host_id, last):
    for number in range(int(last)):
        yield b"%06d," % number

@worker.command
def drip(host_id):
    yield b"first"
    time.sleep(1000)

@worker.command
def stumble(host_id):
    yield b"x" * 10_000
    raise RuntimeError("stumbled")
"""

CODES = (
    "tell=tell",
    "join=join",
    "0x20=block",
    "0x21=rest",
    "0x22=sleep",
    "0x23=cage",
    "count=count,stream",
    "drip=drip,stream",
    "stumble=stumble,stream",
)


class Server:
    """What the original's server says, word for word. Its workers are told apart by their routing ids."""

    def __init__(self, port: int = 0, secret: bytes = b"") -> None:
        self.port = port or find_port()
        self.url = f"tcp://127.0.0.1:{self.port}"
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.ROUTING_ID, self.url.encode())
        if secret:
            self._router.setsockopt(zmq.CURVE_SERVER, 1)
            self._router.setsockopt(zmq.CURVE_SECRETKEY, secret)
        self._router.bind(self.url)

    def close(self) -> None:
        self._router.close(0)
        self._context.term()  # afterwards the port is free

    def hear(self) -> list[bytes]:
        """The next message, whatever it is."""
        assert self._router.poll(int(PATIENCE * 1000)), "no message came"
        return self._router.recv_multipart()

    def next(self) -> list[bytes]:
        """The next message that is no heartbeat."""
        while (frames := self.hear())[1:4] == [b"", b"LMQv100", b"\x01"]:
            self.say(frames[0], b"", b"LMQv100", b"\x02", frames[4], b"")
        return frames

    def say(self, *frames: bytes) -> None:
        self._router.send_multipart(frames)

    def greet(self) -> bytes:
        """A worker comes. Gives its routing id."""
        worker, *ping = self.hear()
        assert ping[:3] == [b"", b"LMQv100", b"\x01"]
        assert len(ping[3]) == 8
        assert ping[4:] == [b""]
        assert worker.startswith(self.url.encode() + b":")
        assert 1 <= int(worker.rpartition(b":")[2]) <= 1_000_000
        self.say(worker, b"", b"LMQv100", b"\x02", ping[3], b"")
        return worker

    def take_register(self, slots: bytes) -> bytes:
        worker, *register = self.next()
        assert register[:3] == [b"", b"LMQv100", b"\x04"]
        assert len(register[3]) == 4
        assert register[4:] == [b"\x08", slots, b""]
        self.say(worker, b"", b"LMQv100", b"\x06", register[3], b"")
        return worker

    def give(self, worker: bytes, number: bytes, *args: bytes, command: bytes = b"\x04") -> None:
        """As it passes on what a client sent."""
        self.say(worker, b"", b"LMQv100", command, number, *args, b"", CLIENT)

    def take_response(self, worker: bytes, number: bytes) -> list[bytes]:
        """The payload."""
        frames = self.next()
        assert frames[:6] == [worker, CLIENT, b"", b"LMQv100", b"\x06", number]
        assert frames[-1] == b""
        return frames[6:-1]

    def take_increment(self, worker: bytes) -> None:
        frames = self.next()
        assert frames[:4] == [worker, b"", b"LMQv100", b"\x03"]
        assert len(frames[4]) == 4
        assert frames[5:] == [b"\x07", b""]

    def ask(self, worker: bytes, number: bytes, *args: bytes) -> list[bytes]:
        """The payload of the answer. The slot comes back before it: see `Uplink.finish`."""
        self.give(worker, number, *args)
        return self.take_end(worker, number)

    def take_end(self, worker: bytes, number: bytes) -> list[bytes]:
        self.take_increment(worker)
        return self.take_response(worker, number)


@contextmanager
def a_server(port: int = 0, secret: bytes = b"") -> Iterator[Server]:
    server = Server(port, secret)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def a_worker(folder: Path, url: str, *words: str, slots: int = 10) -> Iterator[subprocess.Popen[bytes]]:
    """With the commands of the kitchen."""
    (folder / "kitchen.py").write_text(KITCHEN)
    codes = [word for code in CODES for word in ("--roundrobin-command", code)]
    command = [sys.executable, "-m", "gandy", "worker", "run", "--roundrobin", url, "--slots", str(slots)]
    command += [] if "--curve" in words else ["--insecure"]
    environ = {**os.environ, "GANDY_HOME": str(folder / "home")}
    process = subprocess.Popen([*command, "--commands", "kitchen", *codes, *words], cwd=folder, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def a_pair(folder: Path, slots: int = 10) -> Iterator[tuple[Server, bytes]]:
    """A server, and the routing id of the worker that has registered there."""
    with a_server() as server, a_worker(folder, server.url, slots=slots):
        worker = server.greet()
        assert server.take_register(b"%d" % slots) == worker
        yield server, worker


def test_frames_are_those_of_the_capture(tmp_path: Path) -> None:
    with a_server() as server, a_worker(tmp_path, server.url) as process:
        worker = server.greet()
        assert server.hear() == [worker, b"", b"LMQv100", b"\x04", bytes.fromhex("00000000"), b"\x08", b"10", b""]
        server.say(worker, b"", b"LMQv100", b"\x06", bytes.fromhex("00000000"), b"")
        server.say(worker, b"", b"LMQv100", b"\x04", PING_ID, b"\x01", b"", CLIENT)
        assert server.next() == [worker, b"", b"LMQv100", b"\x03", bytes.fromhex("01000000"), b"\x07", b""]
        assert server.next() == [worker, CLIENT, b"", b"LMQv100", b"\x06", PING_ID, b""]
        server.say(worker, b"", b"LMQv100", b"\x03", PING_ID, b"\x01", b"", CLIENT)
        assert server.next() == [worker, b"", b"LMQv100", b"\x03", bytes.fromhex("02000000"), b"\x07", b""]
        server.say(worker, b"", b"LMQv100", b"\x04", bytes(4), b"\x0a", b"STREAM_ID", b"1024", b"", CLIENT)
        assert server.next() == [worker, b"", b"LMQv100", b"\x03", bytes.fromhex("03000000"), b"\x07", b""]
        response = server.next()
        assert response[:6] == [worker, CLIENT, b"", b"LMQv100", b"\x06", bytes(4)]
        assert response[6][:3] == b"2R\x08"
        assert count_blocks(response[6][11:]) == 1024
        assert response[7:] == [b""]
        process.send_signal(signal.SIGTERM)
        assert server.next() == [worker, b"", b"LMQv100", b"\x03", b"WORKER", b"\x09", b""]
        assert server.hear()[1:4] == [b"", b"LMQv100", b"\x01"]  # it waits a moment for what was under way
        assert process.wait(PATIENCE) == 0


def count_blocks(data: bytes) -> int:
    """As the original's client checks them."""
    total = 0
    while data:
        offset, size = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
        assert 0 < size <= 1024
        assert offset <= 1024 - size
        assert data[8 : 8 + size] == b"\1" * size
        data = data[8 + size :]
        total += size
    return total


def test_worker_answers_pings_of_the_server(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.say(worker, b"", b"LMQv100", b"\x01", b"probe", b"")
        assert server.next() == [worker, b"", b"LMQv100", b"\x02", b"probe", b""]
        server.say(worker, b"", b"LMQv100", b"\x01", b"far", b"", CLIENT)
        assert server.next() == [worker, CLIENT, b"", b"LMQv100", b"\x02", b"far", b""]


def test_unknown_command_is_answered_and_costs_no_slot(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        assert server.ask(worker, b"1234", b"\x77") == [b"\x28\x00", b"the worker does not have the command 0x77"]
        server.give(worker, b"5678", b"\x77", command=b"\x03")
        server.take_increment(worker)
        server.give(worker, b"9012")
        assert server.take_end(worker, b"9012")[0] == b"\x28\x00"


def test_nonsense_is_dropped(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.say(worker, b"nonsense")
        server.say(worker, b"", b"LMQv101", b"\x01", b"1234", b"")
        server.say(worker, b"", b"LMQv100", b"\x01", b"x" * 600, b"")
        server.say(worker, b"", b"LMQv100", b"\x06", b"unknown", b"")
        assert server.ask(worker, b"1234", b"\x01") == []


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (b"none", []),
        (b"bytes", [b"\0raw"]),
        (b"text", ["größer".encode()]),
        (b"number", [b"-7"]),
        (b"list", [b"a", b"b", b"3"]),
        (b"large", [b"x" * 1_000_000]),
    ],
)
def test_values_are_frames(tmp_path: Path, kind: bytes, payload: list[bytes]) -> None:
    with a_pair(tmp_path) as (server, worker):
        assert server.ask(worker, b"1234", b"tell", kind) == payload


def test_failures_are_told(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        for args, reason in {
            (b"tell", b"float"): "tell gave a value of the type float",
            (b"tell", b"empty"): "an empty frame would end",
            (b"tell", b"other"): "KeyError",
            (b"\x01", b"extra"): "ping() takes 0 positional arguments",
            (b"\x0a", b"STREAM_ID", b"2048"): "rr_stream sends 1024 bytes, not 2048",
        }.items():
            status, text = server.ask(worker, b"1234", *args)
            assert status == b"\x28\x00"
            assert reason in text.decode()


def test_arguments_are_frames(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        large = b"y" * 300_000
        assert server.ask(worker, b"1234", b"join", b"a", b"\0", large) == [b"a+\0+" + large]


def test_isolated_command_runs(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        assert server.ask(worker, b"1234", b"\x23", b"word") == [b"wordword"]


def test_busy_worker_answers_pings(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"\x20", b"3")
        for number in range(5):  # each PONG before the response
            server.say(worker, b"", b"LMQv100", b"\x01", b"probe%d" % number, b"")
            assert server.next() == [worker, b"", b"LMQv100", b"\x02", b"probe%d" % number, b""]
        assert server.take_end(worker, b"1234") == []


def test_dispatches_beyond_the_slots_wait_in_order(tmp_path: Path) -> None:
    with a_pair(tmp_path, slots=1) as (server, worker):
        server.give(worker, b"1111", b"\x21", b"0.3")
        server.give(worker, b"2222", b"\x21", b"0.01")
        server.give(worker, b"3333", b"\x01")
        for number, payload in ((b"1111", [b"rested"]), (b"2222", [b"rested"]), (b"3333", [])):
            assert server.take_end(worker, number) == payload


def test_new_server_is_told_of_the_worker(tmp_path: Path) -> None:
    with a_server() as server, a_worker(tmp_path, server.url, slots=4):
        worker = server.greet()
        server.take_register(b"4")
        server.give(worker, b"1234", b"\x21", b"2")
        server.say(worker, b"", b"LMQv100", b"\x01", b"probe", b"")
        assert server.next()[4] == b"probe"  # so it has the call
        server.close()
        server = Server(server.port)
        try:
            assert server.take_register(b"3") == worker  # ZeroMQ keeps the routing id
            assert server.take_end(worker, b"1234") == [b"rested"]
            assert server.take_register(b"4") == worker
            assert server.ask(worker, b"5678", b"\x01") == []
        finally:
            server.close()


def test_worker_waits_for_its_server(tmp_path: Path) -> None:
    port = find_port()
    with a_worker(tmp_path, f"tcp://127.0.0.1:{port}") as process, a_server(port) as server:
        worker = server.greet()
        server.take_register(b"10")
        assert server.ask(worker, b"1234", b"\x01") == []
        process.send_signal(signal.SIGINT)
        assert server.next()[4:] == [b"WORKER", b"\x09", b""]
        frames = server.hear()
        server.say(frames[0], b"", b"LMQv100", b"\x02", frames[4], b"")
        assert process.wait(PATIENCE) == 0


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal. The kernel has no event for it."""
    mask = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_worker_without_a_server_can_be_stopped(tmp_path: Path) -> None:
    with a_worker(tmp_path, f"tcp://127.0.0.1:{find_port()}") as process:
        until(lambda: catches(find_busy(process.pid), signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_stopped_worker_ends_its_calls(tmp_path: Path) -> None:
    with a_server() as server, a_worker(tmp_path, server.url) as process:
        worker = server.greet()
        server.take_register(b"10")
        server.give(worker, b"1111", b"\x21", b"0.5")
        server.give(worker, b"2222", b"\x22", b"1000")
        server.say(worker, b"", b"LMQv100", b"\x01", b"probe", b"")
        assert server.next()[4] == b"probe"
        process.send_signal(signal.SIGTERM)
        assert server.next()[4:] == [b"WORKER", b"\x09", b""]
        assert server.take_end(worker, b"1111") == [b"rested"]
        assert server.take_end(worker, b"2222") == [b"\x28\x00", b"the worker was stopped"]
        assert process.wait(PATIENCE) == 0


# Streams


def more(server: Server, worker: bytes, handle: bytes, word: bytes = b"0") -> bytes:
    server.give(worker, b"more", b"mqs_more", b"30:me", handle, word)
    return take_packet(server, worker, b"more", handle)


def take_packet(server: Server, worker: bytes, number: bytes, handle: bytes) -> bytes:
    (packet,) = server.take_response(worker, number)
    assert packet[3:11] == handle
    return packet


def test_large_stream_is_fetched_packet_by_packet(tmp_path: Path) -> None:
    with a_pair(tmp_path, slots=1) as (server, worker):
        server.give(worker, b"1234", b"count", b"30:me", b"200000")
        (packet,) = server.take_response(worker, b"1234")
        handle = packet[3:11]
        server.give(worker, b"next", b"\x01")  # waits: a stream that is read has its slot
        whole = b"".join(b"%06d," % number for number in range(200_000))
        data = packet[11:]
        while len(data) + len(packet[11:]) < len(whole):
            assert (len(packet), packet[:1]) == (8192, b"0")
            packet = more(server, worker, handle)
            data += packet[11:]
        server.give(worker, b"more", b"mqs_more", b"30:me", handle, b"0")
        server.take_increment(worker)  # before the last packet
        packet = take_packet(server, worker, b"more", handle)
        assert packet[:2] == b"2R"
        assert data + packet[11:] == whole
        assert server.take_end(worker, b"next") == []
        assert more(server, worker, handle)[:1] == b"1"  # it is over, and the worker knows it no more


def test_reader_need_not_wait_for_a_full_packet(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"drip", b"30:me")
        (packet,) = server.take_response(worker, b"1234")
        assert packet[:2] == b"0R"
        assert packet[11:] == b"first"
        assert more(server, worker, packet[3:11])[11:] == b""


def test_aborted_stream_gives_its_slot_back(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"count", b"30:me", b"1000000")
        (packet,) = server.take_response(worker, b"1234")
        server.give(worker, b"more", b"mqs_more", b"30:me", packet[3:11], b"1")
        server.take_increment(worker)
        assert take_packet(server, worker, b"more", packet[3:11])[:1] == b"1"
        server.give(worker, b"beat", b"ongoing", b"30:me")
        assert server.take_response(worker, b"beat") == [b"\x28\x00"]


def test_stream_that_fails_on_its_way_is_aborted(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"stumble", b"30:me")
        (packet,) = server.take_response(worker, b"1234")
        assert (packet[:1], len(packet)) == (b"0", 8192)
        frames = server.next()
        assert frames[5] == b"\x07"
        assert more(server, worker, packet[3:11])[:1] == b"1"


def test_stream_lives_as_long_as_its_reader(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"count", b"1:me", b"1000000")
        (packet,) = server.take_response(worker, b"1234")
        begin = time.monotonic()
        while time.monotonic() < begin + 2.0:
            server.give(worker, b"beat", b"ongoing", b"1:me")
            assert server.take_response(worker, b"beat") == [b"\x14\x00"]
        server.take_increment(worker)  # a second later
        assert more(server, worker, packet[3:11])[:1] == b"1"


def test_cast_of_a_stream_gives_nothing_but_the_slot(tmp_path: Path) -> None:
    with a_pair(tmp_path) as (server, worker):
        server.give(worker, b"1234", b"count", b"30:me", b"1000", command=b"\x03")
        server.take_increment(worker)


# Keys


def test_worker_with_keys_works_for_a_server_with_keys(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    ServerKeys.open(folder)
    _, secret = load_certificate(folder / "server.key_secret")
    with a_server(secret=secret or b"") as server, a_worker(tmp_path, server.url, "--curve", str(folder)):
        worker = server.greet()
        server.take_register(b"10")
        assert server.ask(worker, b"1234", b"\x01") == []


# The command line


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--roundrobin", "tcp://127.0.0.1:1", "--foreman", "unix:x"], 2, "--foreman is for workers of a foreman"),
        (["--roundrobin", "tcp://127.0.0.1:1", "--reserve", "1"], 2, "--reserve is for workers of a foreman"),
        (["--roundrobin-command", "0x20=cook"], 2, "--roundrobin-command needs --roundrobin"),
        (["--roundrobin", "tcp://10.0.0.7:6714"], 1, "--insecure for none"),
        (["--roundrobin", "tcp://127.0.0.1:6714"], 1, "Use --curve FOLDER for keys, or --insecure for none"),
        (["--roundrobin", "nonsense"], 1, "is not an address"),
        (["--roundrobin", "tcp://127.0.0.1:1", "--insecure", "--roundrobin-command", "0x07=x"], 1, "the queue itself"),
        (
            ["--roundrobin", "tcp://127.0.0.1:1", "--insecure", "--roundrobin-command", "0x20=cook"],
            1,
            "the command cook is not installed",
        ),
        (["--roundrobin", "tcp://127.0.0.1:1", "--curve", "/nowhere"], 1, "/nowhere"),
    ],
)
def test_mistakes_of_the_user_are_refused(tmp_path: Path, words: list[str], code: int, text: str) -> None:
    environ = {**os.environ, "GANDY_HOME": str(tmp_path)}
    done = run_command([GANDY, "worker", "run", *words], b"", environ, PATIENCE)
    assert text in done.stderr.decode()
    assert done.returncode == code


# The connection by itself


class Listener:
    """An uplink, and what it told."""

    def __init__(self, url: str) -> None:
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.thread = UplinkThread(url, self._on_events, ids=MessageIds())

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            self._told.put(event)

    def next(self) -> Event:
        return self._told.get(timeout=PATIENCE)


@contextmanager
def a_listener(url: str) -> Iterator[Listener]:
    listener = Listener(url)
    listener.thread.start()
    try:
        yield listener
    finally:
        listener.thread.close()


def test_client_gets_its_response_and_the_way_to_its_worker() -> None:
    with a_server() as server, a_listener(server.url) as listener:
        number = listener.thread.request(b"\x0a", b"STREAM_ID", b"1024", timeout=PATIENCE)  # waits for the server
        client = server.greet()
        assert listener.next() == Connected()
        assert listener.thread.is_connected
        assert listener.thread.silent_seconds == 0.0
        assert server.next() == [client, b"", b"LMQv100", b"\x04", number, b"\x0a", b"STREAM_ID", b"1024", b""]
        server.say(client, b"", b"LMQv100", b"\x06", number, b"packet", b"", b"worker")
        assert listener.next() == Response(number, (b"packet",), (b"worker",))
        listener.thread.request(b"mqs_more", b"STREAM_ID", timeout=PATIENCE, to=(b"worker",))
        assert server.next()[:4] == [client, b"worker", b"", b"LMQv100"]


def test_client_is_told_that_no_response_came() -> None:
    with a_server() as server, a_listener(server.url) as listener:
        server.greet()
        assert listener.next() == Connected()
        number = listener.thread.request(b"\x01", timeout=0.05)
        assert listener.next() == Expired(number, "no answer came in time")


def test_what_was_sent_is_sent_before_the_end() -> None:
    with a_server() as server:
        with a_listener(server.url) as listener:
            client = server.greet()
            assert listener.next() == Connected()
            for _ in range(100):
                listener.thread.request(b"\x20", b"x" * 10_000, timeout=1.0, track=False)
        assert [server.next()[:4] for _ in range(100)] == [[client, b"", b"LMQv100", b"\x03"]] * 100
        listener.thread.request(b"\x20", timeout=1.0)  # goes nowhere, and does no harm
        listener.thread.close()


def test_silent_server_is_left_for_a_new_socket_with_a_new_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_PERIOD", 0.2)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_EXPIRY", 1.0)
    with a_server() as server, a_listener(server.url) as listener:
        listener.thread.register(3)
        first = server.greet()
        assert server.take_register(b"3") == first
        assert [listener.next(), listener.next()] == [Connected(), RegisterConfirmed()]
        assert isinstance(listener.next(), Unreachable)  # the server says nothing meanwhile
        assert listener.next() == Renew()
        while (frames := server.hear())[0] == first:
            assert frames[3] == b"\x01"
        server.say(frames[0], b"", b"LMQv100", b"\x02", frames[4], b"")
        assert server.take_register(b"3") == frames[0]
        assert [listener.next(), listener.next()] == [Connected(), RegisterConfirmed()]


def test_failing_listener_does_not_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    told: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def fail(events: list[Event]) -> None:
        for event in events:
            told.put(event)
        raise RuntimeError("no idea")

    with a_server() as server:
        thread = UplinkThread(server.url, fail)
        thread.start()
        client = server.greet()
        assert told.get(timeout=PATIENCE) == Connected()
        server.say(client, b"", b"LMQv100", b"\x01", b"probe", b"")
        assert server.next() == [client, b"", b"LMQv100", b"\x02", b"probe", b""]
        thread.close()
    assert "no idea" in caplog.text


def test_every_message_can_be_watched() -> None:
    came: list[list[bytes]] = []
    went: list[list[bytes]] = []
    with a_server() as server:
        listener = Listener(server.url)
        listener.thread.on_in, listener.thread.on_out = came.append, went.append
        listener.thread.start()
        server.greet()
        assert listener.next() == Connected()
        listener.thread.close()
    ((_, _, command, greeting, _),) = went
    assert command == b"\x01"
    assert came == [[b"", b"LMQv100", b"\x02", greeting, b""]]


def test_uplink_that_never_began_can_be_closed() -> None:
    UplinkThread("tcp://127.0.0.1:1", lambda _events: None).close()


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot connect to nonsense://x"):
        UplinkThread("nonsense://x", lambda _events: None)


def test_routing_id_fits() -> None:
    assert len(make_routing_id("tcp://" + "x" * 300 + ":1")) <= 255
