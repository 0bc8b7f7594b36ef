"""Words of lines: several in one, and arguments in the next."""

from collections.abc import Iterator

from gandy.doors.roundrobin.console.words import Words

COMMANDS = {"bulkping", "quit"}


def make(*lines: str, is_terminal: bool = False) -> Words:
    rest: Iterator[str] = iter(lines)
    return Words(lambda: next(rest, None), is_terminal)


def test_several_words_may_be_in_one_line() -> None:
    words = make("ping  pingt\n", "\n", "\tquit")
    assert [words.take() for _ in range(4)] == ["ping", "pingt", "quit", None]


def test_argument_may_be_in_the_next_line_of_a_pipe() -> None:
    words = make("bulkping\n", "\n", " 100 quit\n")
    assert words.take() == "bulkping"
    assert words.take_argument(COMMANDS) == "100"
    assert words.take() == "quit"


def test_argument_is_not_in_the_next_line_of_a_terminal() -> None:
    words = make("bulkping", "100", is_terminal=True)
    assert words.take() == "bulkping"
    assert words.take_argument(COMMANDS) is None
    assert words.take() == "100"


def test_argument_in_the_line_of_a_terminal() -> None:
    words = make("bulkping 100", is_terminal=True)
    assert words.take() == "bulkping"
    assert words.take_argument(COMMANDS) == "100"


def test_command_is_no_argument_and_stays() -> None:
    words = make("bulkping quit")
    assert words.take() == "bulkping"
    assert words.take_argument(COMMANDS) is None
    assert words.take() == "quit"


def test_end_of_input_is_no_argument() -> None:
    words = make("bulkping")
    assert words.take() == "bulkping"
    assert words.take_argument(COMMANDS) is None
    assert words.take() is None


def test_rest_of_a_line_can_be_dropped() -> None:
    words = make("ping ping\n", "quit\n")
    words.take()
    words.drop_line()
    assert words.take() == "quit"
