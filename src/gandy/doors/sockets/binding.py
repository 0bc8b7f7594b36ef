"""Binds a ROUTER socket at a TCP address, with the options that all doors have."""

import errno
import socket
from typing import Final

import zmq

from gandy.config import Address
from gandy.doors.limits import MAX_ROUTING_ID
from gandy.doors.sockets.curve import ServerKeys
from gandy.doors.sockets.reader import Socket
from gandy.doors.sockets.unsent import LARGE_FRAME
from gandy.errors import ConfigError

HIGH_WATER: Final = 10_000  # messages that wait for one peer, or from it
BACKLOG: Final = 4096  # connections that wait to be accepted: a whole crew may come back at the same moment
HANDSHAKE_MS: Final = 5_000  # for a peer to identify itself; a peer that sends random bytes is cut then
KEEPALIVE_SECONDS: Final = (5, 2)  # of silence before the kernel probes a peer, and between two probes
KEEPALIVE_COUNT: Final = 3
PORT_TRIES: Final = 10  # for a free port: other programs look for one too


def bind_router(
    context: zmq.Context[Socket],
    address: Address,
    curve: ServerKeys | None,
    max_message: int,
    routing_id: bytes | None,
) -> tuple[Socket, Address]:
    """The socket, and its address with the port. Raises: ConfigError."""
    host = _resolve(address)
    for tries in range(PORT_TRIES):
        # The port must be known before we bind: it is part of our routing id, which cannot change later.
        bound = address._replace(port=address.port or _find_free_port(address, host))
        own = str(bound).encode() if routing_id is None else routing_id
        if not 0 < len(own) <= MAX_ROUTING_ID:
            raise ConfigError(f"cannot listen at {address}: it has more than {MAX_ROUTING_ID} bytes")
        router = _make_router(context, own, max_message, is_ipv6=":" in host)
        if curve is not None:
            curve.apply(router)
        try:
            router.bind(str(Address("tcp", host, bound.port)))
        except zmq.ZMQError as error:
            router.close(0)
            if error.errno == errno.EADDRINUSE and not address.port and tries < PORT_TRIES - 1:
                continue
            raise _explain(bound, error.errno, error.strerror) from None
        return router, bound
    raise AssertionError("the last try returns or raises")


def _make_router(context: zmq.Context[Socket], routing_id: bytes, max_message: int, *, is_ipv6: bool) -> Socket:
    router = context.socket(zmq.ROUTER)
    router.copy_threshold = LARGE_FRAME
    # The original peers of the round-robin queue are connecting ROUTERs, which address us by our routing id: it must be
    # set before the first one connects.
    router.setsockopt(zmq.ROUTING_ID, routing_id)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # `send` fails if the peer is not connected
    # The newest connection with a routing id gets it. Otherwise a worker whose cable was pulled would silently be
    # refused until the kernel gives up its old connection. The price: a peer that uses another's id gets its messages.
    # But any peer that may connect can also pose as another in what it sends; keys keep strangers out.
    router.setsockopt(zmq.ROUTER_HANDOVER, 1)
    router.setsockopt(zmq.LINGER, 0)
    router.setsockopt(zmq.SNDHWM, HIGH_WATER)
    router.setsockopt(zmq.RCVHWM, HIGH_WATER)
    router.setsockopt(zmq.MAXMSGSIZE, max_message)
    router.setsockopt(zmq.TCP_KEEPALIVE, 1)
    router.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_SECONDS[0])
    router.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_SECONDS[1])
    router.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT)
    router.setsockopt(zmq.BACKLOG, BACKLOG)
    router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    router.setsockopt(zmq.IPV6, int(is_ipv6))
    return router


def _resolve(address: Address) -> str:
    """The IP of a host. libzmq looks up names only for sockets that connect."""
    if address.scheme != "tcp":
        raise ConfigError(f"cannot listen at {address}: ZeroMQ doors are at tcp://HOST:PORT")
    if address.host == "*":
        return "*"
    if address.host == "localhost":  # whatever /etc/hosts says: `check_bind` has accepted it as loopback
        return "127.0.0.1"
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        raise ConfigError(f"cannot listen at {address}: unknown host {address.host!r}") from None
    return str(found[0][4][0])


def _find_free_port(address: Address, host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind(("" if host == "*" else host, 0))
        except OSError as error:
            raise _explain(address, error.errno, error.strerror) from None
        port: int = probe.getsockname()[1]
        return port


def _explain(address: Address, number: int | None, text: str | None) -> ConfigError:
    if number == errno.EADDRINUSE:
        return ConfigError(f"cannot listen at {address}: another program does; stop it, or use another port")
    if number in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return ConfigError(f"cannot listen at {address}: this machine has no such address")
    return ConfigError(f"cannot listen at {address}: {text}")
