"""A keyring against the obvious: lists of what was given and taken away."""

from math import inf
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gandy.core import keyring
from gandy.core.keyring import Invitation, Key, KeyRefused, Keyring, NameTaken, hash_secret, make_proof
from gandy.core.roles import CrewRole
from gandy.errors import Rejected

MAX_KEYS, MAX_INVITATIONS = 6, 3  # so that they are reached
names = st.sampled_from(["anna", "bert", "carla"])


class Ring(RuleBasedStateMachine):
    """Time goes on; keys and invitations come, end, and are tried again."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = mock.patch.multiple(keyring, MAX_KEYS=MAX_KEYS, MAX_INVITATIONS=MAX_INVITATIONS)
        self.limits.start()
        self.ring = Keyring()
        self.now = 1.0
        self.count = 0
        self.ends: dict[str, float] = {}  # of every key that there ever was, when it ends or ended
        self.uses: dict[str, int] = {}  # that are left, of every invitation
        self.closes: dict[str, float] = {}

    def teardown(self) -> None:
        self.limits.stop()

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=names, seconds=st.sampled_from([None, 1.0, 15.0]))
    def add(self, name: str, seconds: float | None) -> None:
        self.count += 1
        expires = None if seconds is None else self.now + seconds
        key = Key(f"{self.count:064x}", name, CrewRole.CLIENT, self.now, "test", expires)
        good = sum(end > self.now for end in self.ends.values())
        is_taken = any(each.name == name and self.ends[each.fingerprint] > self.now for each in self.ring.list_keys())
        try:
            self.ring.add(key)
        except NameTaken:
            assert is_taken
        except Rejected:
            assert good >= MAX_KEYS
        else:
            assert good < MAX_KEYS
            assert not is_taken
            self.ends[key.fingerprint] = inf if expires is None else expires

    @rule(name=names)
    def revoke(self, name: str) -> None:
        known = [key for key in self.ring.list_keys() if key.name == name]
        try:
            self.ring.revoke(name, self.now)
        except Rejected:
            assert not known
        for key in known:
            self.ends[key.fingerprint] = min(self.now, self.ends[key.fingerprint])

    @rule(uses=st.integers(1, 3), seconds=st.sampled_from([1.0, 15.0]))
    def invite(self, uses: int, seconds: float) -> None:
        self.count += 1
        name = f"i{self.count}"
        is_open = [each for each in self.uses if self.uses[each] and self.closes[each] > self.now]
        try:
            check = hash_secret(name.encode())
            self.ring.invite(Invitation(name, check, CrewRole.WORKER, self.now + seconds, uses), self.now)
        except Rejected:
            assert len(is_open) >= MAX_INVITATIONS
        else:
            assert len(is_open) < MAX_INVITATIONS
            self.uses[name], self.closes[name] = uses, self.now + seconds

    @precondition(lambda self: self.uses)
    @rule(choice=st.integers(0, 1_000), is_right=st.booleans())
    def redeem(self, choice: int, is_right: bool) -> None:
        name = list(self.uses)[choice % len(self.uses)]
        proof = make_proof(hash_secret(name.encode() if is_right else b"guess"), b"bound")
        is_good = is_right and self.uses[name] > 0 and self.now < self.closes[name]
        try:
            self.ring.redeem(name, proof, b"bound", self.now)
        except Rejected:
            assert not is_good
        else:
            assert is_good
            self.uses[name] -= 1

    @precondition(lambda self: self.uses)
    @rule(choice=st.integers(0, 1_000))
    def revoke_invitation(self, choice: int) -> None:
        name = list(self.uses)[choice % len(self.uses)]
        try:
            self.ring.revoke(name, self.now)
        except Rejected:
            assert not self.uses[name] or self.closes[name] <= self.now
        self.uses[name] = 0

    @rule()
    def restart(self) -> None:
        self.ring = Keyring(self.ring.state)

    @invariant()
    def only_good_keys_are_let_in(self) -> None:
        for fingerprint, end in self.ends.items():
            try:
                self.ring.check(fingerprint, self.now)
            except KeyRefused:
                assert end <= self.now
            else:
                assert end > self.now

    @invariant()
    def caps_hold(self) -> None:
        assert len(self.ring.list_keys()) <= MAX_KEYS
        assert len(self.ring.list_invitations(self.now)) <= MAX_INVITATIONS


Ring.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestRing = Ring.TestCase
