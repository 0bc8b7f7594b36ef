"""Answers requests of the foreman's owner: to list, make and revoke keys, and to invite peers."""

from gandy.clocks import read_wall
from gandy.config import Address, parse_address
from gandy.core import requests as ask
from gandy.core.foreman import Foreman
from gandy.core.keyring import Invitation, Key
from gandy.core.refusal import Refusal
from gandy.core.roles import KEYED, CrewRole
from gandy.errors import ConfigError, Rejected
from gandy.foreman.audit import Audit
from gandy.interfaces import list_reachable
from gandy.keys.crew import compute_fingerprint
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_HOST
from gandy.moments import Wall
from gandy.net.links import Visitor

KeyRequest = ask.ListKeys | ask.MakeKey | ask.RevokeKey | ask.Invite


class KeyRequests:
    """Changes and saves the keyring, and cuts the links of revoked keys."""

    def __init__(self, foreman: Foreman, keys: ForemanKeys, audit: Audit) -> None:
        self._foreman = foreman
        self._keys = keys
        self._audit = audit
        self.network: list[Address] = []  # where peers connect with keys
        self.ensemble = ""  # that the foreman is in, for peers that get a key

    def answer(self, request: KeyRequest, who: Visitor) -> ask.Answer:
        """Raises: Refusal."""
        try:
            return self._answer(request, who)
        except Rejected as error:
            raise Refusal("refused", str(error)) from None
        except OSError as error:
            raise Refusal("store", f"the keys cannot be saved: {error}", retryable=True) from None

    def _answer(self, request: KeyRequest, who: Visitor) -> ask.Answer:
        match request:
            case ask.ListKeys():
                return ask.KeyList(tuple(self._list()))
            case ask.MakeKey(public_key, name, role, seconds):
                certificate = self._keys.add(public_key, name, _parse_role(role), "gandy key new", seconds)
                made = self._keys.ring.get(compute_fingerprint(certificate))
                self._audit.note("made a key", who, made=made.id, name=name, role=role)
                addresses = self._list_addresses()
                return ask.KeyMade(certificate, self._keys.fingerprint, addresses, self._keys.identity, self.ensemble)
            case ask.RevokeKey(wanted):
                return self._revoke(wanted, who)
            case ask.Invite():
                return self._invite(request, who)

    def _list_addresses(self) -> tuple[str, ...]:
        """As it is now: this machine may have been moved."""
        return tuple(str(each) for address in self.network for each in list_reachable(address))

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

    def _revoke(self, wanted: str, who: Visitor) -> ask.KeyList:
        now = read_wall()
        is_invitation = any(each.id == wanted for each in self._keys.ring.list_invitations(now))
        revoked = self._keys.ring.revoke(wanted, now)
        self._keys.save()
        if is_invitation:
            self._audit.note("revoked an invitation", who, invitation=wanted)
        for key in revoked:
            self._audit.note("revoked a key", who, revoked=key.id, name=key.name, role=key.role)
            self._foreman.liveness.cut_key(key.fingerprint)
        return ask.KeyList(tuple(self._describe_key(self._keys.ring.get(key.fingerprint), now) for key in revoked))

    def _invite(self, request: ask.Invite, who: Visitor) -> ask.Invited:
        role, seconds, uses = _parse_role(request.role), request.seconds, request.uses
        own = self._list_addresses()
        addresses = _parse_addresses(request.addresses) or own
        if not own:
            raise Refusal(
                "refused",
                "this foreman accepts no peers from other machines: start it with --listen tcp://0.0.0.0:5429",
            )
        token, invitation = self._keys.invite(role, seconds, uses, addresses)
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


def _parse_role(text: str) -> CrewRole:
    if text not in KEYED:
        raise Rejected(f"{text!r} is not a role of keys: {', '.join(KEYED)}")
    return CrewRole(text)
