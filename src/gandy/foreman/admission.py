"""Admits peers from the network: each shows a key, or an invitation that becomes one, before anything else is read.

A stranger may send a few kilobytes and has a few seconds. `core.unknown_peers` limits how many there may be. For a
peer that has proved nothing, nothing is read from disk or written to it; and for all of them together, the database of
the crew is asked twice a second.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.config import Address
from gandy.core.keyring import Invitation, Key, KeyRefused, Keyring, NameTaken
from gandy.core.roles import CrewRole, make_refusal
from gandy.core.unknown_peers import Failures, UnknownPeers
from gandy.errors import ConfigError, ErrorCode, Rejected, RemoteProtocolError, StoreError
from gandy.foreman.audit import Audit
from gandy.foreman.server import Server
from gandy.foreman.undecided import Undecided
from gandy.keys.crew import compute_fingerprint
from gandy.keys.ensemble import note_shared, open_own_key
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_STRANGERS
from gandy.net.links import STRANGER, SocketLink, Visitor, format_place, get_source, listen
from gandy.net.open_files import limit_by_files
from gandy.net.tls import HANDSHAKE_SECONDS, TlsEnd, TlsTransport
from gandy.wire.joining import (
    ALPN_JOIN,
    Join,
    JoinAnswer,
    Joined,
    JoinReader,
    JoinRefused,
    bind,
    decode_join,
    encode_join,
)
from gandy.wire.server_names import parse_shard_name

log = logging.getLogger("gandy.foreman")

JOIN_SECONDS: Final = 5.0  # that a peer has to send its request, once the handshake is done

# That a peer waits while the database is asked whether its key was revoked. If the database is away, what we know of
# the key decides: no foreman can revoke one without the database.
LOOK_SECONDS: Final = 1.0

FindServer = Callable[[int | None], Server | None]  # of a shard; None: the first one, for peers that ask for no shard


class Admission:
    """Recognises peers by their keys, and gives keys to peers with an invitation."""

    def __init__(self, find_server: FindServer, keys: ForemanKeys, audit: Audit, home: str) -> None:
        """Raises: ConfigError."""
        self._home = home
        self._find_server = find_server
        self._keys = keys
        self._audit = audit
        self._context = keys.make_context()
        most = limit_by_files(MAX_STRANGERS)
        self._strangers: UnknownPeers[TlsEnd] = UnknownPeers(most, HANDSHAKE_SECONDS)  # those have timers of their own
        self._joining: UnknownPeers[JoinLink] = UnknownPeers(most, JOIN_SECONDS)
        self._undecided: UnknownPeers[Undecided] = UnknownPeers(most, LOOK_SECONDS)
        self._answering: set[asyncio.Task[None]] = set()  # also for peers that hung up meanwhile
        self._failures = Failures()
        self._listeners: list[asyncio.Server] = []
        self.ensemble = ""  # that the foreman is in, for peers that join

    async def listen(self, address: Address) -> None:
        """Raises: ConfigError."""
        self._listeners.append(await listen(address, self._make_end))

    async def close(self) -> None:
        """Admit no peer any more. Links that were admitted stay."""
        for listener in self._listeners:
            listener.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

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
        if transport.session.protocol == ALPN_JOIN:
            return self._make_join_link(transport)
        certificate = transport.session.certificate
        fingerprint = "" if certificate is None else compute_fingerprint(certificate)
        if certificate is not None and self._needs_look(fingerprint):
            return self._make_undecided(transport, fingerprint)
        return self._decide(transport, fingerprint)

    # Peers with a key

    def _needs_look(self, fingerprint: str) -> bool:
        """True if the crew's database may know more about this key, which the crew's identity has signed."""
        kept = self._keys.kept
        is_unknown = kept.is_shared and kept.ring.find(fingerprint) is None  # it may have joined elsewhere, just now
        return is_unknown or not kept.is_fresh(read_monotonic())

    def _make_undecided(self, transport: TlsTransport, fingerprint: str) -> Undecided:
        source = get_source(transport)

        async def decide() -> asyncio.Protocol | None:
            await self._keys.kept.look(LOOK_SECONDS)
            link = self._decide(transport, fingerprint)
            if link is None:
                self._on_failure(source)
            return link

        link = Undecided(decide, self._undecided.leave)
        self._undecided.enter(link, source, read_monotonic())
        return link

    def _decide(self, transport: TlsTransport, fingerprint: str) -> asyncio.Protocol | None:
        """The protocol of an admitted peer. None: the peer is refused, and has been told why."""
        try:
            key = self._keys.ring.check(fingerprint, read_wall())
        except KeyRefused as error:
            self._refuse(transport, error.code, error.key)
            return None
        server = self._find_server(parse_shard_name(transport.session.asked_for))
        if server is None:  # it has been taken over: the peer did nothing wrong, and learns of it from the new owner
            transport.close()
            return asyncio.Protocol()
        return SocketLink(server, key.role, key)

    def _refuse(self, transport: TlsTransport, code: ErrorCode, bad: Key | None) -> None:
        where = format_place(transport)
        who = Visitor(STRANGER, where) if bad is None else Visitor(bad.name, where, bad.role, bad.id)
        self._audit.note("refused", who, why=code.name.lower())
        transport.write(make_refusal(code))

    # Peers with an invitation

    def _make_join_link(self, transport: TlsTransport) -> "JoinLink":
        where, source = format_place(transport), get_source(transport)

        async def answer(question: bytes) -> JoinAnswer:
            made = await self._answer(question, where)
            if not isinstance(made, Joined):
                self._on_failure(source)
            return made

        def on_end(link: JoinLink) -> None:
            self._joining.leave(link)
            if not link.has_asked:
                self._on_failure(source)

        link = JoinLink(answer, on_end, self._answering)
        self._joining.enter(link, source, read_monotonic())
        return link

    async def _answer(self, data: bytes, where: str) -> JoinAnswer:
        try:
            return await self._join(decode_join(data), where)
        except RemoteProtocolError as error:
            return JoinRefused(str(error))
        except Rejected as error:
            self._audit.note("refused", Visitor(STRANGER, where), why=str(error))
            return JoinRefused(str(error), isinstance(error, NameTaken))
        except (OSError, ConfigError, StoreError) as error:
            log.error("the keys cannot be saved: %s", error)
            return JoinRefused("the foreman cannot save keys now; its log says why")

    async def _join(self, question: Join, where: str) -> Joined:
        """Raises: Rejected; ConfigError, StoreError and OSError, if keys cannot be saved."""
        keys, now = self._keys, read_wall()
        bound = bind(bytes.fromhex(keys.fingerprint), question.public_key)

        def check(ring: Keyring) -> Invitation:
            return ring.check_proof(question.invitation, question.proof, bound, now)

        def use(ring: Keyring) -> None:
            ring.redeem(question.invitation, question.proof, bound, now)

        invitation = await self._find_invitation(check)  # first: a peer without one has nothing done for it
        keys.check_newcomer(question.public_key, question.name)
        ensemble_key = open_own_key(self._home).secret  # if this or the above fails, no use is lost
        key, certificate = await keys.redeem(question.public_key, question.name, invitation, use, where)
        self._audit.note("joined", Visitor(key.name, where, key.role, key.id), invitation=invitation.id)
        log.info("%s joined from %s as %s", key.name, where, key.role)
        if key.role is CrewRole.OBSERVER:  # a process on the bus can do more than look
            return Joined(certificate, key.name, key.role, self.ensemble)
        note_shared(self._home)
        # A foreman signs the certificates of newcomers, and shows the identity to them, so it needs the secret.
        identity_secret = keys.identity_secret if key.role is CrewRole.FOREMAN else b""
        return Joined(certificate, key.name, key.role, self.ensemble, ensemble_key, identity_secret)

    async def _find_invitation(self, check: Callable[[Keyring], Invitation]) -> Invitation:
        """Raises: Rejected."""
        kept = self._keys.kept
        if not kept.is_fresh(read_monotonic()):  # it may be an invitation of another foreman, or used up there
            await kept.look(LOOK_SECONDS)
        return check(kept.ring)


class JoinLink(asyncio.Protocol):
    """One question, one answer."""

    def __init__(
        self,
        answer: Callable[[bytes], Awaitable[JoinAnswer]],
        on_end: Callable[["JoinLink"], None],
        tasks: "set[asyncio.Task[None]]",
    ) -> None:
        """`tasks`: those that answer go on if the peer hangs up, since a change of keys must not stop halfway."""
        self._on_end = on_end
        self._answer = answer
        self._tasks = tasks
        self._reader = JoinReader()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.has_asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self.has_asked or self._transport is None:
            return
        try:
            question = self._reader.receive(data)
        except RemoteProtocolError as error:
            self._send(JoinRefused(str(error)))
            return
        if question is None:
            return
        self.has_asked = True
        if len(self._tasks) >= MAX_STRANGERS:  # the database is away
            self._transport.abort()
            return
        self._transport.pause_reading()
        if self._timer is not None:
            self._timer.cancel()  # the peer has done its part
        task = asyncio.get_running_loop().create_task(self._serve(question))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, question: bytes) -> None:
        self._send(await self._answer(question))

    def _send(self, answer: JoinAnswer) -> None:
        if self._transport is not None:
            self._transport.write(encode_join(answer))
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._transport = None
        self._on_end(self)
        if self._timer is not None:
            self._timer.cancel()
