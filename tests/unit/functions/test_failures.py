"""Exceptions travel as themselves where they can, and always with their traceback."""

import pickle
import threading
import traceback
from typing import Any

import pytest

from gandy.functions import (
    RemoteError,
    RemoteTraceback,
    describe_error,
    format_error,
    open_error,
    open_task,
    pack_error,
    pack_task,
)


class CustomError(Exception):
    """Has more than its text."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PickyError(Exception):
    """Cannot be opened: it wants other arguments than it keeps."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class RudeError(Exception):
    """Does not even have a text."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def catch(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001
        return caught


def travel(error: BaseException) -> BaseException:
    return open_error(pack_error(error))


def test_exception_comes_back_as_itself() -> None:
    error = travel(catch(CustomError(7)))
    assert isinstance(error, CustomError)
    assert (error.code, error.args) == (7, (7,))
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in catch" in error.__cause__.tb


def test_traceback_is_printed_with_the_exception() -> None:
    text = "".join(traceback.format_exception(travel(catch(ValueError("bad")))))
    assert "raise error from cause" in text
    assert text.endswith("direct cause of the following exception:\n\nValueError: bad\n")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_every_kind_travels(kind: type[BaseException]) -> None:
    assert type(travel(catch(kind(3)))) is kind


def test_group_travels() -> None:
    group = travel(catch(ExceptionGroup("both", [ValueError(1), KeyError(2)])))
    assert isinstance(group, ExceptionGroup)
    assert [type(error) for error in group.exceptions] == [ValueError, KeyError]


def test_notes_and_causes_come_along() -> None:
    cause = catch(KeyError("missing"), catch(OSError(5, "deep")))
    problem = ValueError("bad")
    problem.add_note("try again")
    error = travel(catch(problem, cause))
    assert error.__notes__ == ["try again"]
    assert isinstance(error.__cause__, KeyError)
    assert isinstance(error.__cause__.__cause__, OSError)
    assert isinstance(error.__cause__.__cause__.__cause__, RemoteTraceback)


def test_circle_of_causes_ends() -> None:
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    error = travel(first)
    assert error.args == (1,)


def make_stubborn() -> BaseException:
    error = CustomError(1)
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    error.add_note("a note")
    return error


@pytest.mark.parametrize(
    ("error", "name", "text"),
    [
        (make_stubborn(), "CustomError", "1"),
        (PickyError("this", "that"), "PickyError", "this and that"),
    ],
)
def test_exception_that_cannot_travel_is_told_in_words(error: BaseException, name: str, text: str) -> None:
    told = travel(catch(error))
    assert isinstance(told, RemoteError)
    assert (told.class_name, told.text) == (f"{__name__}.{name}", text)
    assert str(told) == f"{__name__}.{name}: {text}"
    assert "in catch" in told.trace
    assert getattr(told, "__notes__", []) == getattr(error, "__notes__", [])


def test_exception_whose_class_is_missing_is_told_in_words() -> None:
    packed = pickle.dumps(("trace", [("there.GoneError", "", [], b"\x80\x05cno_such_module\nGone\n.")]))
    error = open_error(packed)
    assert isinstance(error, RemoteError)
    assert str(error) == "there.GoneError"


def test_what_opens_as_something_else_is_told_in_words() -> None:
    packed = pickle.dumps(("trace", [("OddError", "odd", [], pickle.dumps("no exception"))]))
    assert isinstance(open_error(packed), RemoteError)


@pytest.mark.parametrize("error", [RemoteError("a.B", "text", "trace"), RemoteTraceback("trace")])
def test_our_own_can_travel_on(error: Exception) -> None:
    again: Any = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (RudeError(), "RudeError: (its text cannot be read: RuntimeError)"),
        (ValueError("x" * 1000), f"ValueError: {'x' * 487}…"),
    ],
)
def test_description_is_one_short_line(error: BaseException, line: str) -> None:
    assert describe_error(error) == line


def test_frames_of_gandy_are_not_shown_first() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        open_task(pack_task(catch_nothing)).run()
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # the frame of this test, which a slot process has not
    text = format_error(error)
    assert "tasks.py" not in text
    assert "in catch_nothing" in text


def catch_nothing() -> None:
    1 / 0  # noqa: B018


def test_rude_exception_is_packed_too() -> None:
    error = travel(catch(RudeError()))
    assert type(error) is RudeError


def test_exception_that_cannot_be_printed_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(traceback, "format_exception", fail)
    assert format_error(ValueError("bad")) == "ValueError: bad (its traceback cannot be printed: RuntimeError)\n"
