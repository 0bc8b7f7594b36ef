"""Stands between a store and a PostgreSQL: loses what it is told to, and gives each transaction another session.

It reads just enough of the protocol to know where an answer ends. One thread serves each client.
"""

import select
import shutil
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from tests.postgres import USER, Postgres

READY: Final = b"Z"  # the server awaits the next statement; then comes the state of the transaction
IDLE: Final = b"I"
CHUNK: Final = 1 << 16

# What a server sends when it has no room for its log. The commit may be in the part of the log that was written.
_FIELDS: Final = b'SPANIC\0VPANIC\0C53100\0Mcould not write to file "pg_wal/xlogtemp.1": No space left on device\0\0'
PANIC: Final = b"E" + struct.pack(">i", 4 + len(_FIELDS)) + _FIELDS


class Loss(Enum):
    """What becomes of the statement that is to be lost. Its client always loses the connection."""

    STATEMENT = "it never comes to the server"
    ANSWER = "the server does it, and its answer is lost"
    BOTH_WAYS = "the connection breaks while the server does it"
    PANIC = "the server does it, and then says that it crashes, because its disk is full"


class Proxy:
    """A place to connect to. With `sessions` above 1 it is a pooler: each transaction meets the next session."""

    def __init__(self, server: Postgres, sessions: int = 1) -> None:
        self.lost = 0  # statements so far
        self.transactions = 0
        self._server = server
        self._sessions = sessions
        self._marker = b""
        self._how = Loss.ANSWER
        self._folder = Path(tempfile.mkdtemp(prefix="gandy-px-", dir="/tmp"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, schema: str) -> str:
        return f"postgresql://{USER}@/postgres?host={self._folder}&schema={schema}"

    def lose(self, marker: bytes, how: Loss) -> None:
        """Lose the next statement with this text, once."""
        self._how, self._marker = how, marker

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        backends: list[socket.socket] = []
        with suppress(OSError, ValueError):  # the second, if it was closed by `close`
            hello = _read_startup(client)
            for _ in range(self._sessions):
                backends.append(self._connect())
                backends[-1].sendall(hello)
                greeting = _read_answer(backends[-1])
            client.sendall(greeting)
            self._relay(client, backends)
        for one in [client, *backends]:
            one.close()
            self._open.discard(one)

    def _connect(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(str(self._server.socket))
        except OSError:
            made.close()
            raise
        self._open.add(made)
        return made

    def _relay(self, client: socket.socket, backends: list[socket.socket]) -> None:
        """Until one of them hangs up, or something is lost."""
        turn, rest = 0, b""
        while True:
            backend = backends[turn % len(backends)]
            readable, _, _ = select.select([client, backend], [], [])
            if client in readable:
                data = client.recv(CHUNK)
                if not data or (self._marker and self._marker in data and self._lose(data, backend, client)):
                    return
                backend.sendall(data)
            else:
                data = backend.recv(CHUNK)
                if not data:
                    return
                client.sendall(data)
                ended, rest = _find_end(rest + data)
                if ended == IDLE:
                    self.transactions += 1
                    turn += 1

    def _lose(self, data: bytes, backend: socket.socket, client: socket.socket) -> bool:
        self._marker = b""
        self.lost += 1
        if self._how is not Loss.STATEMENT:
            backend.sendall(data)
        if self._how in (Loss.ANSWER, Loss.PANIC):
            _read_answer(backend)
        if self._how is Loss.PANIC:
            client.sendall(PANIC)
        return True


def _read_startup(client: socket.socket) -> bytes:
    size = client.recv(4, socket.MSG_WAITALL)
    return size + client.recv(struct.unpack(">i", size)[0] - 4, socket.MSG_WAITALL)


def _read_answer(backend: socket.socket) -> bytes:
    """All that the server sends until it is ready again."""
    answer, rest, ended = b"", b"", b""
    while not ended:
        data = backend.recv(CHUNK)
        if not data:
            raise ConnectionResetError
        answer += data
        ended, rest = _find_end(rest + data)
    return answer


def _find_end(data: bytes) -> tuple[bytes, bytes]:
    """The state of the transaction if all answers are there, and the bytes of a message that is not whole."""
    ended = b""
    while len(data) >= 5:
        size = 1 + struct.unpack(">i", data[1:5])[0]
        if len(data) < size:
            break
        ended = data[5:6] if data[:1] == READY else b""
        data = data[size:]
    return ended, data
