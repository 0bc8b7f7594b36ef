"""The sockets of one process on the bus, and how much is read from them at a time. Nothing here waits."""

import socket
from contextlib import suppress
from typing import Final

from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.member import Endpoints
from gandy.bus.wire.dialects import Dialect
from gandy.errors import ConfigError

BACKLOG: Final = 128
BUFFER_BYTES: Final = 1 << 20  # for datagrams that come while a handler runs
READS_PER_TURN: Final = 100  # of one socket, before the others get their turn
READ_BYTES: Final = 1 << 16  # with more, Python maps and unmaps memory for each read
DATAGRAM_BUFFER: Final = 1 << 16

# Seconds, and a count: by these we notice that a peer's machine has gone.
KEEPALIVE_IDLE: Final = 5
KEEPALIVE_INTERVAL: Final = 2
KEEPALIVE_COUNT: Final = 3
# The same while data is unacknowledged: then TCP sends no keepalives, and would wait for a quarter of an hour.
UNANSWERED_MS: Final = 1000 * (KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_COUNT)


class Sockets:
    """Either all of them are open or none is. `place`: where other processes reach them."""

    def __init__(self, dialect: Dialect, ip: str) -> None:
        """With the IP 127.0.0.1 no other machine can reach them. Raises: ConfigError."""
        self._all: list[socket.socket] = []
        host = LOCALHOST if ip == LOCALHOST else ""
        try:
            self.discovery = self._open_discovery(dialect, host)
            self.datagrams = self._open(socket.SOCK_DGRAM)
            self.datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            self.datagrams.bind((host, 0))
            self.server = self._open(socket.SOCK_STREAM)
            self.server.bind((host, 0))
            self.server.listen(BACKLOG)
            self.broadcasts = self._open(socket.SOCK_DGRAM)
            self.broadcasts.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        except OSError as error:
            self.close()
            raise ConfigError(f"the bus cannot open its sockets: {error.strerror or error}") from None
        except ConfigError:
            self.close()
            raise
        ports = (self.server, self.datagrams, self.discovery)
        self.place = Endpoints(ip, *(opened.getsockname()[1] for opened in ports))

    def close(self) -> None:
        for opened in self._all:
            opened.close()

    def _open(self, kind: int) -> socket.socket:
        opened = socket.socket(socket.AF_INET, kind)
        opened.setblocking(False)
        self._all.append(opened)
        return opened

    def _open_discovery(self, dialect: Dialect, host: str) -> socket.socket:
        """docs/protocol/bus.md, rule 5."""
        opened = self._open(socket.SOCK_DGRAM)
        for port in dialect.ports:
            with suppress(OSError):
                opened.bind((host, port))
                return opened
        raise ConfigError(
            f"all {len(dialect.ports)} discovery ports of this machine are taken: as many processes that speak dialect "
            f"{dialect.name} are running, in this ensemble or in others; end one of them"
        )


def set_up_link(link: socket.socket) -> None:
    link.setblocking(False)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
