"""Which peers spoke over which connection, without sockets."""

import pytest

from gandy.doors.sockets.connections import GRACE, PATIENCE, Connections


def settle(connections: Connections, now: float, *, is_drained: bool = True) -> set[bytes]:
    return connections.settle(now, is_drained=is_drained)


def test_a_lost_connection_tells_its_peer_after_the_grace() -> None:
    connections = Connections()
    connections.note(b"x", 15, 0.0)
    connections.lose(15, 1.0)
    assert settle(connections, 1.0 + GRACE / 2) == set()
    assert settle(connections, 1.0 + GRACE) == {b"x"}
    assert settle(connections, 9.0) == set()
    assert connections.are_settled


def test_a_message_read_after_the_notice_belongs_to_it() -> None:
    connections = Connections()
    connections.lose(15, 1.0)
    connections.note(b"x", 15, 1.0)
    assert settle(connections, 1.5, is_drained=False) == set()
    assert settle(connections, 1.5) == {b"x"}


def test_patience_ends_and_later_messages_are_told_again() -> None:
    connections = Connections()
    connections.note(b"x", 15, 0.0)
    connections.lose(15, 0.0)
    assert settle(connections, PATIENCE, is_drained=False) == {b"x"}
    assert b"x" not in connections.numbers
    connections.note(b"x", 15, PATIENCE)
    assert settle(connections, PATIENCE) == {b"x"}
    assert connections.are_settled


def test_a_peer_on_a_number_that_is_used_again_is_not_forgotten() -> None:
    connections = Connections()
    connections.note(b"x", 15, 0.0)
    # It comes back with the same number, and its message is read before the notice: nothing looks new.
    connections.lose(15, 1.0)
    assert settle(connections, 2.0) == {b"x"}
    connections.lose(15, 3.0)  # a stranger's, in between
    assert settle(connections, 4.0) == {b"x"}
    connections.lose(15, 5.0)
    assert settle(connections, 6.0) == {b"x"}


def test_a_peer_that_moves_leaves_its_old_connection() -> None:
    connections = Connections()
    assert not connections.note(b"x", 15, 0.0)
    assert connections.note(b"x", 16, 1.0)
    assert connections.numbers == {b"x": 16}
    assert settle(connections, 2.0) == {b"x"}
    connections.lose(16, 3.0)
    assert settle(connections, 4.0) == {b"x"}
    assert connections.numbers == {}


def test_the_table_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.doors.sockets.connections.MAX_TRACKED_PEERS", 10)
    connections = Connections()
    for number in range(100):
        connections.note(b"%d" % number, number, 0.0)
    assert len(connections.numbers) == 10
    connections.lose(3, 1.0)
    assert settle(connections, 2.0) == {b"3"}
