"""OSC in and out, with python-osc and the tools of liblo at the other end, each test in a network of its own."""

import asyncio
import logging
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from queue import Queue
from threading import Event, Thread
from threading import enumerate as list_threads
from typing import Any
from uuid import uuid4

import pytest
from pythonosc.dispatcher import Dispatcher
from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
from pythonosc.osc_message_builder import OscMessageBuilder
from pythonosc.osc_server import BlockingOSCUDPServer
from pythonosc.osc_tcp_server import BlockingOSCTCPServer
from pythonosc.tcp_client import SimpleTCPClient
from pythonosc.udp_client import SimpleUDPClient
from tests.own_network import own_network
from tests.waiting import PATIENCE, until

from gandy.bus import INFINITUM, AsyncEnsemble, Ensemble, Message, Status
from gandy.bus.limits import MAX_OSC_BYTES
from gandy.bus.osc import incoming as osc_in
from gandy.bus.osc import outgoing as osc_out
from gandy.bus.osc import thread as osc_thread
from gandy.bus.osc.streams import END
from gandy.bus.wire import osc
from gandy.bus.wire.messages import frame
from gandy.errors import ConfigError, LinkError, NoClock

HOST = "127.0.0.1"

OscServer = BlockingOSCUDPServer | BlockingOSCTCPServer


@pytest.fixture(autouse=True)
def _network() -> Iterator[None]:
    with own_network():
        yield


@pytest.fixture
def ensemble() -> str:
    return uuid4().hex


@pytest.fixture
def band(ensemble: str) -> Iterator[Ensemble]:
    """Leads the clock after two seconds."""
    with Ensemble(ensemble, dialect="1.1", clock="lead") as band:
        yield band


@pytest.fixture
def silent(ensemble: str) -> Iterator[Ensemble]:
    """Never knows the time."""
    with Ensemble(ensemble, dialect="1.1") as band:
        yield band


@pytest.fixture(autouse=True)
def _calm(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is a bug, whatever comes."""
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class Clients:
    """Those of python-osc, which are closed at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def open(self, port: int) -> SimpleUDPClient:
        client = SimpleUDPClient(HOST, port)
        self._stack.callback(client.close)
        return client

    def open_tcp(self, port: int, mode: str = "1.0") -> SimpleTCPClient:
        client = SimpleTCPClient(HOST, port, mode=mode)  # type: ignore[no-untyped-call]
        self._stack.enter_context(closing(client.socket))
        return client


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)


class Service:
    """A service that keeps what it gets."""

    def __init__(self, band: Ensemble, name: str = "kitchen") -> None:
        self._band = band
        self.got: Queue[tuple[Message, float | None]] = Queue()
        band.service(name).on()(self._take)

    def _take(self, message: Message) -> None:
        try:
            now: float | None = self._band.now()
        except NoClock:
            now = None
        self.got.put((message, now))

    def next(self) -> Message:
        return self.got.get(timeout=PATIENCE)[0]


def a_bundle(when: float, *elements: Any) -> Any:
    builder = OscBundleBuilder(when)  # type: ignore[arg-type]  # it takes floats
    for element in elements:
        builder.add_content(element)
    return builder.build()


def a_message(address: str, *values: Any) -> Any:
    builder = OscMessageBuilder(address)
    for value in values:
        builder.add_arg(value)
    return builder.build()


# From OSC


def test_osc_message_becomes_one_of_the_service(silent: Ensemble, clients: Clients) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0)
    client = clients.open(door.port)
    client.send_message("/cook/soup", [1, 2.5, "x", b"abc", True, False, None, [1, [2]], 1 << 40])
    assert kitchen.next() == Message(
        "/kitchen/cook/soup", "ifsbTFN[i[i]]h", (1, 2.5, "x", b"abc", True, False, None, [1, [2]], 1 << 40), 0.0
    )
    client.send_message("/", [])
    assert kitchen.next() == Message("/kitchen", "", (), 0.0)


def test_all_types_of_osc_have_one_on_the_bus(silent: Ensemble) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0)
    types = "ifsbhdSccrmTFNIt[it[r]]"
    four = b"\1\2\3\4"
    values = (1, 0.5, "s", b"b", 2, 0.25, "S", "c", "ü", four, four, True, False, None, INFINITUM, 1, [1, 0, [four]])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(osc.encode(osc.OscMessage("/all", types, values)), (HOST, door.port))
    message = kitchen.next()
    assert message.types == "ifsbhdSccbmTFNIt[it[b]]"
    assert message.values == (*values[:-2], 0.0, [1, 0.0, [four]])


def test_message_goes_to_wherever_the_service_is(ensemble: str, silent: Ensemble, clients: Clients) -> None:
    with Ensemble(ensemble, dialect="1.1") as far:
        kitchen = Service(far)
        door = silent.osc_in("kitchen", 0)
        assert silent.wait_for("kitchen", PATIENCE)
        clients.open(door.port).send_message("/cook", 3)
        assert kitchen.next() == Message("/kitchen/cook", "i", (3,), 0.0)


@pytest.mark.parametrize("mode", ["1.0", "1.1"])
def test_messages_come_by_tcp(silent: Ensemble, mode: str, clients: Clients) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0, tcp=True)
    client = clients.open_tcp(door.port, mode)
    for number in range(1, 100):
        client.send_message("/cook", [number, b"\xc0\xdb\xdb\xdc\xdd" * number])
    for number in range(1, 100):
        assert kitchen.next().values == (number, b"\xc0\xdb\xdb\xdc\xdd" * number)


@pytest.mark.parametrize("wrap", [frame, lambda data: END + data + END], ids=["length", "slip"])
def test_bytes_may_come_one_by_one(silent: Ensemble, wrap: Callable[[bytes], bytes]) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0, tcp=True)
    with socket.create_connection((HOST, door.port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in wrap(osc.encode(osc.OscMessage("/cook", "is", (3, "soup")))) * 3:
            peer.sendall(bytes([byte]))
        for _ in range(3):
            assert kitchen.next().values == (3, "soup")


def test_message_without_a_service_is_counted(silent: Ensemble, clients: Clients) -> None:
    door = silent.osc_in("kitchen", 0)
    client = clients.open(door.port)
    client.send_message("/cook", 1)
    until(lambda: door.dropped == {"no process offers the service": 1})
    kitchen = Service(silent)
    client.send_message("/cook", 2)
    assert kitchen.next().values == (2,)


def test_patterns_reach_all_handlers(silent: Ensemble, clients: Clients) -> None:
    got: Queue[int] = Queue()
    kitchen = silent.service("kitchen")
    for number in range(3):
        kitchen.on(f"/oven/{number}")(lambda number=number: got.put(number))
    clients.open(silent.osc_in("kitchen", 0).port).send_message("/oven/[01]", [])
    assert {got.get(timeout=PATIENCE), got.get(timeout=PATIENCE)} == {0, 1}


# Bundles


def test_time_tags_become_shared_times(band: Ensemble, clients: Clients) -> None:
    kitchen = Service(band)
    client = clients.open(band.osc_in("kitchen", 0).port)
    assert band.wait_for_clock(PATIENCE)
    wall, shared = time.time(), band.now()
    client.send(a_bundle(wall + 0.4, a_message("/late", 1), a_message("/late", 2)))
    client.send(a_bundle(wall + 0.2, a_message("/early")))
    client.send(a_bundle(IMMEDIATELY, a_message("/now")))
    client.send(a_bundle(wall - 0.5, a_message("/past")))
    got = [kitchen.got.get(timeout=PATIENCE) for _ in range(5)]
    assert [message.address for message, _ in got[-3:]] == ["/kitchen/early", "/kitchen/late", "/kitchen/late"]
    assert [message.values for message, _ in got[-2:]] == [(1,), (2,)]
    assert {message.address for message, _ in got[:2]} == {"/kitchen/now", "/kitchen/past"}
    for message, arrived in got:
        assert arrived is not None
        assert arrived >= message.time
    for message, ahead in ((got[2][0], 0.2), (got[3][0], 0.4)):
        assert message.time == pytest.approx(shared + ahead, abs=0.1)  # the machine may stop between two clocks


def test_bundle_within_a_bundle_is_never_before_it(band: Ensemble, clients: Clients) -> None:
    kitchen = Service(band)
    client = clients.open(band.osc_in("kitchen", 0).port)
    assert band.wait_for_clock(PATIENCE)
    wall = time.time()
    inner = a_bundle(IMMEDIATELY, a_message("/inner"))
    client.send(a_bundle(wall + 0.2, a_message("/outer"), inner, a_bundle(wall + 0.3, a_message("/later"))))
    got = [kitchen.next() for _ in range(3)]
    assert [message.address for message in got] == ["/kitchen/outer", "/kitchen/inner", "/kitchen/later"]
    assert got[0].time == got[1].time > 0.0
    assert got[2].time - got[0].time == pytest.approx(0.1, abs=1e-5)


def test_without_a_clock_nothing_is_early(silent: Ensemble, clients: Clients) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0)
    client = clients.open(door.port)
    client.send(a_bundle(time.time() + 60, a_message("/future"), a_message("/future")))
    client.send(a_bundle(time.time() - 60, a_message("/past")))
    client.send(a_bundle(IMMEDIATELY, a_message("/now")))
    assert [kitchen.next() for _ in range(2)] == [
        Message("/kitchen/past", "", (), 0.0),
        Message("/kitchen/now", "", (), 0.0),
    ]
    assert door.dropped == {"it has a time, and the shared time is not known": 2}


def test_receiver_without_a_clock_gets_nothing_early(ensemble: str, band: Ensemble, clients: Clients) -> None:
    assert band.wait_for_clock(PATIENCE)
    door = band.osc_in("kitchen", 0)
    client = clients.open(door.port)
    with Ensemble(ensemble, dialect="1.1") as far:
        kitchen = Service(far)
        assert band.wait_for("kitchen", PATIENCE)
        client.send(a_bundle(time.time() - 60, a_message("/past")))  # perhaps it knows the time already, perhaps not
        assert kitchen.next().address == "/kitchen/past"
        until(lambda: band.status("kitchen") is Status.REMOTE)
        client.send(a_bundle(time.time() + 0.1, a_message("/soon")))
        message, arrived = kitchen.got.get(timeout=PATIENCE)
        assert arrived is not None
        assert arrived >= message.time > 0.0


def test_message_too_far_ahead_is_counted(band: Ensemble, clients: Clients) -> None:
    Service(band)
    door = band.osc_in("kitchen", 0)
    assert band.wait_for_clock(PATIENCE)
    clients.open(door.port).send(a_bundle(time.time() + 1e6, a_message("/future")))
    until(lambda: door.dropped == {"its time is too far away": 1})


def test_time_tags_among_the_values_are_shared_times(band: Ensemble) -> None:
    kitchen = Service(band)
    assert band.wait_for_clock(PATIENCE)
    echo = band.osc_in("kitchen", 0)
    band.osc_out("echo", HOST, echo.port)
    now = band.now()
    band.send("/echo/t", now, 0.0, types="tt")  # there and back
    message = kitchen.next()
    assert message.types == "tt"
    assert message.values == (pytest.approx(now, abs=0.1), 0.0)


def test_time_tags_among_the_values_need_a_clock(silent: Ensemble) -> None:
    Service(silent)
    door = silent.osc_in("kitchen", 0)
    out = silent.osc_out("echo", HOST, door.port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(osc.encode(osc.OscMessage("/t", "t", (1 << 63,))), (HOST, door.port))
    until(lambda: door.dropped == {"it has a time, and the shared time is not known": 1})
    silent.send("/echo/t", 5.0, types="t")
    until(lambda: out.dropped == {"it has a time among its values, and the shared time is not known": 1})


# Peers that are not kind


@pytest.mark.parametrize("data", [b"", b"/", b"/x", b"nonsense", b"#bundle\0", b"/x\0\0,i\0\0", b"\xff" * 60_000])
def test_nonsense_is_counted(silent: Ensemble, data: bytes) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(data, (HOST, door.port))
        until(lambda: door.dropped == {"it is not OSC": 1})
        peer.sendto(osc.encode(osc.OscMessage("/cook")), (HOST, door.port))
        assert kitchen.next().address == "/kitchen/cook"


def test_nonsense_in_a_frame_is_no_reason_to_cut(silent: Ensemble) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0, tcp=True)
    with socket.create_connection((HOST, door.port)) as peer:
        peer.sendall(frame(b"nonsense") + frame(osc.encode(osc.OscMessage("/cook"))))
        assert kitchen.next().address == "/kitchen/cook"
    assert door.dropped == {"it is not OSC": 1}


@pytest.mark.parametrize(
    "data",
    [struct.pack(">I", MAX_OSC_BYTES + 1), END + b"x" * (MAX_OSC_BYTES + 1)],
    ids=["length", "slip"],
)
def test_endless_message_is_cut(silent: Ensemble, data: bytes) -> None:
    door = silent.osc_in("kitchen", 0, tcp=True)
    with socket.create_connection((HOST, door.port), PATIENCE) as peer:
        peer.sendall(data)
        with suppress(ConnectionResetError):  # some of it was not read
            assert peer.recv(1) == b""
    until(lambda: door.dropped == {"too long": 1})


def test_connections_are_few(silent: Ensemble, monkeypatch: pytest.MonkeyPatch, clients: Clients) -> None:
    monkeypatch.setattr(osc_in, "MAX_OSC_CONNECTIONS", 2)
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0, tcp=True)
    peers = []
    for number in range(2):
        peers.append(clients.open_tcp(door.port))
        peers[-1].send_message("/cook", number)
        assert kitchen.next().values == (number,)
    with socket.create_connection((HOST, door.port), PATIENCE) as third:
        assert third.recv(1) == b""
    assert door.dropped == {"too many connections": 1}
    for peer in peers:  # who goes makes room
        peer.socket.close()
    until(lambda: not door._streams)
    clients.open_tcp(door.port).send_message("/cook", 3)
    assert kitchen.next().values == (3,)


def test_handlers_that_are_behind_slow_the_sender_down(silent: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(osc_thread, "MAX_WAITING_DELIVERIES", 100)
    goes_on, count = Event(), 2_000
    got: list[int] = []

    def cook(number: int, _: bytes) -> None:
        goes_on.wait(PATIENCE)
        got.append(number)

    silent.service("kitchen").on("/cook")(cook)
    door = silent.osc_in("kitchen", 0, tcp=True)
    blob = b"x" * 10_000  # all of them do not fit the buffers of the system
    data = b"".join(frame(osc.encode(osc.OscMessage("/cook", "ib", (number, blob)))) for number in range(count))
    with socket.create_connection((HOST, door.port)) as peer:
        sender = Thread(target=peer.sendall, args=(data,))
        sender.start()
        deliveries = silent.engine.member.deliveries
        until(lambda: len(deliveries) > 100)
        sender.join(0.1)
        assert sender.is_alive()
        assert len(deliveries) < 120  # one read more
        goes_on.set()
        until(lambda: len(got) == count)
        sender.join()
    assert got == list(range(count))


# To OSC


class Program:
    """An OSC program that keeps what it gets."""

    def __init__(self, server: type[OscServer], port: int = 0, **options: Any) -> None:
        self.got: Queue[tuple[Any, ...]] = Queue()
        dispatcher = Dispatcher()
        dispatcher.set_default_handler(lambda *told: self.got.put((time.time(), *told)))
        self.server = server((HOST, port), dispatcher, **options)
        self.port: int = self.server.server_address[1]
        self._thread = Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def next(self) -> tuple[Any, ...]:
        return self.got.get(timeout=PATIENCE)[1:]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@contextmanager
def a_program(server: type[OscServer] = BlockingOSCUDPServer, port: int = 0, **options: Any) -> Iterator[Program]:
    program = Program(server, port, **options)
    try:
        yield program
    finally:
        program.close()


def test_messages_of_the_service_go_out(silent: Ensemble) -> None:
    with a_program() as program:
        door = silent.osc_out("far", HOST, program.port)
        assert silent.status("far") is Status.TO_OSC_NOTIME
        silent.send("/far/cook/soup", 1, 2.5, "x", b"abc", True, None, [1, [2]])
        assert program.next() == ("/cook/soup", 1, 2.5, "x", b"abc", True, None, [1, [2]])
        silent.send("!far/bell")
        assert program.next() == ("/bell",)
        silent.send("/far/*/x?", 1)  # patterns are the program's business
        assert program.next() == ("/*/x?", 1)
        silent.send("/far")
        assert program.next() == ("/",)
        assert not door.dropped


def test_types_that_osc_lacks_become_others(silent: Ensemble) -> None:
    with a_program() as program:
        silent.osc_out("far", HOST, program.port)
        silent.send("/far/x", True, False, (1, 2), (0.5,), (), [(1 << 40,), True], types="BBvivfvd[vhB]")
        assert program.next() == ("/x", True, False, [1, 2], [0.5], [], [[1 << 40], True])


def test_messages_of_others_go_out_too(ensemble: str, silent: Ensemble) -> None:
    with a_program() as program, Ensemble(ensemble, dialect="1.1") as far:
        silent.osc_out("far", HOST, program.port)
        assert far.wait_for("far", PATIENCE)
        assert far.status("far") is Status.REMOTE_NOTIME
        far.send("/far/x", 1)
        far.send("/far/x", 2, reliable=False)
        assert {program.next(), program.next()} == {("/x", 1), ("/x", 2)}


def test_timed_message_goes_out_at_its_time(band: Ensemble) -> None:
    assert band.wait_for_clock(PATIENCE)
    with a_program() as program:
        band.osc_out("far", HOST, program.port)
        assert band.status("far") is Status.TO_OSC
        wall, shared = time.time(), band.now()
        band.send("/far/second", at=shared + 0.2)
        band.send("/far/first", at=shared + 0.1)
        assert [program.got.get(timeout=PATIENCE)[1] for _ in range(1)] == ["/first"]
        came, address = program.got.get(timeout=PATIENCE)
        assert address == "/second"
        assert came > wall + 0.19  # wall clocks may be slewed


def test_messages_go_out_by_tcp(silent: Ensemble) -> None:
    with a_program(BlockingOSCTCPServer, mode="1.0") as program:
        door = silent.osc_out("far", HOST, program.port, tcp=True)
        for number in range(1000):
            silent.send("/far/x", number, "x" * number)
        assert [program.next() for _ in range(1000)] == [("/x", number, "x" * number) for number in range(1000)]
        assert not door.dropped
        silent.close()


def test_program_that_comes_later_gets_what_is_sent_then(
    silent: Ensemble, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(osc_out, "RETRY_SECONDS", 0.0)
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    door = silent.osc_out("far", HOST, port, tcp=True)
    silent.send("/far/x", 1)
    until(lambda: sum(door.dropped.values()) > 0)
    assert len(caplog.records) == 1
    with a_program(BlockingOSCTCPServer, port, mode="1.0") as program:
        until(lambda: try_to_send(silent, program.got))
        silent.send("/far/x", 3)
        while program.next() != ("/x", 3):
            pass
        silent.close()


def try_to_send(band: Ensemble, got: "Queue[Any]") -> bool:
    band.send("/far/x", 2)
    return not got.empty()


def test_program_that_does_not_read_is_cut(silent: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(osc_out, "MAX_OSC_UNSENT_BYTES", 1 << 20)
    with socket.create_server((HOST, 0)) as server:
        door = silent.osc_out("far", HOST, server.getsockname()[1], tcp=True)
        peer, _ = server.accept()
        with peer:
            for _ in range(200):
                silent.send("/far/x", b"x" * 100_000)
            until(lambda: door.dropped["the program does not read; its connection is cut"] > 0)


def test_messages_go_out_before_the_end(silent: Ensemble) -> None:
    done = Event()
    silent.service("done").on("/it")(done.set)
    blob = b"x" * 500_000
    with socket.create_server((HOST, 0)) as server:
        silent.osc_out("far", HOST, server.getsockname()[1], tcp=True)
        for _ in range(10):
            silent.send("/far/x", blob)
        silent.send("/done/it")
        assert done.wait(PATIENCE)
        closer = Thread(target=silent.close)
        closer.start()
        peer, _ = server.accept()
        with peer, peer.makefile("rb") as stream:
            assert stream.read() == frame(osc.encode(osc.OscMessage("/x", "b", (blob,)))) * 10
        closer.join()


def test_message_that_osc_cannot_carry_is_counted(silent: Ensemble) -> None:
    door = silent.osc_out("far", HOST, 9)
    silent.send("/far/x", tuple(range(20_000)))
    until(lambda: door.dropped == {"OSC cannot carry it": 1})
    silent.send("/far/x", b"x" * 70_000)
    until(lambda: door.dropped["it is too long for a datagram"] == 1)


def test_service_is_offered_once(silent: Ensemble) -> None:
    silent.service("kitchen").offer()
    for service in ("kitchen", "far"):
        door = silent.osc_out("far", HOST, 9) if service == "far" else None
        for tcp in (False, True):
            with pytest.raises(ConfigError, match="already"):
                silent.osc_out(service, HOST, 9, tcp=tcp)
        if door is not None:
            door.close()
    assert silent.status("far") is Status.UNKNOWN
    silent.osc_out("far", HOST, 9).close()


# What is refused


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.0.0.1", "255.255.255.255"])
def test_network_needs_a_word(silent: Ensemble, host: str) -> None:
    for tcp in (False, True):
        with pytest.raises(ConfigError, match="insecure"):
            silent.osc_in("kitchen", 0, host=host, tcp=tcp)
        with pytest.raises(ConfigError, match="insecure"):
            silent.osc_out("kitchen", host, 9000, tcp=tcp)
    assert osc_thread.find_host(host, insecure=True) == (host or "0.0.0.0")


def test_places_that_are_none_are_refused(silent: Ensemble) -> None:
    taken = silent.osc_in("kitchen", 0).port
    for service, port in (("kitchen", taken), ("kitchen", -1), ("kitchen", 70_000), ("a/b", 0), ("_cs", 0), ("", 0)):
        with pytest.raises(ConfigError):
            silent.osc_in(service, port)
    for service, port in (("kitchen", 0), ("kitchen", 70_000), ("a/b", 9), ("_o2", 9), ("1.2.3.4:5", 9)):
        with pytest.raises(ConfigError):
            silent.osc_out(service, HOST, port)
    with pytest.raises(ConfigError, match="unknown"):
        silent.osc_out("kitchen", "no such host", 9)


# The end


def test_all_ends_with_the_ensemble(silent: Ensemble, clients: Clients) -> None:
    doors = [silent.osc_in("kitchen", 0), silent.osc_in("kitchen", 0, tcp=True)]
    clients.open_tcp(doors[1].port)
    with a_program(BlockingOSCTCPServer, mode="1.0") as program:
        silent.osc_out("far", HOST, program.port, tcp=True)
        assert "gandy-osc" in {thread.name for thread in list_threads()}
        silent.close()
        silent.close()
        assert not {thread.name for thread in list_threads() if thread.name in ("gandy-bus", "gandy-osc")}
    socket.create_server((HOST, doors[1].port)).close()
    with pytest.raises(LinkError):
        silent.osc_in("kitchen", 0)
    with pytest.raises(LinkError):
        silent.osc_out("far", HOST, 9)


def test_door_can_be_closed_alone(silent: Ensemble, clients: Clients) -> None:
    kitchen = Service(silent)
    first, second = silent.osc_in("kitchen", 0), silent.osc_in("kitchen", 0)
    first.close()
    first.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, first.port))
    clients.open(second.port).send_message("/cook", 1)
    assert kitchen.next().values == (1,)


def test_async_ensemble_has_the_same(ensemble: str) -> None:
    async def run() -> None:
        got: asyncio.Queue[Message] = asyncio.Queue()
        async with AsyncEnsemble(ensemble, dialect="1.1") as band:
            band.service("kitchen").on()(got.put)
            door = band.osc_in("kitchen", 0)
            for tcp in (False, True):
                door = band.osc_in("kitchen", 0, tcp=tcp)
                band.osc_out(f"echo{tcp}", HOST, door.port, tcp=tcp)
                band.send(f"/echo{tcp}/cook", 3)
                message = await asyncio.wait_for(got.get(), PATIENCE)
                assert message == Message("/kitchen/cook", "i", (3,), 0.0)

    asyncio.run(run())


# liblo

needs_liblo = pytest.mark.skipif(
    shutil.which("oscsend") is None or shutil.which("oscdump") is None,
    reason="oscsend and oscdump are not installed: they are in Debian's liblo-tools",
)


@needs_liblo
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_oscsend_reaches_a_service(silent: Ensemble, protocol: str) -> None:
    kitchen = Service(silent)
    door = silent.osc_in("kitchen", 0, tcp=protocol == "tcp")
    words = ["/cook", "ihfdscmTFNI", "1", "5000000000", "0.5", "0.25", "soup", "c", "01020304"]
    subprocess.run(["oscsend", f"osc.{protocol}://{HOST}:{door.port}/", *words], check=True, timeout=PATIENCE)
    message = kitchen.next()
    assert (message.address, message.types) == ("/kitchen/cook", "ihfdscmTFNI")
    assert message.values[:6] == (1, 5000000000, 0.5, 0.25, "soup", "c")
    assert message.values[7:] == (True, False, None, INFINITUM)


@needs_liblo
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_oscdump_shows_messages_of_a_service(silent: Ensemble, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(osc_out, "RETRY_SECONDS", 0.0)
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = ["oscdump", "-L", f"osc.{protocol}://:{port}/"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dump:
        assert dump.stdout is not None
        lines: Queue[str] = Queue()
        reader = Thread(target=keep_lines, args=(dump.stdout, lines))
        reader.start()
        silent.osc_out("far", HOST, port, tcp=protocol == "tcp")
        until(lambda: try_to_send(silent, lines))
        silent.send("/far/cook", 1, 0.5, "soup", (True), None, 1 << 40, types="ifsBNh")
        while "/cook" not in (line := lines.get(timeout=PATIENCE)):
            pass
        assert line.split()[1:] == ["/cook", "ifsTNh", "1", "0.500000", '"soup"', "#T", "Nil", str(1 << 40)]
        silent.close()
        dump.terminate()
        reader.join()


def keep_lines(pipe: Iterable[str], lines: "Queue[str]") -> None:
    for line in pipe:
        lines.put(line)
