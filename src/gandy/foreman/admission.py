"""Admits peers from the network: each shows a key, or an invitation that becomes one, before anything else is read.

A stranger may send a few kilobytes and has a few seconds. `core.unknown_peers` limits how many there may be. Nothing is
read from disk or written to it for a peer that has proved nothing.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.config import Address
from gandy.core.keyring import KeyRefused, NameTaken
from gandy.core.roles import CrewRole, make_refusal
from gandy.core.unknown_peers import Failures, UnknownPeers
from gandy.errors import ConfigError, Rejected, RemoteProtocolError
from gandy.foreman.audit import Audit
from gandy.foreman.server import Server
from gandy.keys.crew import compute_fingerprint
from gandy.keys.ensemble import note_shared, open_own_key
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_STRANGERS
from gandy.net.links import STRANGER, SocketLink, Visitor, format_place, get_source
from gandy.net.open_files import limit_by_files
from gandy.net.tls import HANDSHAKE_SECONDS, TlsEnd, TlsTransport
from gandy.wire.joining import (
    ALPN_JOIN,
    JoinAnswer,
    Joined,
    JoinReader,
    JoinRefused,
    bind,
    decode_join,
    encode_join,
)

log = logging.getLogger("gandy.foreman")

JOIN_SECONDS: Final = 5.0  # that a peer has to send its request, once the handshake is done


class Admission:
    """Recognises peers by their keys, and gives keys to peers with an invitation."""

    def __init__(self, server: Server, keys: ForemanKeys, audit: Audit, home: str) -> None:
        """Raises: ConfigError."""
        self._home = home
        self._server = server
        self._keys = keys
        self._audit = audit
        self._context = keys.make_context()
        most = limit_by_files(MAX_STRANGERS)
        self._strangers: UnknownPeers[TlsEnd] = UnknownPeers(most, HANDSHAKE_SECONDS)  # those have timers of their own
        self._joining: UnknownPeers[JoinLink] = UnknownPeers(most, JOIN_SECONDS)
        self._failures = Failures()
        self.ensemble = ""  # that the foreman is in, for peers that join

    async def listen(self, address: Address) -> None:
        """Raises: ConfigError."""
        await self._server.serve(address, self._make_end)

    def _make_end(self) -> TlsEnd:
        end = TlsEnd(self._context, self._admit, is_server=True)
        end.on_handshake_begin = self._begin
        end.on_handshake_end = self._strangers.leave
        end.done.add_done_callback(lambda done: self._on_handshake(end, done))
        return end

    def _begin(self, end: TlsEnd) -> bool:
        now = read_monotonic()
        if not self._failures.may_connect(end.source, now):
            return False
        self._strangers.enter(end, end.source, now)
        return True

    def _on_handshake(self, end: TlsEnd, done: "asyncio.Future[Exception | None]") -> None:
        """Note what failed: a certificate that another foreman signed, or no TLS at all. A hang-up is not noted."""
        error = None if done.cancelled() else done.result()
        if isinstance(error, ssl.SSLError):
            self._audit.note("refused", Visitor(STRANGER, end.place), why=f"no handshake: {error.reason or error}")
        if error is not None and end.has_received:
            self._on_failure(end.source)

    def _on_failure(self, source: str) -> None:
        """Count a failed connection from this address."""
        if self._failures.note(source, read_monotonic()):
            log.warning(
                "peers at %s failed to connect too often; for a while, few links from there are accepted", source
            )

    def _admit(self, transport: TlsTransport) -> asyncio.Protocol | None:
        """The handshake is done, and has proved whether the peer has a key."""
        where = format_place(transport)
        if transport.session.protocol == ALPN_JOIN:
            source = get_source(transport)
            link = JoinLink(lambda data: self._join(data, where), lambda link: self._on_join_end(link, source))
            self._joining.enter(link, source, read_monotonic())
            return link
        certificate = transport.session.certificate
        fingerprint = "" if certificate is None else compute_fingerprint(certificate)
        try:
            key = self._keys.ring.check(fingerprint, read_wall())
        except KeyRefused as error:
            bad = error.key
            who = Visitor(STRANGER, where) if bad is None else Visitor(bad.name, where, bad.role, bad.id)
            self._audit.note("refused", who, why=str(error))
            transport.write(make_refusal(error.code))
            return None
        return SocketLink(self._server, key.role, key)

    def _on_join_end(self, link: "JoinLink", source: str) -> None:
        self._joining.leave(link)
        if not link.has_joined:
            self._on_failure(source)

    def _join(self, data: bytes, where: str) -> JoinAnswer:
        """Raises: RemoteProtocolError; ConfigError and OSError, if keys cannot be saved."""
        question = decode_join(data)
        keys, bound = self._keys, bind(bytes.fromhex(self._keys.fingerprint), question.public_key)
        proof = question.invitation, question.proof, bound, read_wall()
        try:
            keys.ring.check_proof(*proof)  # first: a peer without one learns nothing and has nothing done for it
            keys.check_newcomer(question.public_key, question.name)
            ensemble_key = open_own_key(self._home).secret  # if this or the above fails, no use is lost
            invitation = keys.ring.redeem(*proof)
            keys.save()  # before anything else: whatever happens now, it was used
            origin = f"invitation {invitation.id}, from {where}"
            certificate = keys.add(question.public_key, question.name, invitation.role, origin)
        except Rejected as error:
            self._audit.note("refused", Visitor(STRANGER, where), why=str(error))
            return JoinRefused(str(error), isinstance(error, NameTaken))
        key = keys.ring.get(compute_fingerprint(certificate))
        self._audit.note("joined", Visitor(key.name, where, key.role, key.id), invitation=invitation.id)
        log.info("%s joined from %s as %s", question.name, where, invitation.role)
        if invitation.role is CrewRole.OBSERVER:  # a process on the bus can do more than look
            return Joined(certificate, question.name, invitation.role, self.ensemble)
        note_shared(self._home)
        return Joined(certificate, question.name, invitation.role, self.ensemble, ensemble_key)


class JoinLink(asyncio.Protocol):
    """One question, one answer."""

    def __init__(self, answer: Callable[[bytes], JoinAnswer], on_end: Callable[["JoinLink"], None]) -> None:
        self._on_end = on_end
        self.has_joined = False
        self._answer = answer
        self._reader = JoinReader()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            question = self._reader.receive(data)
            if question is None:
                return
            answer = self._answer(question)
        except RemoteProtocolError as error:
            answer = JoinRefused(str(error))
        except (OSError, ConfigError) as error:
            log.error("the keys cannot be saved: %s", error)
            answer = JoinRefused("the foreman cannot save keys now; its log says why")
        self.has_joined = isinstance(answer, Joined)
        self._transport.write(encode_join(answer))
        self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._on_end(self)
        if self._timer is not None:
            self._timer.cancel()
