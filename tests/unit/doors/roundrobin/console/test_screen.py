"""What is written, where, and around a prompt."""

import logging

import pytest

from gandy.doors.roundrobin.console import screen as screens
from gandy.doors.roundrobin.console.screen import Screen, ScreenHandler, show_text


def test_answers_and_the_rest_go_to_their_streams_as_far_as_the_level_goes(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(1)
    screen.log(1, "basic")
    screen.log(2, "stats")
    screen.complain("wrong")
    screen.answer("result")
    assert capfd.readouterr() == ("result\n", "basic\nwrong\n")


def test_nothing_is_written_between_hold_and_prompt(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(1)
    for stream in screen._streams:
        stream.is_terminal = True
    screen.hold()
    screen.log(1, "news")
    assert capfd.readouterr().err == ""
    screen.on_prompt(lambda: "typ")
    screen.flush()
    assert capfd.readouterr().err == "\r\x1b[Knews\n> typ"
    screen.on_prompt(None)
    screen.log(1, "more")
    screen.flush()
    assert capfd.readouterr().err == "more\n"


def test_terminal_that_can_do_nothing_gets_a_new_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen(1)
    screen._streams[0].is_terminal = True
    screen.on_prompt(lambda: "")
    screen.log(1, "news")
    screen.flush()
    assert capfd.readouterr().err == "\nnews\n> "


def test_lines_beyond_the_limit_are_left_out_and_counted(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "MAX_WAITING_LINES", 2)
    screen = Screen(1)
    screen.hold()
    for number in range(5):
        screen.log(1, str(number))
    screen.on_prompt(None)
    screen.flush()
    assert capfd.readouterr().err == "0\n1\n3 lines were left out\n"


def test_an_answer_raises_when_the_reader_is_gone() -> None:
    screen = Screen(0)
    screen._streams[1]._fd = 1_000_000
    with pytest.raises(BrokenPipeError):
        screen.answer("result")
    screen.close()


def test_other_parts_of_gandy_are_heard(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(0)
    handler = ScreenHandler(screen, "SERVER")
    for level in (logging.INFO, logging.WARNING):
        handler.emit(logging.LogRecord("gandy", level, "", 1, "level %d", (level,), None))
    screen.flush()
    assert capfd.readouterr().err == "SERVER: level 30\n"


def test_text_of_others_does_nothing_to_the_terminal() -> None:
    assert show_text("a\x1b[2Jb\nü") == "a?[2Jb?ü"
