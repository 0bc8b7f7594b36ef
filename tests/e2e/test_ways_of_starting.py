"""However gandy is started, nothing of it listens that takes any peer: a table of every way, read from /proc.

Off loopback and on it, TCP demands a key; a unix socket is for its own user. `--insecure`, which a user has to
write, is the only exception.
"""

import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.as_root import can_be_nobody
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.e2e.forts import CLIENT_OFFERS
from tests.e2e.kitchens import ROOT
from tests.free_ports import find_port
from tests.waiting import until

from gandy.bus.wire.control import Discovery, encode_discovery
from gandy.bus.wire.dialects import DIALECTS
from gandy.errors import ErrorCode
from gandy.keys.crew import make_client_context
from gandy.wire import v2
from gandy.wire.messages import Error, Hello

LOOPBACK = ("127.", "::1")
PROBE_SECONDS = 5.0  # that a listener has to say what it is
HELLO = v2.encode(0, Hello(0, (), CLIENT_OFFERS))
ENSEMBLES = ("ways", "gandy")  # of the ways below
UDP_SECONDS = 0.5  # that a peer has to answer; an ensemble without a key takes a millisecond
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)  # ZMTP 3.0


class Unguarded(AssertionError):
    """Something listens, and takes any peer."""


class Listener(NamedTuple):
    """A socket that others can come to."""

    kind: str  # tcp, udp or unix
    host: str  # or the path
    port: int = 0

    @property
    def is_local(self) -> bool:
        return self.host.startswith(LOOPBACK)


# What the kernel knows


def list_tree(pid: int) -> list[int]:
    """A process and all below it. Who is gone while we look is left out."""
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def list_sockets(pid: int) -> set[str]:
    """The numbers of all sockets of a process."""
    found = set()
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                name = str(link.readlink())
                if name.startswith("socket:["):
                    found.add(name[8:-1])
    return found


def list_listeners(pid: int) -> set[Listener]:
    """Of a process and all below it."""
    owned = {number for each in list_tree(pid) for number in list_sockets(each)}
    return {listener for number, listener in _list_all() if number in owned}


def _list_all() -> Iterator[tuple[str, Listener]]:
    for kind, listening in (("tcp", "0A"), ("udp", "07")):
        for version in ("", "6"):
            path = Path(f"/proc/net/{kind}{version}")
            for line in path.read_text().splitlines()[1:] if path.exists() else ():
                words = line.split()
                if words[3] == listening:
                    yield words[9], Listener(kind, *_read_address(words[1]))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split(maxsplit=7)
        if int(words[3], 16) & 0x10000:  # it takes links
            yield words[6], Listener("unix", words[7] if len(words) > 7 else "")


def _read_address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    words = bytes.fromhex(host)
    raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


# Who guards it


def check_guarded(listener: Listener) -> None:
    """Raises: Unguarded."""
    if listener.kind == "unix":
        _check_unix(listener.host)
    elif listener.kind == "udp":
        _check_udp(listener.port)
    elif not any(has_keys(listener.port) for has_keys in (_has_keys_of_zmq, _has_keys_of_tls, _has_keys_of_bus)):
        raise Unguarded(f"{listener} demands no key")


def _check_unix(path: str) -> None:
    if not path.startswith("/"):
        raise Unguarded(f"the unix socket {path!r} has no file, and so no mode")
    mode = Path(path).stat().st_mode & 0o777
    if mode != 0o600:
        raise Unguarded(f"{path} has mode {mode:04o}")
    if can_be_nobody() and _come_as_nobody(path) != "PermissionError":
        raise Unguarded(f"{path} lets another user in")


def _come_as_nobody(path: str) -> str:
    """What another user hears, who is let into every folder above: the socket itself has to refuse."""
    program = (
        "import os, socket, sys\n"
        "os.chdir(sys.argv[1]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    socket.socket(socket.AF_UNIX).connect(sys.argv[2])\n"
        "except OSError as error:\n    print(type(error).__name__)\n"
    )
    folder = Path(path).parent
    mode = folder.stat().st_mode
    folder.chmod(mode | 0o011)
    try:
        words = [sys.executable, "-c", program, str(folder), Path(path).name]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    finally:
        folder.chmod(mode)


def _has_keys_of_tls(port: int) -> bool:
    """Whether it speaks TLS, and then says that it does not know us."""
    context = make_client_context()
    context.set_alpn_protocols(["gandy"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), PROBE_SECONDS) as link,
            context.wrap_socket(link) as tls,
        ):
            tls.sendall(HELLO)
            decoder = v2.V2Decoder()
            while data := tls.recv(1000):
                decoder.receive_data(data)
            heard = decoder.next_message()
            return heard is not None and heard[1] == Error(ErrorCode.UNKNOWN_KEY)
    except (OSError, ssl.SSLError):
        return False


def _has_keys_of_bus(port: int) -> bool:
    """Whether it speaks TLS, and wants a certificate of us."""
    with suppress(OSError):
        try:
            with (
                socket.create_connection(("127.0.0.1", port), PROBE_SECONDS) as link,
                make_client_context().wrap_socket(link) as tls,
            ):
                tls.recv(1000)
        except ssl.SSLError as error:
            return error.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    return False


def _check_udp(port: int) -> None:
    """Who finds a process of its own ensemble connects to it, or answers: but not to one without the key."""
    with socket.socket() as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as shouts:
        server.bind(("127.0.0.1", 0))
        server.listen()
        shouts.bind(("127.0.0.1", 0))
        for ensemble in ENSEMBLES:
            for tcp_port in (server.getsockname()[1], 1):  # one of them is the one that is to be connected to
                here = Discovery(ensemble, "127.0.0.1", tcp_port, shouts.getsockname()[1])
                shouts.sendto(encode_discovery(here, DIALECTS["2016"]), ("127.0.0.1", port))
        if select.select([server, shouts], (), (), UDP_SECONDS)[0]:
            raise Unguarded(f"the datagrams of a stranger were heard at {port}")


def _has_keys_of_zmq(port: int) -> bool:
    """Whether it greets as ZeroMQ does, and wants CURVE."""
    heard = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), PROBE_SECONDS) as link:
        link.sendall(GREETING[:12])  # what we want follows its own word, which a quarrel would cut short
        while len(heard) < 32 and (data := link.recv(64 - len(heard))):
            heard += data
    return heard[:1] == b"\xff" and heard[12:32].rstrip(b"\0") == b"CURVE"


def check_all(listeners: set[Listener]) -> None:
    for listener in sorted(listeners):
        check_guarded(listener)


# The table


class Way(NamedTuple):
    """How it is started, and what of it listens: kinds, in order."""

    words: tuple[str, ...]
    listens: tuple[str, ...]
    is_insecure: bool = False


FOREMAN = ("foreman", "run")
PORT, OTHER = "{port}", "{other}"
CURVE = ("--curve", "{home}/zmq-keys")
COMMANDS = {
    "up": Way(("up", "--slots", "1"), ("unix",)),
    "foreman": Way(FOREMAN, ("unix",)),
    "foreman, store in memory": Way((*FOREMAN, "--store", "memory:"), ("unix",)),
    "foreman --listen loopback": Way((*FOREMAN, "--listen", f"tcp://127.0.0.1:{PORT}"), ("tcp", "unix")),
    "foreman --listen everywhere": Way((*FOREMAN, "--listen", f"tcp://0.0.0.0:{PORT}"), ("tcp", "unix")),
    "foreman --listen twice": Way(
        (*FOREMAN, "--listen", f"127.0.0.1:{PORT}", "--listen", f"127.0.0.1:{OTHER}"), ("tcp", "tcp", "unix")
    ),
    "foreman --listen unix": Way((*FOREMAN, "--listen", "unix:{home}/other.sock"), ("unix", "unix")),
    "foreman --listen plain": Way(
        (*FOREMAN, "--listen", f"plain://127.0.0.1:{PORT}", "--insecure"), ("tcp", "unix"), is_insecure=True
    ),
    "foreman --v1-listen": Way(
        (*FOREMAN, "--v1-listen", f"tcp://127.0.0.1:{PORT}", "--insecure"), ("tcp", "unix"), is_insecure=True
    ),
    "foreman --roundrobin --curve": Way((*FOREMAN, "--roundrobin", f"tcp://127.0.0.1:{PORT}", *CURVE), ("tcp", "unix")),
    "foreman --roundrobin everywhere --curve": Way(
        (*FOREMAN, "--roundrobin", f"tcp://0.0.0.0:{PORT}", *CURVE), ("tcp", "unix")
    ),
    "foreman --pingpong --curve": Way((*FOREMAN, "--pingpong", f"tcp://127.0.0.1:{PORT}", *CURVE), ("tcp", "unix")),
    "foreman --ensemble": Way((*FOREMAN, "--ensemble", "ways"), ("tcp", "udp", "udp", "unix")),
    "console server --curve": Way(
        ("console", "server", "-d", "1", "--address", f"tcp://127.0.0.1:{PORT}", *CURVE), ("tcp",)
    ),
    "bus listen": Way(("bus", "listen", "kitchen"), ("tcp", "udp", "udp")),
    "bus monitor": Way(("bus", "monitor"), ("tcp", "udp", "udp")),
    "bus clock": Way(("bus", "clock"), ("tcp", "udp", "udp")),
    "bus clock --lead": Way(("bus", "clock", "--lead"), ("tcp", "udp", "udp")),
}


@contextmanager
def started(home: Path, words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "GANDY_HOME": str(home), "TERM": "xterm", "PYTHONPATH": str(ROOT)}
    with (home / "said").open("wb") as said:
        process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=said)
    try:
        yield process
    finally:
        for pid in reversed(list_tree(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.communicate(timeout=PATIENCE)


def kinds_of(pid: int) -> list[str]:
    return sorted({(each.kind, each.port or each.host): each.kind for each in list_listeners(pid)}.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(tmp_path: Path, name: str) -> None:
    way = COMMANDS[name]
    tmp_path.chmod(0o700)
    fill = {"port": find_port(), "other": find_port(), "home": tmp_path}
    with started(tmp_path, [GANDY, *(word.format(**fill) for word in way.words)]) as process:
        until(lambda: process.poll() is not None or set(kinds_of(process.pid)) >= set(way.listens))
        found = list_listeners(process.pid)
        assert process.poll() is None, (tmp_path / "said").read_text()
        if way.is_insecure:
            assert "--insecure" in way.words
            found = {each for each in found if each.kind != "tcp"}
        check_all(found)
        assert kinds_of(process.pid) == list(way.listens)


@pytest.mark.parametrize(
    "words",
    [
        (*FOREMAN, "--listen", "plain://127.0.0.1:1"),
        (*FOREMAN, "--v1-listen", "tcp://127.0.0.1:1"),
        (*FOREMAN, "--roundrobin", "tcp://0.0.0.0:1"),
        (*FOREMAN, "--roundrobin", "tcp://127.0.0.1:1"),
        (*FOREMAN, "--pingpong", "tcp://0.0.0.0:1"),
        (*FOREMAN, "--pingpong", "tcp://127.0.0.1:1"),
        ("console", "server", "-d", "1", "--address", "tcp://0.0.0.0:1"),
        ("console", "server", "-d", "1", "--address", "tcp://127.0.0.1:1"),
        ("worker", "run", "--foreman", "plain://127.0.0.1:1"),
    ],
    ids=" ".join,
)
def test_what_would_take_any_peer_is_not_started_without_insecure(tmp_path: Path, words: tuple[str, ...]) -> None:
    crew = Crew(tmp_path)
    with crew.start(*words, stdin=subprocess.DEVNULL) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in (1, 2), said
    assert b"nsecure" in said


# Workers, and programs that use gandy

AT_WORK = "import gandy, sys, time, asyncio\n"
READY = "print('ready', flush=True); time.sleep(600)\n"
PROGRAMS = {
    "Client": f"{AT_WORK}with gandy.Client() as client:\n    client.status(); {READY}",
    "AsyncClient": (
        f"{AT_WORK}async def main():\n    async with gandy.AsyncClient() as client:\n        await client.status()\n"
        f"        print('ready', flush=True)\n        await asyncio.sleep(600)\nasyncio.run(main())\n"
    ),
    "Executor": f"{AT_WORK}with gandy.Client() as client:\n    assert client.run(abs, -3).result() == 3; {READY}",
    "Worker": (
        f"{AT_WORK}worker = gandy.Worker(slots=1, name='another')\n@worker.command\ndef dish():\n    return 1\n"
        "import threading\nthreading.Timer(0, lambda: print('ready', flush=True)).start()\nworker.run()\n"
    ),
    "testing": (
        "from random import Random\nimport gandy.testing, time\nfrom gandy.testing import simulation\n"
        "print('ready', flush=True); time.sleep(600)\n"
    ),
    "Ensemble": f"{AT_WORK}band = gandy.Ensemble('ways')\n{READY}",
}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(crew: Crew, name: str) -> None:
    with started(crew.home, [sys.executable, "-c", PROGRAMS[name]]) as process:
        said = crew.home / "said"
        until(lambda: process.poll() is not None or b"ready" in said.read_bytes())
        assert process.poll() is None, said.read_text()
        check_all(list_listeners(process.pid))


@pytest.mark.parametrize("words", [("--slots", "1"), ("--commands", "tests.e2e.dishes")])
def test_workers_listen_nowhere(crew: Crew, words: tuple[str, ...]) -> None:
    with started(crew.home, [GANDY, "worker", "run", "--name", "another", *words]) as process:
        until(lambda: process.poll() is not None or b"at work" in (crew.home / "said").read_bytes())
        assert process.poll() is None, (crew.home / "said").read_text()
        assert {each for each in list_listeners(process.pid) if each.kind != "unix"} == set()
        check_all(list_listeners(process.pid))


EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(crew: Crew, tmp_path: Path, name: str) -> None:
    """Looked at from the beginning to the end, or for a few seconds where there is none."""
    home = tmp_path if name == "demo.py" else crew.home
    (tmp_path / "said").touch()
    with started(home, [sys.executable, str(ROOT / "examples" / name)]) as process:
        seen: set[Listener] = set()
        end = time.monotonic() + 3.0
        while process.poll() is None and time.monotonic() < end:
            found = list_listeners(process.pid)
            for each in found - seen:
                with suppress(FileNotFoundError, subprocess.CalledProcessError):  # it has gone already
                    check_guarded(each)
            seen |= found
            time.sleep(0.02)
        assert not [each for each in seen if each.kind != "unix"]
