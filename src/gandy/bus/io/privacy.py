"""A private ensemble: without its key a program can read nothing, is ignored, and gets no answer.

Links are TLS 1.3 between processes that all show the same certificate, made from the ensemble's key. Datagrams are
sealed one by one: those of discovery for all processes with the key, others for the process at the other end of a link
with keys of that link, so that recorded ones are worthless when it has ended.
"""

import os
import secrets
import ssl
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from socket import inet_aton, inet_ntoa
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gandy.bus.core.discovery import is_discovery
from gandy.bus.core.links import Endpoints
from gandy.bus.limits import MAX_DEPARTED_LINKS
from gandy.clocks import read_monotonic
from gandy.keys.ensemble import KEY_BYTES
from gandy.keys.session import NO_CHECK_TIME, TlsSession
from gandy.moments import LONG_AGO, Monotonic

MARK_BYTES: Final = 16
NONCE_BYTES: Final = 12
COUNT_BYTES: Final = 8

# The first byte of a datagram. A plain one that happens to begin with it cannot be opened.
DISCOVERY: Final = 0xD1  # then a nonce and the sealed message
MESSAGE: Final = 0xD2  # then the sender's mark, a count and the sealed message
OVERHEAD: Final = 1 + MARK_BYTES + COUNT_BYTES + 16  # bytes that sealing adds to a message

LINGER: Final = 2.0  # seconds for which datagrams of a link are accepted after its end

WINDOW: Final = 1024  # datagrams by which one may be overtaken

_CARD: Final = struct.Struct(f"!{MARK_BYTES}s4sH")  # the first bytes on a link: a mark, and where to send datagrams
_CERTIFICATE_DATES: Final = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


class Window:
    """The counts of received datagrams: each is accepted once."""

    def __init__(self) -> None:
        self._greatest = 0
        self._seen = 0  # a bit for each of the last WINDOW numbers, the greatest first

    def take(self, number: int) -> bool:
        """False for a count that was received before, or is too old to know."""
        ahead = number - self._greatest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & (1 << WINDOW) - 1 if ahead < WINDOW else 1
            self._greatest = number
            return True
        if ahead <= -WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class PrivatePeer:
    """The keys for datagrams between us and the process at the other end of a link."""

    def __init__(self, our_mark: bytes, their_mark: bytes, where: tuple[str, int], keys: tuple[bytes, bytes]) -> None:
        """`keys`: for datagrams to it and from it."""
        self.our_mark = our_mark
        self.their_mark = their_mark
        self.where = where
        self.sealing, self.opening = map(ChaCha20Poly1305, keys)
        self.count = 0  # of datagrams to it
        self.window = Window()


class Privacy:
    """The keys of one process of a private ensemble."""

    overhead = OVERHEAD

    def __init__(self, key: bytes, name: str, read_clock: Callable[[], Monotonic] = read_monotonic) -> None:
        self._key = key
        self._name = name
        self._discovery = ChaCha20Poly1305(self._derive("discovery"))
        self._peers: dict[bytes, PrivatePeer] = {}  # by their marks
        self._departed: OrderedDict[bytes, tuple[Monotonic, PrivatePeer]] = OrderedDict()  # with the time of their end
        self._read_clock = read_clock
        self._places: dict[tuple[str, int], PrivatePeer] = {}
        self._client_context, self._server_context = self._make_contexts()

    def _derive(self, purpose: str, context: bytes = b"") -> bytes:
        """A key of its own for each purpose and each ensemble."""
        info = f"gandy bus {purpose}\0{self._name}\0".encode() + context
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(self._key)

    # Links

    def make_session(self, place: Endpoints, is_server: bool) -> "PrivateSession":
        """The session of a new connection. `place`: our own, which is sent to the peer."""
        return PrivateSession(self, place, self._server_context if is_server else self._client_context, is_server)

    def on_card(self, our_mark: bytes, card: bytes) -> PrivatePeer:
        """The process at the other end of a link has sent its card: accept its datagrams. Raises: ValueError."""
        mark, ip, port = _CARD.unpack(card)
        if mark == our_mark or mark in self._peers:
            raise ValueError("a mark is used twice")
        keys = self._derive("message", our_mark + mark), self._derive("message", mark + our_mark)
        peer = PrivatePeer(our_mark, mark, (inet_ntoa(ip), port), keys)
        self._peers[mark] = self._places[peer.where] = peer
        return peer

    def forget(self, peer: PrivatePeer) -> None:
        """To be called when its link has ended."""
        del self._peers[peer.their_mark]
        self._departed[peer.their_mark] = self._read_clock(), peer
        while len(self._departed) > MAX_DEPARTED_LINKS:
            self._departed.popitem(last=False)
        if self._places[peer.where] is peer:
            del self._places[peer.where]
            # An attacker can forward a link to the wrong process, which is cut soon: use the right one again.
            self._places.update((each.where, each) for each in self._peers.values() if each.where == peer.where)

    # Datagrams

    def seal(self, data: bytes, where: tuple[str, int] | None) -> bytes:
        """Seal discovery for all processes, and others for the one at `where`; empty if there is no link to it."""
        peer = self._places.get(where) if where is not None else None
        if is_discovery(data):
            nonce = secrets.token_bytes(NONCE_BYTES)
            return bytes((DISCOVERY,)) + nonce + self._discovery.encrypt(nonce, data, None)
        if peer is None:
            return b""
        peer.count += 1
        count = peer.count.to_bytes(COUNT_BYTES, "big")
        return b"%c%b%b%b" % (MESSAGE, peer.our_mark, count, peer.sealing.encrypt(bytes(4) + count, data, None))

    def open(self, data: bytes) -> bytes:
        """The message inside; empty if it is not sealed with our keys, or was received before."""
        try:
            if data[0] == MESSAGE:
                return self._open_message(data)
            if data[0] == DISCOVERY:
                at = 1 + NONCE_BYTES
                opened = self._discovery.decrypt(data[1:at], data[at:], None)
                return opened if is_discovery(opened) else b""  # other messages must be sealed for us alone
        except (InvalidTag, IndexError, ValueError):
            pass
        return b""

    def _open_message(self, data: bytes) -> bytes:
        at = 1 + MARK_BYTES
        peer = self._peers.get(data[1:at]) or self._find_departed(data[1:at])
        if peer is None:
            return b""
        count = data[at : at + COUNT_BYTES]
        opened = peer.opening.decrypt(bytes(4) + count, data[at + COUNT_BYTES :], None)
        return opened if peer.window.take(int.from_bytes(count, "big")) else b""

    def _find_departed(self, mark: bytes) -> PrivatePeer | None:
        """A process whose link has just ended: its last datagram may arrive after that."""
        then, peer = self._departed.get(mark, (LONG_AGO, None))
        return peer if peer is not None and self._read_clock() - then < LINGER else None

    # TLS

    def _make_contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Every process makes the same certificate from the ensemble's key, and accepts no other."""
        key = Ed25519PrivateKey.from_private_bytes(self._derive("certificate"))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gandy ensemble")])
        begin, end = _CERTIFICATE_DATES
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
        certificate = builder.sign(key, None).public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # OpenSSL reads keys from files only. This file is never on a disk.
        with os.fdopen(os.memfd_create("gandy"), "wb") as file:
            file.write(certificate + secret)
            file.flush()
            for context in contexts:
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.check_hostname = False
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
                context.load_verify_locations(cadata=certificate.decode())
                context.verify_mode = ssl.CERT_REQUIRED
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
        contexts[1].num_tickets = 0
        return contexts


class PrivateSession:
    """A private link, without its socket: TLS, and then one card from each side before anything else."""

    def __init__(self, privacy: Privacy, place: Endpoints, context: ssl.SSLContext, is_server: bool) -> None:
        self._privacy = privacy
        self._tls = TlsSession(context, is_server=is_server)
        self._mark = secrets.token_bytes(MARK_BYTES)
        self._card = _CARD.pack(self._mark, inet_aton(place.ip), place.udp_port)
        self._their_card = bytearray()  # as far as it was received
        self._peer: PrivatePeer | None = None

    @property
    def is_known(self) -> bool:
        """True if the peer has shown the key and sent its card."""
        return self._peer is not None

    def begin(self) -> bytes:
        """The first bytes to send. Raises: SSLError."""
        self._tls.begin()
        return self._tls.data_to_send()

    def receive(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes inside. Call `data_to_send` afterwards. Raises: SSLError, ConnectionError, ValueError."""
        was_open = self._tls.is_open
        self._tls.receive(data)
        if self._tls.is_open and not was_open:
            self._tls.send(self._card)
        for piece in self._tls.read() if self._tls.is_open else ():
            yield piece if self._peer is not None else self._read_card(piece)
        if self._tls.is_ended:
            raise ConnectionError("the peer has left")

    def _read_card(self, piece: bytes) -> bytes:
        self._their_card += piece
        if len(self._their_card) < _CARD.size:
            return b""
        self._peer = self._privacy.on_card(self._mark, bytes(self._their_card[: _CARD.size]))
        return bytes(self._their_card[_CARD.size :])

    def seal(self, data: bytes) -> bytes:
        """Raises: SSLError."""
        self._tls.send(data)
        return self._tls.data_to_send()

    def data_to_send(self) -> bytes:
        return self._tls.data_to_send()

    def end(self) -> bytes:
        """The last bytes to send."""
        self._tls.end()
        return self._tls.data_to_send()

    def close(self) -> None:
        """To be called when the link has ended."""
        if self._peer is not None:
            self._privacy.forget(self._peer)
            self._peer = None
