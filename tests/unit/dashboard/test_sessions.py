"""Tokens and the sessions that they open."""

from gandy.dashboard.limits import (
    MAX_PROGRAMS,
    MAX_SESSION_BURST,
    MAX_SESSION_RATE,
    MAX_SESSIONS,
    MAX_WRONG_TOKENS,
)
from gandy.dashboard.sessions import Session, Sessions


def make(own: str | None = None) -> tuple[Sessions, list[str]]:
    """Sessions, and the tokens that were printed."""
    printed: list[str] = []
    sessions = Sessions(own, printed.append)
    sessions.print_next()
    return sessions, printed


def test_each_token_opens_one_browser() -> None:
    sessions, printed = make()
    secret = sessions.open_browser(printed[0])
    assert secret is not None
    assert secret != printed[0]
    assert sessions.open_browser(printed[0]) is None
    assert len(printed) == 2
    assert sessions.find_browser(secret) is sessions.find_browser(secret)
    assert sessions.find_browser(printed[0]) is None


def test_token_of_a_program_opens_no_browser() -> None:
    sessions, printed = make(own="own token")
    program = sessions.find_program(printed[0])
    assert program is not None
    assert sessions.find_program(printed[0]) is program
    assert sessions.open_browser(printed[0]) is None
    assert sessions.find_program("own token") is sessions.find_program("own token")
    assert sessions.open_browser("own token") is None
    assert len(printed) == 2


def test_token_of_a_browser_is_for_no_program() -> None:
    sessions, printed = make()
    sessions.open_browser(printed[0])
    assert sessions.find_program(printed[0]) is None


def test_wrong_tokens_are_found_nowhere() -> None:
    sessions, _ = make()
    for wrong in ("", "x", "\udcff", "x" * 100_000):
        assert sessions.open_browser(wrong) is None
        assert sessions.find_program(wrong) is None
        assert sessions.find_browser(wrong) is None


def test_browser_that_was_away_longest_is_forgotten() -> None:
    sessions, printed = make()
    secrets = [sessions.open_browser(printed[-1]) or "" for _ in range(MAX_SESSIONS)]
    assert sessions.find_browser(secrets[0])  # was here just now
    sessions.open_browser(printed[-1])
    assert sessions.find_browser(secrets[0])
    assert not sessions.find_browser(secrets[1])


def test_program_that_was_away_longest_is_forgotten() -> None:
    sessions, printed = make()
    for _ in range(MAX_PROGRAMS):
        sessions.find_program(printed[-1])
    assert sessions.find_program(printed[0])
    sessions.find_program(printed[-1])
    assert sessions.find_program(printed[0])
    assert not sessions.find_program(printed[1])


def test_wrong_tokens_are_counted_and_forgiven() -> None:
    sessions, _ = make()
    assert not any(sessions.note_wrong(100.0) for _ in range(MAX_WRONG_TOKENS))
    assert sessions.note_wrong(100.0)
    assert all(sessions.note_wrong(100.0) for _ in range(1_000))
    assert not sessions.note_wrong(103.0)  # however many there were


def test_session_that_asks_in_a_loop_waits() -> None:
    session = Session()
    waits = [session.take_turn(50.0) for _ in range(MAX_SESSION_BURST + 10)]
    assert waits[:MAX_SESSION_BURST] == [0.0] * MAX_SESSION_BURST
    assert max(waits) == waits[-1]
    assert round(waits[-1], 6) == 10 / MAX_SESSION_RATE
    assert session.take_turn(60.0) == 0.0
