"""The porter: who comes over the network shows a key, or an invitation that becomes one, before a word is heard.

A stranger may send a few kilobytes and has a few seconds. When too many wait, the one that has waited longest goes.
"""

import asyncio
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from gandy.config import Address
from gandy.core.keyring import KeyRefused, check_name
from gandy.core.roles import CrewRole, make_refusal
from gandy.errors import ConfigError, Rejected, RemoteProtocolError
from gandy.foreman.audit import Audit
from gandy.foreman.server import Server
from gandy.keys.crew import tell_fingerprint
from gandy.keys.ensemble import note_shared, open_own_key
from gandy.keys.foreman import ForemanKeys
from gandy.net.links import STRANGER, Link, Visitor, tell_place
from gandy.net.tls import TlsEnd, TlsTransport
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

MAX_STRANGERS: Final = 500  # in a handshake, and as many that join; each takes up to 50 KB, most of it OpenSSL's
JOIN_SECONDS: Final = 5.0  # for the question, once the handshake is done


class Stranger(Protocol):
    def abort(self) -> None: ...


S = TypeVar("S", bound=Stranger)


class Porter:
    """One for each foreman that listens on the network."""

    def __init__(self, server: Server, keys: ForemanKeys, audit: Audit, home: str) -> None:
        """Raises: ConfigError."""
        self._home = home
        self._server = server
        self._keys = keys
        self._audit = audit
        self._context = keys.make_context()
        self._strangers: OrderedDict[TlsEnd, None] = OrderedDict()
        self._joining: OrderedDict[JoinLink, None] = OrderedDict()
        self.ensemble = ""  # that the foreman is in, for those who join

    async def listen(self, address: Address) -> None:
        """Raises: ConfigError."""
        await self._server.serve(address, self._take)

    def _take(self) -> TlsEnd:
        end = TlsEnd(self._context, self._admit, is_server=True)
        end.on_strange_end = self._forget
        end.done.add_done_callback(lambda done: self._note_failure(end.place, done))
        self._strangers[end] = None
        _keep_newest(self._strangers)
        return end

    def _forget(self, end: TlsEnd) -> None:
        self._strangers.pop(end, None)

    def _note_failure(self, place: str, done: "asyncio.Future[Exception | None]") -> None:
        """Of a handshake: a certificate that another foreman signed, or no TLS at all. Who only hangs up is nobody."""
        error = None if done.cancelled() else done.result()
        if isinstance(error, ssl.SSLError):
            self._audit.note("refused", Visitor(STRANGER, place), why=f"no handshake: {error.reason or error}")

    def _admit(self, transport: TlsTransport) -> asyncio.Protocol | None:
        """The handshake is done. Who has a key has proved so in it."""
        where = tell_place(transport)
        if transport.session.protocol == ALPN_JOIN:
            link = JoinLink(lambda data: self._join(data, where), self._joining)
            _keep_newest(self._joining)
            return link
        certificate = transport.session.certificate
        fingerprint = "" if certificate is None else tell_fingerprint(certificate)
        try:
            key = self._keys.ring.check(fingerprint, time.time())
        except KeyRefused as error:
            bad = error.key
            who = Visitor(STRANGER, where) if bad is None else Visitor(bad.name, where, bad.role, bad.id)
            self._audit.note("refused", who, why=str(error))
            transport.write(make_refusal(error.code))
            return None
        return Link(self._server, key.role, key)

    def _join(self, data: bytes, where: str) -> JoinAnswer:
        """Raises: RemoteProtocolError; ConfigError and OSError, where keys cannot be kept."""
        question = decode_join(data)
        ensemble_key = open_own_key(self._home).secret  # first: if it cannot be read, that costs no use
        keys, bound = self._keys, bind(bytes.fromhex(self._keys.fingerprint), question.public_key)
        try:
            check_name(question.name)  # a name that is no good costs no use
            invitation = keys.ring.redeem(question.invitation, question.proof, bound, time.time())
            keys.save()  # before anything else: whatever happens now, it was used
            origin = f"invitation {invitation.id}, from {where}"
            certificate = keys.add(question.public_key, question.name, invitation.role, origin)
        except Rejected as error:
            self._audit.note("refused", Visitor(STRANGER, where), why=str(error))
            return JoinRefused(str(error))
        key = keys.ring.get(tell_fingerprint(certificate))
        self._audit.note("joined", Visitor(key.name, where, key.role, key.id), invitation=invitation.id)
        log.info("%s joined from %s as %s", question.name, where, invitation.role)
        if invitation.role is CrewRole.OBSERVER:  # whoever is on the bus can do more than look
            return Joined(certificate, question.name, invitation.role, self.ensemble)
        note_shared(self._home)
        return Joined(certificate, question.name, invitation.role, self.ensemble, ensemble_key)


class JoinLink(asyncio.Protocol):
    """One question, one answer."""

    def __init__(self, answer: Callable[[bytes], JoinAnswer], crowd: "OrderedDict[JoinLink, None]") -> None:
        """`crowd`: all that are there, and this one until it has gone."""
        self._crowd = crowd
        crowd[self] = None
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
            log.error("the keys cannot be kept: %s", error)
            answer = JoinRefused("the foreman cannot keep keys now; its log tells why")
        self._transport.write(encode_join(answer))
        self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._crowd.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()


def _keep_newest(crowd: OrderedDict[S, None]) -> None:
    """Taken out here: in a flood, many come before the first is gone."""
    while len(crowd) > MAX_STRANGERS:
        crowd.popitem(last=False)[0].abort()
