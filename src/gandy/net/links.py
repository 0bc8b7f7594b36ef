"""Links on asyncio: bytes in, bytes out, and the peer at the other end. It does not know what the bytes mean."""

import asyncio
import os
import secrets
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from gandy.config import Address
from gandy.core.keyring import Key
from gandy.core.roles import Credentials, CrewRole
from gandy.core.unknown_peers import find_source
from gandy.errors import ConfigError
from gandy.limits import MAX_UNSENT_BYTES
from gandy.net.open_files import limit_by_files

if TYPE_CHECKING:
    from gandy.core.links import Link  # it would load the whole foreman into clients

# Bytes that are handled at a time. Answers to them are written before the next bytes are handled, so that peers work
# meanwhile: in lock-step, three processes are no faster than one.
STEP_BYTES = 16 * 1024

# Connections that wait to be accepted: a whole crew may reconnect at the same moment.
BACKLOG = 4096

LAST_MESSAGE_PAUSE = 1.0  # seconds that a peer has to read the last message

_CREDENTIALS = struct.calcsize("3i")  # bytes: process, user, group


STRANGER = "a stranger"  # the name of a peer that showed no key


class Visitor(NamedTuple):
    """The peer at the other end, for people."""

    name: str  # of the key, or what the peer is if it has none
    place: str  # where it comes from
    role: str = ""  # that its key is for
    key: str = ""  # id

    def __str__(self) -> str:
        return f"{self.name} at {self.place}"


OWNER = Visitor("owner", "this machine")


class LinkOwner(Protocol):
    """Handles the events of its links."""

    def on_link(self, link: "SocketLink") -> None: ...

    def on_data(self, link: "SocketLink", data: bytes) -> None: ...

    def on_cut(self, link: "SocketLink") -> None: ...


class SocketLink(asyncio.Protocol):
    """One connection, whichever side opened it."""

    _count = 0
    _process_mark = secrets.token_hex(3)

    def __init__(self, owner: LinkOwner, role: CrewRole = CrewRole.OWNER, key: Key | None = None) -> None:
        """`role` and `key`: of the peer, if it is the one that connected."""
        SocketLink._count += 1
        self.role = role
        self.key = key
        self.name = f"link{SocketLink._count}-{SocketLink._process_mark}"  # unique: plain peers are known by it
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._place = "nowhere"  # until there is a peer
        self.source = ""  # what its peer is counted as
        self.peer_pid: int | None = None  # the process at the other end of a unix socket, if the kernel says
        self.link: Link | None = None  # what a foreman knows of it
        self.on_drained: Callable[[], None] | None = None  # called once, when no byte of ours waits in our memory

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._place = format_place(transport)
        self.source = get_source(transport)
        self._transport.set_write_buffer_limits(0)  # what is written goes out now, not at the end of the turn
        sock = transport.get_extra_info("socket")
        found = _ask_kernel(sock)
        self.peer_pid = None if found is None else found[0] or None
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.on_link(self)

    def data_received(self, data: bytes) -> None:
        if len(data) <= STEP_BYTES:
            self._owner.on_data(self, data)
            return
        for at in range(0, len(data), STEP_BYTES):
            self._owner.on_data(self, data[at : at + STEP_BYTES])

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._owner.on_cut(self)

    def write(self, data: bytes) -> None:
        if self._transport is None or not data:
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._transport.abort()

    def resume_writing(self) -> None:
        on_drained, self.on_drained = self.on_drained, None
        if on_drained is not None:
            on_drained()

    @property
    def unsent_bytes(self) -> int:
        """That the peer has not read, and that the kernel has no room for."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Until `resume_reading`, what the peer sends waits in the kernel, and then at the peer."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """After what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def dismiss(self, last_message: bytes) -> None:
        """Close it behind a last message, soon even if the peer reads nothing."""
        self.write(last_message)
        self.close()
        asyncio.get_running_loop().call_later(LAST_MESSAGE_PAUSE, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def peer(self) -> Visitor:
        """The peer at the other end, also when it is gone."""
        if self.key is None:
            return Visitor(self.role, self._place)
        return Visitor(self.key.name, self._place, self.key.role, self.key.id)

    @property
    def credentials(self) -> Credentials:
        if self.key is None:
            return Credentials(self.role, self.role)
        return Credentials(self.role, self.key.fingerprint, self.key.expires)

    @property
    def is_foreign(self) -> bool:
        """True if another user is at the other end of a unix socket."""
        return self._transport is not None and is_foreign(self._transport.get_extra_info("socket"))


def get_port(link: "Link") -> SocketLink:
    """The socket of a foreman's link. Only links of tests have none."""
    assert isinstance(link.port, SocketLink)
    return link.port


def format_place(transport: asyncio.BaseTransport) -> str:
    """Where a peer connects from, for people."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return "this machine"
    host = name[0].removeprefix("::ffff:")  # IPv4, at a socket for both kinds
    return f"[{host}]:{name[1]}" if ":" in host else f"{host}:{name[1]}"


def get_source(transport: asyncio.BaseTransport) -> str:
    """What a peer is counted as: its address, or this machine."""
    name = transport.get_extra_info("peername")
    return find_source(name[0]) if isinstance(name, tuple) else "this machine"


def is_foreign(sock: socket.socket | None) -> bool:
    """True if another user is at the other end of a unix socket. Root is not foreign: nothing is hidden from it."""
    found = _ask_kernel(sock)
    return found is not None and found[1] not in (0, os.geteuid())


def _ask_kernel(sock: socket.socket | None) -> tuple[int, int] | None:
    """The process and the user at the other end of a unix socket, if the kernel says."""
    if sock is None or sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return None
    pid, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS))
    return pid, user


async def listen(address: Address, make_link: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """Accept links at this address. A unix socket is for this user only.

    Raises: ConfigError.
    """
    if address.scheme == "ensemble":
        raise ConfigError(f"{address} is not an address to listen at; write unix:PATH or tcp://HOST:PORT")
    loop = asyncio.get_running_loop()
    backlog = limit_by_files(BACKLOG)  # all of them may be accepted at once
    try:
        if address.scheme == "unix":
            return await _listen_unix(loop, address.host, make_link, backlog)
        if address.host == "::":
            return await loop.create_server(make_link, sock=_bind_both(address.port), backlog=backlog)
        return await loop.create_server(make_link, address.host, address.port, backlog=backlog)
    except OSError as error:
        why = (
            os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        )  # getaddrinfo has codes below 0
        raise ConfigError(f"cannot listen at {address}: {why}") from None


def _bind_both(port: int) -> socket.socket:
    """IPv4 and IPv6, as people expect; asyncio would make it IPv6 alone. Raises: OSError."""
    both = socket.socket(socket.AF_INET6)
    try:
        both.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::", port))
    except OSError:
        both.close()
        raise
    return both


async def _listen_unix(
    loop: asyncio.AbstractEventLoop, path: str, make_link: Callable[[], asyncio.Protocol], backlog: int
) -> asyncio.Server:
    if _is_in_use(path):
        raise ConfigError(f"another foreman listens at unix:{path}; stop that one first")
    Path(path).unlink(missing_ok=True)  # left by a foreman that was killed
    before = os.umask(0o177)
    try:
        return await loop.create_unix_server(make_link, path, backlog=backlog)
    finally:
        os.umask(before)


def _is_in_use(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
