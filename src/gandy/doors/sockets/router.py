"""A bound ROUTER socket on the running loop: messages in by callback, messages out at once or not at all.

It tells who may be gone, as a hint. It knows nothing of what messages mean, keeps none, and waits for nobody.
zmq.asyncio makes futures for each message; here one wake of the loop reads hundreds of them.
"""

import asyncio
import errno
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import zmq

from gandy.config import Address
from gandy.doors.sockets.curve import Porter, ServerKeys
from gandy.doors.values import MAX_FRAMES
from gandy.errors import ConfigError
from gandy.net.exposure import parse_tcp

MAX_MESSAGE: Final = 16 * 1024 * 1024  # bytes of one frame: libzmq cuts a peer that claims more

# Frames of one message; one that has more is dropped. The protocols need ten and a hop each for some routers between.

# What is handled in one go, before others on the loop have their turn. Whichever comes first.
TURN_MESSAGES: Final = 200
TURN_SECONDS: Final = 0.005

HIGH_WATER: Final = 10_000  # messages that wait for one peer, or from it

# Bytes that may wait in our memory for a peer that does not read, in frames from LARGE_FRAME bytes up, which libzmq
# tells us about one by one. Smaller ones are bounded by their number.
MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024
LARGE_FRAME: Final = 16 * 1024

BACKLOG: Final = 4096  # connections that wait to be taken: a whole crew may come back at the same moment
HANDSHAKE_MS: Final = 5_000  # for a peer to say who it is; random bytes and half a greeting end here
KEEPALIVE_SECONDS: Final = (5, 2)  # of silence before the kernel asks a peer, and between two questions
KEEPALIVE_COUNT: Final = 3
LAST_WORDS_MS: Final = 200  # that `close` waits at most for messages on their way

# Seconds between the notice of a lost connection and our hint. libzmq writes the notice a moment before the last
# messages of that connection, and a result that came before the end counts: it goes first.
GRACE: Final = 0.02

# Seconds, after which the hint is given though there are still messages to read.
PATIENCE: Final = 1.0

MAX_PEERS: Final = 100_000  # of whom we know the connection; for others there are no hints
MAX_TRIES: Final = 10  # for a free port: others look for one too
MAX_ROUTING_ID: Final = 255  # bytes, the law of ZMTP

ZAP_ADDRESS: Final = "inproc://zeromq.zap.01"
NEWS_ADDRESS: Final = "inproc://news"

# As plain numbers: to combine enums for each frame takes longer than to send it.
_LAST: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS: Final = int(zmq.EVENTS)
_SOURCE: Final = int(zmq.SRCFD)
_UNDELIVERED: Final = (errno.EAGAIN, zmq.EHOSTUNREACH)
_CONNECTED: Final = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_DISCONNECTED: Final = int(zmq.EVENT_DISCONNECTED)
_NEWS: Final = struct.Struct("=Hi")

_Socket = zmq.Socket[bytes]


class Ear:
    """Calls `hear` as long as there may be something to read from a socket. `hear` says whether it left something.

    A socket's FD wakes us once, and again only after all was read: after each look, and after everything else that
    touches the socket (`wake`), somebody has to look again.
    """

    def __init__(self, socket: _Socket, hear: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._is_awake = False
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._on_readable)
        self.wake()

    def wake(self) -> None:
        """Look again in the next turn."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._on_turn)

    def close(self) -> None:
        """Before the socket is closed."""
        self._loop.remove_reader(self._fd)
        self._fd = -1

    def listen(self) -> None:
        """Look now."""
        if self._fd < 0:
            return
        has_more = True  # also where `hear` raises: the next message has not done anything
        try:
            has_more = self._hear()
        finally:
            if has_more and self._fd >= 0:
                self.wake()

    def _on_readable(self) -> None:
        if not self._is_awake:
            self.listen()

    def _on_turn(self) -> None:
        self._is_awake = False
        self.listen()


class Unsent:
    """Large frames on their way to one peer, which libzmq has not written yet."""

    def __init__(self) -> None:
        self._trackers: deque[tuple[zmq.MessageTracker, int]] = deque()
        self._bytes = 0

    def has_room(self, size: int) -> bool:
        """Whether there may be so many bytes more. Alone, a message of any size may go."""
        while self._trackers and self._trackers[0][0].done:
            self._bytes -= self._trackers.popleft()[1]
        return not self._trackers or self._bytes + size <= MAX_UNSENT_BYTES

    def add(self, tracker: zmq.MessageTracker, size: int) -> None:
        self._trackers.append((tracker, size))
        self._bytes += size


class _Gone:
    """A connection that ended, and the peers that may have been at its other end."""

    def __init__(self, since: float, peers: set[bytes]) -> None:
        self.since = since
        self.peers = peers


class Places:
    """Which peers spoke over which connection. Too many answers are fine, a missing one is not.

    A connection is known by its file number, and those are used again. The notices and the messages come by separate
    ways: when one says that 15 is gone, messages from it may still be unread, and those from the next 15 be read. So
    a peer belongs to its number until the number was gone, and gone again with other peers.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # where each peer spoke last
        self._peers: dict[int, set[bytes]] = {}
        self._before: dict[int, set[bytes]] = {}
        self._gone: dict[int, _Gone] = {}

    @property
    def are_settled(self) -> bool:
        return not self._gone

    def note(self, peer: bytes, number: int, now: float) -> bool:
        """A peer speaks from a new place. Whether it left an old one."""
        before = self.numbers.get(peer)
        if before is None and len(self.numbers) >= MAX_PEERS:
            return False
        self.numbers[peer] = number
        self._peers.setdefault(number, set()).add(peer)
        if number in self._gone:
            self._gone[number].peers.add(peer)
        if before is None:
            return False
        self.leave(before, now)  # libzmq gives no notice where a new connection took the place of the old one
        return True

    def leave(self, number: int, now: float) -> None:
        """A connection is gone."""
        peers = self._peers.pop(number, set())
        for peer in peers:
            if self.numbers.get(peer) == number:
                del self.numbers[peer]
        gone = self._gone.setdefault(number, _Gone(now, set()))
        gone.peers |= peers | self._before.get(number, set())
        if peers:
            self._before[number] = peers

    def settle(self, now: float, *, is_drained: bool) -> set[bytes]:
        """The peers of those who are gone, when all that they said was read, or after PATIENCE."""
        peers: set[bytes] = set()
        for number, gone in list(self._gone.items()):
            age = now - gone.since
            if age < GRACE or not (is_drained or age >= PATIENCE):
                continue
            peers |= gone.peers
            if is_drained:
                del self._gone[number]
                continue
            for peer in gone.peers:  # if it is heard again, it is to be noted again
                self.numbers.pop(peer, None)
            gone.peers = set()
        return peers


class Router:
    """One for each door. Set the callbacks at once after making it: they are called from the next turn on."""

    def __init__(
        self,
        address: Address | str,
        *,
        curve: ServerKeys | None = None,
        max_message: int = MAX_MESSAGE,
        routing_id: bytes | None = None,
    ) -> None:
        """Listen at an address; port 0 is any free one. Our own routing id is the address as peers write it.

        Raises: ConfigError: the address makes no sense, or another program has it.
        """
        self.on_message: Callable[[list[bytes]], None] = lambda _frames: None  # the first is the peer's routing id
        self.on_disconnect: Callable[[bytes], None] = lambda _routing_id: None  # it may be gone: find out
        self.on_connect: Callable[[], None] = lambda: None  # somebody came, or several did
        self.on_refused: Callable[[str], None] = lambda _place: None  # somebody without a key came from there
        self.dropped = 0  # messages of too many frames
        self._loop = asyncio.get_running_loop()
        self._places = Places()
        self._settling: asyncio.TimerHandle | None = None
        self._unsent: dict[bytes, Unsent] = {}
        self._is_closed = False
        self._is_drained = False
        self._is_skipping = False
        self._has_newcomers = False
        self._porter = Porter(curve) if curve is not None else None
        if self._porter is not None:
            self._porter.on_refused = lambda place: self.on_refused(place)
        address = parse_tcp(address) if isinstance(address, str) else address
        self._context: zmq.Context[_Socket] = zmq.Context()
        try:
            # First of all: from the moment when we listen, somebody must say who may come in.
            self._zap = self._open_zap() if self._porter is not None else None
            self._socket, self.address = self._bind(address, curve, max_message, routing_id)
            self._news = self._open_news()
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._ear = Ear(self._socket, self._hear)
        self._news_ear = Ear(self._news, self._hear_news)
        self._ears = [self._ear, self._news_ear]
        if self._zap is not None:
            self._ears.append(Ear(self._zap, self._hear_zap))

    @property
    def refused(self) -> int:
        """Handshakes of peers that have no key of ours."""
        return self._porter.refused if self._porter is not None else 0

    def send(self, frames: list[bytes]) -> bool:
        """All frames or none; the first, of two or more, is the peer's routing id.

        False: the peer is not connected, or does not read. True does not mean that it got there.
        """
        if self._is_closed:
            return False
        if max(map(len, frames)) >= LARGE_FRAME:
            return self._send_large(frames)
        send = self._socket.send
        last = len(frames) - 1
        try:
            # libzmq refuses at the first frame only: it counts whole messages, and a peer that goes away after it gets
            # none of the others. So nothing half-sent is left behind, to which the next message would be joined.
            for at in range(last):
                send(frames[at], _MORE)
            send(frames[last], _LAST)
        except zmq.ZMQError as error:
            if error.errno in _UNDELIVERED:
                return False
            raise
        finally:
            self._ear.wake()
        return True

    def close(self) -> None:
        """What was sent just before goes out, to peers that read."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._settling is not None:
            self._settling.cancel()
        for ear in self._ears:
            ear.close()
        self._socket.disable_monitor()
        self._news.close(0)
        self._socket.close(LAST_WORDS_MS)
        if self._zap is not None:
            self._zap.close(0)  # after the socket that asks it
        self._context.term()

    def _bind(
        self, address: Address, curve: ServerKeys | None, max_message: int, routing_id: bytes | None
    ) -> tuple[_Socket, Address]:
        host = _resolve(address)
        for tries in range(MAX_TRIES):
            # The port has to be known before: it is part of our routing id, and that cannot change later.
            bound = address._replace(port=address.port or _find_free_port(address, host))
            own = str(bound).encode() if routing_id is None else routing_id
            if not 0 < len(own) <= MAX_ROUTING_ID:
                raise ConfigError(f"cannot listen at {address}: it has more than {MAX_ROUTING_ID} bytes")
            opened = self._open(own, max_message, is_ipv6=":" in host)
            if curve is not None:
                curve.apply(opened)
            try:
                opened.bind(str(Address("tcp", host, bound.port)))
            except zmq.ZMQError as error:
                opened.close(0)
                if error.errno == errno.EADDRINUSE and not address.port and tries < MAX_TRIES - 1:
                    continue
                raise _explain(bound, error.errno, error.strerror) from None
            return opened, bound
        raise AssertionError("the last try returns or raises")

    def _open(self, routing_id: bytes, max_message: int, *, is_ipv6: bool) -> _Socket:
        opened = self._context.socket(zmq.ROUTER)
        opened.copy_threshold = LARGE_FRAME
        # Connecting ROUTERs, as the peers of seed 002 are, address us by it: it must be there before the first comes.
        opened.setsockopt(zmq.ROUTING_ID, routing_id)
        opened.setsockopt(zmq.ROUTER_MANDATORY, 1)  # `send` tells who is not there
        # The newest connection with a routing id gets it. Without, a worker whose cable was pulled would be refused, in
        # silence, until the kernel gave up its old connection. The price: a peer that takes another's id gets its
        # messages; but whoever may connect may also say anything in its name, and keys are what keeps strangers out.
        opened.setsockopt(zmq.ROUTER_HANDOVER, 1)
        opened.setsockopt(zmq.LINGER, 0)
        opened.setsockopt(zmq.SNDHWM, HIGH_WATER)
        opened.setsockopt(zmq.RCVHWM, HIGH_WATER)
        opened.setsockopt(zmq.MAXMSGSIZE, max_message)
        opened.setsockopt(zmq.TCP_KEEPALIVE, 1)
        opened.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_SECONDS[0])
        opened.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_SECONDS[1])
        opened.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT)
        opened.setsockopt(zmq.BACKLOG, BACKLOG)
        opened.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        opened.setsockopt(zmq.IPV6, int(is_ipv6))
        return opened

    def _open_news(self) -> _Socket:
        news = self._context.socket(zmq.PAIR)
        # Without limit: libzmq's own thread would wait for room, with a lock that `close` needs too.
        news.setsockopt(zmq.RCVHWM, 0)
        self._socket.monitor(NEWS_ADDRESS, _CONNECTED | _DISCONNECTED)
        news.connect(NEWS_ADDRESS)
        return news

    def _open_zap(self) -> _Socket:
        zap = self._context.socket(zmq.ROUTER)
        zap.bind(ZAP_ADDRESS)
        return zap

    def _hear(self) -> bool:
        if self._is_skipping and not self._skip():
            return True
        numbers = self._places.numbers
        recv = self._socket.recv
        end = time.perf_counter() + TURN_SECONDS
        for _ in range(TURN_MESSAGES):
            try:
                # Frames and not bytes: a frame knows whether more follow, which the socket tells in twice the time.
                frame = recv(_LAST, False)
            except zmq.Again:
                self._is_drained = True
                return False
            self._is_drained = False
            peer = frame.bytes
            number = _find_number(frame)
            if numbers.get(peer) != number:
                self._note(peer, number)
            frames = [peer]
            while frame.more and len(frames) <= MAX_FRAMES:
                frame = recv(_LAST, False)
                frames.append(frame.bytes)
            if len(frames) > MAX_FRAMES:
                self.dropped += 1
                self._is_skipping = frame.more
                return True
            self.on_message(frames)
            if self._is_closed or time.perf_counter() > end:
                break
        return True

    def _skip(self) -> bool:
        """The rest of a message of too many frames, some in each turn. Whether it is behind us."""
        for _ in range(MAX_FRAMES):
            if not self._socket.recv(_LAST, False).more:
                self._is_skipping = False
                return True
        return False

    def _hear_news(self) -> bool:
        has_more = self._read_news()
        if self._has_newcomers:
            self._has_newcomers = False
            self._catch_up()
            self.on_connect()
        return has_more

    def _read_news(self) -> bool:
        for _ in range(TURN_MESSAGES):
            try:
                kind, value = _NEWS.unpack(self._news.recv(_LAST))
                self._news.recv(_LAST)  # at which address: ours
            except zmq.Again:
                return False
            if kind == _DISCONNECTED:
                self._places.leave(value, self._loop.time())
                self._settle_later()
            elif kind == _CONNECTED:
                self._has_newcomers = True
        return True

    def _hear_zap(self) -> bool:
        assert self._zap is not None
        assert self._porter is not None
        for _ in range(TURN_MESSAGES):
            try:
                answer = self._porter.answer(self._zap.recv_multipart(_LAST))
            except zmq.Again:
                return False
            if answer is not None:
                self._zap.send_multipart(answer, _LAST)
        return True

    def _note(self, peer: bytes, number: int | None) -> None:
        if number is None:
            return
        while self._read_news():  # whoever had this number before is gone: that was written before this message
            pass
        self._news_ear.wake()
        if self._places.note(peer, number, self._loop.time()):
            self._settle_later()

    def _settle_later(self) -> None:
        if self._settling is None:
            self._settling = self._loop.call_later(GRACE, self._settle)

    def _settle(self) -> None:
        self._settling = None
        try:
            self._ear.listen()  # what they said before they left goes first
        finally:
            if not self._is_closed:
                self._tell_gone()

    def _tell_gone(self) -> None:
        self._catch_up()
        peers = self._places.settle(self._loop.time(), is_drained=self._is_drained)
        if not self._places.are_settled:
            self._settle_later()
        for peer in peers:
            self._unsent.pop(peer, None)
            self.on_disconnect(peer)
            if self._is_closed:
                return

    def _catch_up(self) -> None:
        """The socket learns of new and lost peers only when somebody looks; `send` looks once in a millisecond."""
        self._socket.getsockopt(_EVENTS)
        self._ear.wake()

    def _send_large(self, frames: list[bytes]) -> bool:
        unsent = self._unsent.get(frames[0]) or Unsent()
        size = sum(map(len, frames))
        if not unsent.has_room(size):
            return False
        try:
            tracker = self._socket.send_multipart(frames, _LAST, copy=False, track=True)
        except zmq.ZMQError as error:
            if error.errno in _UNDELIVERED:
                return False
            raise
        finally:
            self._ear.wake()
        assert tracker is not None  # as long as copy is False
        unsent.add(tracker, size)
        self._unsent[frames[0]] = unsent
        return True


def _find_number(frame: zmq.Frame) -> int | None:
    """The file number of the connection that a message came by, where libzmq tells."""
    try:
        number: int = frame.get(_SOURCE)
    except zmq.ZMQError:
        return None
    return number


def _resolve(address: Address) -> str:
    """The number of a host. libzmq looks up names for those who connect only."""
    if address.scheme != "tcp":
        raise ConfigError(f"cannot listen at {address}: ZeroMQ doors are at tcp://HOST:PORT")
    if address.host == "*":
        return "*"
    if address.host == "localhost":  # whatever a file on this machine says: it was let through as loopback
        return "127.0.0.1"
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        raise ConfigError(f"cannot listen at {address}: no machine is known by the name {address.host!r}") from None
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
        return ConfigError(f"cannot listen at {address}: another program does; stop that one, or take another port")
    if number in (errno.EADDRNOTAVAIL, errno.ENODEV):
        return ConfigError(f"cannot listen at {address}: this machine has no such address")
    return ConfigError(f"cannot listen at {address}: {text}")
