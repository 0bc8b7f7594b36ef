"""Requests about keys, invitations and the audit, and what a foreman answers."""

from typing import Annotated

from msgspec import Meta, Struct

from gandy.bounds import Count, KeyData, Name, Seconds, Text, WallMoment
from gandy.core.requests.base import BaseAnswer, BaseRequest, Places
from gandy.limits import MAX_AUDIT_LINE, MAX_PAGE, MAX_TOKEN_ADDRESSES


class ListKeys(BaseRequest, frozen=True):
    """Answered with `KeyList`."""

    is_local: bool = False  # only the links to the shard that is asked; from a foreman to another


class MakeKey(BaseRequest, frozen=True):
    """Answered with `KeyMade`. Its owner keeps the secret half to itself."""

    public_key: KeyData  # DER
    name: Name
    role: Name
    seconds: Seconds | None = None  # that it is valid; None: until it is revoked


class RevokeKey(BaseRequest, frozen=True):
    """Answered with `KeyList`: the keys that were revoked. Links that they opened are cut."""

    key: Name  # its name, id or fingerprint, or the id of an invitation


class Invite(BaseRequest, frozen=True):
    """Answered with `Invited`."""

    role: Name
    seconds: Seconds
    uses: Count = 1
    # Those that the token names; if none, those where this foreman can be reached, as far as it knows.
    addresses: Annotated[tuple[Text, ...], Meta(max_length=MAX_TOKEN_ADDRESSES)] = ()


class ListAudit(BaseRequest, frozen=True):
    """Answered with `AuditList`: the last lines of the crew's audit."""

    last: Annotated[int, Meta(ge=1, le=MAX_PAGE)]


class KeyRow(Struct, frozen=True):
    """A key, or an invitation, as it is listed."""

    id: Text
    name: Text
    role: Text
    state: Text  # good, revoked, expired; or, of an invitation, open
    made: WallMoment
    expires: WallMoment | None
    origin: Text
    links: Count  # that are open now, in the whole crew; a worker has one to each shard
    uses: Count = 0  # of an invitation, that are left


class KeyList(BaseAnswer, frozen=True):
    rows: Annotated[tuple[KeyRow, ...], Meta(max_length=2 * MAX_PAGE)]  # keys and invitations


class KeyMade(BaseAnswer, frozen=True):
    """What a peer needs besides the secret half."""

    certificate: KeyData  # DER
    foreman: Text  # fingerprint
    addresses: Places
    identity: KeyData = b""  # the foreman's own certificate, DER
    ensemble: Text = ""  # that the foreman is in


class Invited(BaseAnswer, frozen=True):
    token: Text
    expires: WallMoment


class AuditList(BaseAnswer, frozen=True):
    """Lines of JSON, the oldest first."""

    lines: Annotated[tuple[Annotated[str, Meta(max_length=MAX_AUDIT_LINE)], ...], Meta(max_length=MAX_PAGE)] = ()
    is_shared: bool = False  # False: this foreman is alone, and its audit is a file in its home
