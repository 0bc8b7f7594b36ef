"""Those who pose as a foreman, and remember all that they were told; and one who passes everything on."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from tests.as_root import can_be_nobody
from tests.netns.namespaces import Namespace
from tests.netns.programs import Program
from tests.waiting import until

from gandy.keys.foreman import ForemanKeys

PATIENCE: Final = 5.0  # seconds in which a visitor may send something
NOBODY: Final = 65534

UNIX_TRAP: Final = """
import os, socket, sys
path = sys.argv[1]
with socket.socket(socket.AF_UNIX) as server:
    server.bind(path)
    os.chmod(path, 0o777)
    os.setgid({nobody})
    os.setuid({nobody})
    server.listen()  # from here on, this user is at the other end of it
    print("ready", flush=True)
    while True:
        with server.accept()[0] as link:
            print("heard", link.recv(1000), flush=True)
"""


class Trap:
    """Takes connections at a port of a machine. With keys it speaks TLS, and asks for the keys of others."""

    def __init__(self, server: socket.socket, keys: ForemanKeys | None) -> None:
        self.visits = 0
        self.heard = b""
        self.handshakes: set[str] = set()  # messages that came
        self._server = server
        self._context = keys.make_context() if keys is not None else None
        if self._context is not None:
            anything: Any = self._context
            anything._msg_callback = self._on_handshake
        Thread(target=self._serve, daemon=True).start()

    def _on_handshake(
        self, _link: object, direction: str, _version: object, _kind: object, what: Any, _: bytes
    ) -> None:
        if direction == "read":
            self.handshakes.add(getattr(what, "name", str(what)))

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                link = self._server.accept()[0]
                link.settimeout(PATIENCE)
                with link, suppress(OSError):
                    self._listen(link)
                self.visits += 1

    def _listen(self, link: socket.socket) -> None:
        if self._context is None:
            self.heard += link.recv(1000)
            return
        with self._context.wrap_socket(link, server_side=True) as tls:
            self.heard += tls.recv(1000)

    def until_visited(self) -> None:
        until(lambda: self.visits > 0)


@contextmanager
def a_trap(machine: Namespace, port: int, home: Path | None = None) -> Iterator[Trap]:
    """With keys of its own in this home, if it has one."""
    with machine.inside(), socket.create_server(("0.0.0.0", port)) as server:
        try:
            yield Trap(server, ForemanKeys(home) if home is not None else None)
        finally:
            server.shutdown(socket.SHUT_RDWR)


@contextmanager
def a_unix_trap(path: Path) -> Iterator[Program]:
    """It belongs to another user. What it hears it tells. Skips the test where there can be no other user."""
    if not can_be_nobody():
        pytest.skip("only root can be another user")
    with Program([sys.executable, "-c", UNIX_TRAP.format(nobody=NOBODY), path]) as program:
        program.expect("ready")
        yield program


# Port forwards


@contextmanager
def a_forward(machine: Namespace, port: int, target: tuple[str, int]) -> Iterator[None]:
    """What comes to a port of this machine, by its own name `localhost` too, goes to another one."""
    with machine.inside(), socket.create_server(("", port)) as server:
        Thread(target=_forward, args=(server, target), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)


def _forward(server: socket.socket, target: tuple[str, int]) -> None:
    with suppress(OSError):  # it is closed
        while True:
            near = server.accept()[0]
            Thread(target=_join, args=(near, socket.create_connection(target)), daemon=True).start()


def _join(near: socket.socket, far: socket.socket) -> None:
    with near, far:
        back = Thread(target=_pump, args=(far, near), daemon=True)
        back.start()
        _pump(near, far)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
