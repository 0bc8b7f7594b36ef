"""Keys and invitations: which peers may connect, until when, and how often."""

import pytest

from gandy.core import keyring
from gandy.core.keyring import (
    Invitation,
    Key,
    KeyRefused,
    Keyring,
    NameTaken,
    RingState,
    hash_secret,
    make_proof,
)
from gandy.core.roles import CrewRole
from gandy.errors import ErrorCode, Rejected
from gandy.limits import MAX_INVITATION_SECONDS, MAX_INVITATION_USES, MAX_INVITATIONS, MAX_KEY_NAME

SECRET, BOUND = b"secret", b"what the proof is about"
PROOF = make_proof(hash_secret(SECRET), BOUND)


def a_key(number: int = 1, name: str = "anna", made: float = 0.0, expires: float | None = None) -> Key:
    return Key(f"{number:064x}", name, CrewRole.CLIENT, made, "a test", expires)


def an_invitation(name: str = "i1", uses: int = 1, expires: float = 10.0) -> Invitation:
    return Invitation(name, hash_secret(SECRET), CrewRole.WORKER, expires, uses)


def refuse(ring: Keyring, key: Key, now: float) -> KeyRefused:
    with pytest.raises(KeyRefused) as caught:
        ring.check(key.fingerprint, now)
    return caught.value


def test_a_valid_key_is_found() -> None:
    ring = Keyring()
    ring.add(a_key(expires=10.0))
    assert ring.check(a_key().fingerprint, 9.9) == ring.get(a_key().fingerprint) == a_key(expires=10.0)
    assert a_key(0x123).id == "0" * 12


def test_an_invalid_key_is_refused_with_the_reason() -> None:
    ring = Keyring()
    ring.add(a_key(1, "old", expires=10.0))
    ring.add(a_key(2, "lost"))
    ring.revoke("lost", 5.0)
    unknown, old, lost = refuse(ring, a_key(3), 1.0), refuse(ring, a_key(1), 10.0), refuse(ring, a_key(2), 6.0)
    assert (unknown.code, unknown.key) == (ErrorCode.UNKNOWN_KEY, None)
    assert (old.code, old.key) == (ErrorCode.EXPIRED_KEY, a_key(1, "old", expires=10.0))
    assert (lost.code, lost.key) == (ErrorCode.REVOKED_KEY, ring.get(a_key(2).fingerprint))


@pytest.mark.parametrize("name", ["", "x" * (MAX_KEY_NAME + 1), "a\nb", "\x1b[2J", "\x9b2J", "\u202egnp"])
def test_a_name_that_a_terminal_would_obey_is_refused(name: str) -> None:
    with pytest.raises(Rejected, match="printable"):
        Keyring().add(a_key(name=name))


@pytest.mark.parametrize("name", ["owner", "Owner", " owner ", "anybody", "a stranger", "several"])
def test_no_key_has_a_name_that_the_audit_uses(name: str) -> None:
    with pytest.raises(Rejected, match="no key can be called"):
        Keyring().add(a_key(name=name))


def test_a_name_is_taken_as_long_as_its_key_is_valid() -> None:
    ring = Keyring()
    ring.add(a_key(1, "anna", expires=10.0))
    with pytest.raises(NameTaken, match=f"the name ANNA is taken, by key {a_key(1).id}"):
        ring.add(a_key(2, "ANNA", made=9.0))
    ring.add(a_key(2, "ANNA", made=10.0))
    ring.revoke("ANNA", 11.0)
    ring.add(a_key(3, "anna", made=12.0))


def test_keys_of_one_name_that_are_there_stay() -> None:
    state = RingState((a_key(1), a_key(2)))
    assert Keyring(state).check(a_key(2).fingerprint, 1.0) == a_key(2)


@pytest.mark.parametrize("wanted", ["anna", a_key().id, a_key().fingerprint])
def test_keys_are_revoked_by_name_id_and_fingerprint_and_only_once(wanted: str) -> None:
    ring = Keyring()
    ring.add(a_key())
    ring.add(a_key(2 << 250, "bert"))
    assert [key.name for key in ring.revoke(wanted, 1.0)] == ["anna"]
    assert ring.revoke(wanted, 2.0) == []
    assert [(key.name, key.revoked) for key in ring.list_keys()] == [("anna", 1.0), ("bert", None)]


def test_what_was_never_given_cannot_be_revoked() -> None:
    with pytest.raises(Rejected, match="no key and no invitation is called anna"):
        Keyring().revoke("anna", 1.0)


def test_a_full_ring_drops_the_key_that_has_been_invalid_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a client that filled it would keep new peers out, even when all its keys are revoked."""
    monkeypatch.setattr(keyring, "MAX_KEYS", 3)
    ring = Keyring()
    for number in (1, 2, 3):
        ring.add(a_key(number, f"k{number}", expires=20.0 if number == 1 else None))
    with pytest.raises(Rejected, match="revoke some"):
        ring.add(a_key(4, "k4", made=5.0))
    ring.revoke("k2", 10.0)
    ring.revoke("k3", 9.0)
    ring.add(a_key(4, "k4", made=11.0))
    assert [key.name for key in ring.list_keys()] == ["k1", "k2", "k4"]
    ring.add(a_key(5, "k5", made=12.0))
    with pytest.raises(Rejected, match="revoke some"):
        ring.add(a_key(6, "k6", made=19.0))
    ring.add(a_key(6, "k6", made=20.0))
    assert [key.name for key in ring.list_keys()] == ["k4", "k5", "k6"]


def test_what_is_kept_makes_the_same_ring() -> None:
    ring = Keyring()
    ring.add(a_key())
    ring.invite(an_invitation(), 1.0)
    assert Keyring(ring.state).state == ring.state


def test_an_invitation_is_used_as_often_as_it_says() -> None:
    ring = Keyring()
    ring.invite(an_invitation(uses=2), 1.0)
    assert ring.redeem("i1", PROOF, BOUND, 2.0).role is CrewRole.WORKER
    assert [each.uses for each in ring.list_invitations(2.0)] == [1]
    ring.redeem("i1", PROOF, BOUND, 2.0)
    with pytest.raises(Rejected):
        ring.redeem("i1", PROOF, BOUND, 2.0)


@pytest.mark.parametrize(
    ("name", "proof", "bound", "now"),
    [
        ("i2", PROOF, BOUND, 2.0),
        ("i2", make_proof(bytes(32), BOUND), BOUND, 2.0),  # what stands in for the check of one that is not there
        ("i1", b"", BOUND, 2.0),
        ("i1", PROOF[:-1], BOUND, 2.0),
        ("i1", PROOF, BOUND + b"!", 2.0),
        ("i1", PROOF, BOUND, 10.0),
    ],
)
def test_every_wrong_proof_is_refused_with_the_same_text(name: str, proof: bytes, bound: bytes, now: float) -> None:
    ring = Keyring()
    ring.invite(an_invitation(), 1.0)
    with pytest.raises(Rejected, match="the invitation is not valid: it was used, has expired or was revoked; ask for"):
        ring.redeem(name, proof, bound, now)
    assert [each.uses for each in ring.list_invitations(2.0)] == [1]


def test_a_proof_that_is_only_checked_uses_nothing() -> None:
    ring = Keyring()
    ring.invite(an_invitation(), 1.0)
    assert ring.check_proof("i1", PROOF, BOUND, 2.0) == an_invitation()
    assert [each.uses for each in ring.list_invitations(2.0)] == [1]


def test_an_invitation_is_revoked_by_its_id() -> None:
    ring = Keyring()
    ring.invite(an_invitation(), 1.0)
    assert ring.revoke("i1", 2.0) == []
    with pytest.raises(Rejected):
        ring.redeem("i1", PROOF, BOUND, 2.0)


@pytest.mark.parametrize(
    ("expires", "uses"),
    [
        (1.0, 1),
        (1.1 + MAX_INVITATION_SECONDS, 1),
        (float("nan"), 1),
        (float("inf"), 1),
        (2.0, 0),
        (2.0, MAX_INVITATION_USES + 1),
    ],
)
def test_an_invitation_has_limits(expires: float, uses: int) -> None:
    with pytest.raises(Rejected, match="at most 366 days"):
        Keyring().invite(an_invitation(expires=expires, uses=uses), 1.0)


def test_open_invitations_have_a_limit_and_expired_ones_do_not_count() -> None:
    ring = Keyring()
    for number in range(MAX_INVITATIONS):
        ring.invite(an_invitation(f"i{number}"), 1.0)
    with pytest.raises(Rejected, match="are open already"):
        ring.invite(an_invitation("more"), 1.0)
    ring.invite(an_invitation("more", expires=30.0), 10.0)
    assert [each.id for each in ring.list_invitations(10.0)] == ["more"]


def test_a_key_is_found_whether_it_is_valid_or_not() -> None:
    ring = Keyring()
    ring.add(Key("f" * 64, "anna", CrewRole.CLIENT, 1.0, "test"))
    ring.revoke("anna", 2.0)
    assert ring.find("f" * 64) == ring.get("f" * 64)
    assert ring.find("0" * 64) is None


def test_what_was_revoked_since_is_told_once() -> None:
    """Also what is gone: a ring that another foreman filled may have dropped it."""
    before = Keyring()
    for name in ("kept", "revoked", "gone", "long ago"):
        before.add(Key(name, name, CrewRole.CLIENT, 1.0, "test"))
    before.revoke("long ago", 2.0)
    after = Keyring(RingState(tuple(key for key in before.list_keys() if key.name != "gone")))
    after.revoke("revoked", 3.0)
    assert after.list_revoked_since(before) == ["revoked", "gone"]
    assert after.list_revoked_since(after) == []
