"""The sockets of one process on the bus: discovery, datagrams, and a server for links. Nothing here waits."""

import socket
from contextlib import suppress
from typing import Final

from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.member import Place
from gandy.bus.wire.dialects import Dialect
from gandy.errors import ConfigError

BACKLOG: Final = 128
BUFFER_BYTES: Final = 1 << 20  # for datagrams that come while a handler runs

# Seconds: a peer whose machine is gone is noticed without a word of its own.
KEEPALIVE_IDLE: Final = 5
KEEPALIVE_INTERVAL: Final = 2
KEEPALIVE_COUNT: Final = 3
# Nor while we send to it: keepalive is silent then, and TCP alone has patience for a quarter of an hour.
UNANSWERED_MS: Final = 1000 * (KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_COUNT)


class Sockets:
    """All of them are open, or none is."""

    def __init__(self, dialect: Dialect, ip: str) -> None:
        """At 127.0.0.1 nobody outside this machine reaches us. Raises: ConfigError."""
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
            self.shouts = self._open(socket.SOCK_DGRAM)
            self.shouts.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        except OSError as error:
            self.close()
            raise ConfigError(f"the bus cannot open its sockets: {error.strerror or error}") from None
        except ConfigError:
            self.close()
            raise
        ports = (self.server, self.datagrams, self.discovery)
        self.place = Place(ip, *(opened.getsockname()[1] for opened in ports))

    def close(self) -> None:
        for opened in self._all:
            opened.close()

    def _open(self, kind: int) -> socket.socket:
        opened = socket.socket(socket.AF_INET, kind)
        opened.setblocking(False)
        self._all.append(opened)
        return opened

    def _open_discovery(self, dialect: Dialect, host: str) -> socket.socket:
        """At the first port that is free. Without SO_REUSEADDR: two that share a port never hear of one another."""
        opened = self._open(socket.SOCK_DGRAM)
        for port in dialect.ports:
            with suppress(OSError):
                opened.bind((host, port))
                return opened
        raise ConfigError(
            f"all {len(dialect.ports)} discovery ports are taken on this machine: so many processes of dialect "
            f"{dialect.name} are there already, in whatever ensembles; end one of them"
        )


def set_up_link(link: socket.socket) -> None:
    link.setblocking(False)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED_MS)
