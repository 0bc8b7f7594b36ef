"""Answers requests of the foreman's owner: to list, make and revoke keys, to invite peers, and to read the audit."""

from collections.abc import Awaitable, Callable

from gandy.clocks import read_wall
from gandy.config import Address, parse_address
from gandy.core import requests as ask
from gandy.core.foreman import Foreman
from gandy.core.keyring import Invitation, Key, Keyring
from gandy.core.refusal import Refusal
from gandy.core.roles import INVITED, KEYED, CrewRole
from gandy.core.rows import take_page
from gandy.errors import ConfigError, Rejected
from gandy.foreman.audit import Audit
from gandy.interfaces import list_reachable
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_HOST, MAX_TOKEN_ADDRESSES
from gandy.moments import Wall
from gandy.net.links import Visitor

KeyRequest = ask.ListKeys | ask.MakeKey | ask.RevokeKey | ask.Invite | ask.ListAudit


class KeyRequests:
    """Changes the keyring, which cuts the links of revoked keys."""

    def __init__(self, foreman: Foreman, keys: ForemanKeys, audit: Audit) -> None:
        self._foreman = foreman
        self._keys = keys
        self._audit = audit
        self.network: list[Address] = []  # where peers connect with keys
        self.ensemble = ""  # that the foreman is in, for peers that get a key
        self.list_crew_audit: Callable[[int], Awaitable[list[str]]] | None = None  # the last lines, the oldest first
        self.list_other_places: Callable[[], tuple[str, ...]] = tuple  # where the other foremen of the crew are

    async def answer(self, request: KeyRequest, who: Visitor) -> ask.Answer:
        """Raises: Refusal, StoreError."""
        try:
            return await self._answer(request, who)
        except Rejected as error:
            raise Refusal("refused", str(error)) from None
        except OSError as error:
            raise Refusal("store", f"the keys cannot be saved: {error}", retryable=True) from None

    async def _answer(self, request: KeyRequest, who: Visitor) -> ask.Answer:
        match request:
            case ask.ListKeys():
                await self._keys.kept.look()
                return ask.KeyList(tuple(self._list()))
            case ask.MakeKey():
                return await self._make(request, who)
            case ask.RevokeKey(wanted):
                return await self._revoke(wanted, who)
            case ask.Invite():
                return await self._invite(request, who)
            case ask.ListAudit(last):
                return await self._list_audit(last)

    async def _list_audit(self, last: int) -> ask.AuditList:
        """Raises: StoreError."""
        if self.list_crew_audit is None:
            return ask.AuditList()
        newest = reversed(await self.list_crew_audit(last))
        return ask.AuditList(tuple(take_page(newest, last, len))[::-1], is_shared=True)

    async def _make(self, request: ask.MakeKey, who: Visitor) -> ask.KeyMade:
        keys, role = self._keys, _parse_role(request.role, KEYED)
        made = await keys.add(request.public_key, request.name, role, "gandy key new", request.seconds)
        self._audit.note("made a key", who, made=made.key.id, name=request.name, role=role)
        addresses = self._list_addresses()
        return ask.KeyMade(made.certificate, keys.fingerprint, addresses, keys.identity, self.ensemble)

    def _list_addresses(self) -> tuple[str, ...]:
        """As it is now: this machine may have been moved. Those of other foremen come last."""
        own = [str(each) for address in self.network for each in list_reachable(address)]
        return tuple(dict.fromkeys((*own, *self.list_other_places())))[:MAX_TOKEN_ADDRESSES]

    def _list(self) -> list[ask.KeyRow]:
        now = read_wall()
        rows = [self._describe_key(key, now) for key in self._keys.ring.list_keys()]
        return rows + [_describe_invitation(each) for each in self._keys.ring.list_invitations(now)]

    def _describe_key(self, key: Key, now: Wall) -> ask.KeyRow:
        state = "good"
        if key.revoked is not None:
            state = "revoked"
        elif key.expires is not None and now >= key.expires:
            state = "expired"
        links = len(self._foreman.links.list_by_key(key.fingerprint))
        return ask.KeyRow(key.id, key.name, key.role, state, key.made, key.expires, key.origin, links)

    async def _revoke(self, wanted: str, who: Visitor) -> ask.KeyList:
        now = read_wall()

        def apply(ring: Keyring) -> tuple[bool, list[Key]]:
            is_invitation = any(each.id == wanted for each in ring.list_invitations(now))
            return is_invitation, ring.revoke(wanted, now)

        is_invitation, revoked = await self._keys.kept.change(apply)
        if is_invitation:
            self._audit.note("revoked an invitation", who, invitation=wanted)
        for key in revoked:
            self._audit.note("revoked a key", who, revoked=key.id, name=key.name, role=key.role)
        return ask.KeyList(tuple(self._describe_key(self._keys.ring.get(key.fingerprint), now) for key in revoked))

    async def _invite(self, request: ask.Invite, who: Visitor) -> ask.Invited:
        role, seconds, uses = _parse_role(request.role, INVITED), request.seconds, request.uses
        addresses = _parse_addresses(request.addresses) or self._list_addresses()
        if not self.network:
            raise Refusal(
                "refused",
                "this foreman accepts no peers from other machines: start it with --listen tcp://0.0.0.0:5429",
            )
        token, invitation = await self._keys.invite(role, seconds, uses, addresses)
        self._audit.note("invited", who, role=role, invitation=invitation.id, seconds=seconds, uses=uses)
        return ask.Invited(token, invitation.expires)


def _describe_invitation(each: Invitation) -> ask.KeyRow:
    return ask.KeyRow(each.id, "", each.role, "open", Wall(0.0), each.expires, "invitation", 0, each.uses)


def _parse_addresses(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Raises: Rejected."""
    try:
        found = [parse_address(text) for text in texts]
    except ConfigError as error:
        raise Rejected(str(error)) from None
    for each in found:
        if each.scheme != "tcp" or len(each.host) > MAX_HOST:
            raise Rejected(f"no machine can join at {each}: write tcp://HOST:PORT")
    return tuple(map(str, found))


def _parse_role(text: str, allowed: tuple[CrewRole, ...]) -> CrewRole:
    """Raises: Rejected."""
    if text not in allowed:
        raise Rejected(f"{text!r} is not a role of keys: {', '.join(allowed)}")
    return CrewRole(text)
