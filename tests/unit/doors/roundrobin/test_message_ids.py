"""Ids of messages of the round-robin queue."""

from gandy.doors.roundrobin.message_ids import LAST_NUMBER, MessageIds


def test_numbers_begin_again_after_a_thousand_million() -> None:
    numbers = MessageIds()
    numbers._short = iter((LAST_NUMBER - 1, LAST_NUMBER))  # type: ignore[assignment]
    assert [numbers.take_short(), numbers.take_short()] == [(LAST_NUMBER - 1).to_bytes(4, "little"), bytes(4)]


def test_short_and_long_ids_are_counted_apart() -> None:
    ids = MessageIds()
    assert [ids.take_short(), ids.take_long(), ids.take_long()] == [bytes(4), bytes(8), b"\1" + bytes(7)]
