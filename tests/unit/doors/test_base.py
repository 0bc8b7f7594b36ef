"""What doors have in common."""

import pytest

from gandy.doors.base import Outgoing, name_peer


@pytest.mark.parametrize(
    ("routing_id", "name"),
    [
        (b"tcp://127.0.0.1:6714:234595", "rr/tcp://127.0.0.1:6714:234595"),
        (b"w", "rr/w"),
        (b"50%", "rr/50%25"),
        (b"\x00k\x8b", "rr/%%006b8b"),
        (b"a\nb", "rr/%%610a62"),
        ("ä".encode(), "rr/%%c3a4"),
        (b"%%61", "rr/%25%2561"),
    ],
)
def test_every_routing_id_has_a_name(routing_id: bytes, name: str) -> None:
    assert name_peer("rr/", routing_id) == name


def test_two_routing_ids_never_have_the_same_name() -> None:
    ids = [bytes([first, second]) for first in range(256) for second in range(256)]
    ids += [b"%%" + bytes([first]).hex().encode() for first in range(256)]
    assert len({name_peer("rr/", routing_id) for routing_id in ids}) == len(ids)


def test_a_parcel_is_no_call_unless_it_says_so() -> None:
    assert Outgoing([b"w", b""]).call == -1
