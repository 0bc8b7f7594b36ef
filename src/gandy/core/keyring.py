"""Which peers may connect: keys by the fingerprint of their certificate, and invitations that become keys.

It holds no secret of a key, and of an invitation only what verifies a proof.
"""

import hmac
from hashlib import sha256
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gandy.core.roles import CrewRole
from gandy.errors import ErrorCode, Rejected
from gandy.limits import MAX_INVITATION_SECONDS, MAX_INVITATION_USES, MAX_INVITATIONS, MAX_KEY_NAME, MAX_KEYS
from gandy.moments import Wall

# What the audit calls peers without a key, and several at once. A key with such a name could pass for one of them.
RESERVED: Final = frozenset({"owner", "anybody", "a stranger", "several"})


class Key(Struct, frozen=True, omit_defaults=True):
    """The key of a client, a worker, an observer or a foreman."""

    fingerprint: str  # SHA-256 of its certificate, hexadecimal
    name: str
    role: CrewRole
    made: Wall
    origin: str  # how it came to be: for people
    expires: Wall | None = None
    revoked: Wall | None = None

    @property
    def id(self) -> str:
        """Short enough for people."""
        return self.fingerprint[:12]


class Invitation(Struct, frozen=True, omit_defaults=True):
    """A peer that proves that it knows the secret gets a key."""

    id: str
    check: bytes  # see `hash_secret`
    role: CrewRole
    expires: Wall
    uses: int  # that are left


class RingState(Struct, frozen=True):
    """All keys and invitations, as they are saved."""

    keys: tuple[Key, ...] = ()
    invitations: tuple[Invitation, ...] = ()


class KeyRefused(Exception):
    """A fingerprint is refused, for this reason."""

    def __init__(self, code: ErrorCode, key: Key | None = None) -> None:
        super().__init__(code.name.lower())
        self.code = code
        self.key = key  # if it is known


class NameTaken(Rejected):
    """Another valid key has the name."""


class Keyring:
    """Keys and invitations. Save `state` after a change, before any peer learns of it."""

    def __init__(self, state: RingState = RingState()) -> None:  # noqa: B008 - it is frozen
        self._keys = {key.fingerprint: key for key in state.keys}
        self._invitations = {each.id: each for each in state.invitations}

    @property
    def state(self) -> RingState:
        return RingState(tuple(self._keys.values()), tuple(self._invitations.values()))

    # Keys

    def check(self, fingerprint: str, now: Wall) -> Key:
        """Raises: KeyRefused."""
        key = self._keys.get(fingerprint)
        if key is None:
            raise KeyRefused(ErrorCode.UNKNOWN_KEY)
        if key.revoked is not None:
            raise KeyRefused(ErrorCode.REVOKED_KEY, key)
        if key.expires is not None and now >= key.expires:
            raise KeyRefused(ErrorCode.EXPIRED_KEY, key)
        return key

    def add(self, key: Key) -> None:
        """Raises: Rejected, NameTaken."""
        self.check_name(key.name, key.made)
        if len(self._keys) >= MAX_KEYS:
            self._drop_one(key.made)
        self._keys[key.fingerprint] = key

    def check_name(self, name: str, now: Wall) -> None:
        """Check that a new key may have this name. Raises: Rejected, NameTaken."""
        if not 0 < len(name) <= MAX_KEY_NAME or not name.isprintable():
            raise Rejected(f"a key's name has 1 to {MAX_KEY_NAME} printable characters")
        plain = name.strip().casefold()
        if plain in RESERVED:
            raise Rejected(f"no key can be called {name}: gandy uses that name itself")
        for key in self._keys.values():
            if key.name.strip().casefold() == plain and _get_end(key) > now:
                raise NameTaken(
                    f"the name {name} is taken, by key {key.id}: take another one, or 'gandy key revoke {key.id}' first"
                )

    def revoke(self, wanted: str, now: Wall) -> list[Key]:
        """Revoke keys by name, id or fingerprint, or an invitation by its id. Returns the keys that were valid.

        Raises: Rejected, if there is none.
        """
        found = [key for key in self._keys.values() if wanted in (key.name, key.id, key.fingerprint)]
        is_invitation = self._invitations.pop(wanted, None) is not None
        if not found and not is_invitation:
            raise Rejected(f"no key and no invitation is called {wanted}; see 'gandy key list'")
        valid = [key for key in found if key.revoked is None]
        for key in valid:
            self._keys[key.fingerprint] = replace(key, revoked=now)
        return valid

    def get(self, fingerprint: str) -> Key:
        """A key that must be here, valid or not."""
        return self._keys[fingerprint]

    def find(self, fingerprint: str) -> Key | None:
        """A key, valid or not."""
        return self._keys.get(fingerprint)

    def list_revoked_since(self, before: "Keyring") -> list[str]:
        """Fingerprints of keys that were not revoked before, and now are, or are gone."""
        return [key.fingerprint for key in before.list_keys() if key.revoked is None and self._is_revoked(key)]

    def _is_revoked(self, key: Key) -> bool:
        found = self._keys.get(key.fingerprint)
        return found is None or found.revoked is not None

    def list_keys(self) -> list[Key]:
        return sorted(self._keys.values(), key=lambda key: key.made)

    def _drop_one(self, now: Wall) -> None:
        """Forget the key that became invalid first. Its owner is refused all the same, but for another reason.

        Raises: Rejected, if all are valid.
        """
        first = min(self._keys.values(), key=_get_end)
        if _get_end(first) > now:
            raise Rejected(f"there are {MAX_KEYS} keys already; revoke some")
        del self._keys[first.fingerprint]

    # Invitations

    def invite(self, invitation: Invitation, now: Wall) -> None:
        """Raises: Rejected."""
        self._drop_expired(now)
        if len(self._invitations) >= MAX_INVITATIONS:
            raise Rejected(f"{MAX_INVITATIONS} invitations are open already; revoke some")
        is_short = now < invitation.expires <= now + MAX_INVITATION_SECONDS
        if not is_short or not 1 <= invitation.uses <= MAX_INVITATION_USES:
            days = MAX_INVITATION_SECONDS / 86_400
            raise Rejected(f"an invitation is open for at most {days:.0f} days and {MAX_INVITATION_USES} uses")
        self._invitations[invitation.id] = invitation

    def list_invitations(self, now: Wall) -> list[Invitation]:
        self._drop_expired(now)
        return sorted(self._invitations.values(), key=lambda each: each.expires)

    def redeem(self, wanted: str, proof: bytes, bound: bytes, now: Wall) -> Invitation:
        """Use an invitation once, with the same proof as for `check_proof`. Raises: Rejected."""
        found = self.check_proof(wanted, proof, bound, now)
        if found.uses > 1:
            self._invitations[wanted] = replace(found, uses=found.uses - 1)
        else:
            del self._invitations[wanted]
        return found

    def check_proof(self, wanted: str, proof: bytes, bound: bytes, now: Wall) -> Invitation:
        """The invitation, if its proof is right. `bound` is what the proof is for: it is worth nothing elsewhere.

        Raises: Rejected, with one reason for all: a peer that guesses learns nothing.
        """
        found = self._invitations.get(wanted)
        check = found.check if found is not None else bytes(32)  # so that an unknown one takes as long
        is_right = hmac.compare_digest(make_proof(check, bound), proof)
        if found is None or not is_right or now >= found.expires:
            raise Rejected("the invitation is not valid: it was used, has expired or was revoked; ask for another one")
        return found

    def _drop_expired(self, now: Wall) -> None:
        for each in list(self._invitations.values()):
            if now >= each.expires:
                del self._invitations[each.id]


def _get_end(key: Key) -> Wall:
    """When a key becomes or became invalid."""
    return min(Wall(inf) if end is None else end for end in (key.revoked, key.expires))


def hash_secret(secret: bytes) -> bytes:
    """What a foreman keeps of an invitation's secret."""
    return sha256(b"gandy invitation\0" + secret).digest()


def make_proof(check: bytes, bound: bytes) -> bytes:
    """The proof that a peer knows the secret, without the secret."""
    return hmac.digest(check, bound, "sha256")
