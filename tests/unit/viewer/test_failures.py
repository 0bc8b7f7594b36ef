"""Which failures are alike, and what is shown of them."""

from typing import Any

import pytest
from tests.unit.client.builders import a_task_row

from gandy.core.model import Cause, TaskState
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.viewer.failures import (
    LISTED_GROUPS,
    NAMED_TASKS,
    WORDS_LENGTH,
    FailureGroup,
    find_last_words,
    group_failures,
)


def group(*tails: str, **ending: Any) -> list[str]:
    """The words of the groups of tasks that wrote this."""
    rows = [a_task_row(number, tail=tail.encode(), **ending) for number, tail in enumerate(tails, 1)]
    return [found.words for found in group_failures(rows).groups]


def words_of(tail: bytes, **ending: Any) -> str:
    row = a_task_row(tail=tail, **ending)
    assert row.ending is not None
    return find_last_words(row.ending)


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("no row 17", "no row 4,000.5", "no row <n>"),
        ("at 0x7fA0", "at 0x1", "at <n>"),
        ("object 3fa99b0c is gone", "object 77120931 is gone", "object <n> is gone"),
        ("cannot open /data/in-1.txt", "cannot open /x", "cannot open <path>"),
        ("in ./a/b: no", "in ~/c: no", "in <path>: no"),
        ("GET https://a.org/x?y=1: 404", "GET http://b: 404", "GET <url>: 404"),
        (
            "run 6fa459ea-ee8a-3ca4-894e-db77e160355e",
            "run 16fd2706-8baf-433b-82eb-8c7fada847da",
            "run <id>",
        ),
        ("in7.txt is short", "in8.txt is short", "in<n>.txt is short"),
        ("loss 1e-05", "loss 2.5", "loss <n>"),
    ],
)
def test_failures_that_differ_in_numbers_ids_and_paths_are_alike(one: str, other: str, shown: str) -> None:
    assert group(one, other) == [shown]


def test_value_that_all_failures_share_is_shown() -> None:
    assert group("HTTP 503 from host 1", "HTTP 503 from host 2") == ["HTTP 503 from host <n>"]
    assert group("utf8: bad", "utf8: bad") == ["utf8: bad"]


def test_other_words_are_another_group() -> None:
    assert group("no space", "no memory") == ["no space", "no memory"]


def test_words_with_a_slash_are_no_path() -> None:
    assert group("read/write error", "read/only error") == ["read/write error", "read/only error"]


def test_same_words_with_another_exit_code_are_another_group() -> None:
    rows = [a_task_row(1, tail=b"no", exit_code=1), a_task_row(2, tail=b"no", exit_code=2)]
    assert [found.cause for found in group_failures(rows).groups] == ["exit code 1", "exit code 2"]


def test_largest_group_comes_first_and_names_its_first_tasks() -> None:
    rows = [a_task_row(1, tail=b"rare"), *(a_task_row(number, tail=b"often") for number in range(2, 30))]
    first, second = group_failures(rows).groups
    tasks = tuple(TaskNumber(number) for number in range(2, 2 + NAMED_TASKS))
    assert first == FailureGroup("often", "exit code 1", 28, tasks)
    assert second == FailureGroup("rare", "exit code 1", 1, (TaskNumber(1),))


def test_number_of_groups_is_limited_and_the_rest_is_counted() -> None:
    letters = [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(LISTED_GROUPS + 7)]
    rows = [a_task_row(number, tail=word.encode()) for number, word in enumerate(letters, 1)]
    found = group_failures(rows)
    assert (len(found.groups), found.left_out) == (LISTED_GROUPS, 7)


def test_last_line_that_is_not_empty_counts() -> None:
    assert words_of(b"first\nlast  one \n \n\t\n") == "last one"
    assert words_of(b"10%\r20%\r") == "20%"


def test_last_words_are_printable_and_have_no_colours() -> None:
    assert words_of(b"\x1b[1;31mred\x1b[0m \xff\x07\x00") == "red \ufffd\\x07\\x00"


def test_long_last_words_are_cut() -> None:
    words = words_of(b"x" * 5_000)
    assert (len(words), words[-1]) == (WORDS_LENGTH, "…")


def test_exception_of_a_function_counts_more_than_what_it_wrote() -> None:
    assert words_of(b"warning", cause=Cause.RAISED, note="ValueError: no\nmore") == "ValueError: no"
    assert words_of(b"warning", cause=Cause.RAISED, note="") == "warning"


def test_what_ended_a_silent_task_is_said_once() -> None:
    row = a_task_row(cause=Cause.NOT_STARTED, exit_code=None, note="no such program: x1")
    (found,) = group_failures([row]).groups
    assert (found.words, found.cause) == ("no such program: x1", "could not start")


def test_note_of_a_killed_task_is_part_of_its_cause() -> None:
    how: dict[str, Any] = {"cause": Cause.SIGNAL, "exit_code": None, "signal": 9, "tail": b"x"}
    rows = [a_task_row(number, **how, note=f"killed by SIGKILL at {number}") for number in (1, 2)]
    (found,) = group_failures(rows).groups
    assert (found.words, found.cause) == ("x", "killed by signal 9 (killed by SIGKILL at <n>)")


def test_task_lost_with_its_worker_has_no_words() -> None:
    (found,) = group_failures([a_task_row(cause=Cause.WORKER_LOST, exit_code=None)]).groups
    assert (found.words, found.cause) == ("", "lost with its worker")


def test_task_whose_ending_is_not_known_is_left_out() -> None:
    assert group_failures([TaskRow(TaskNumber(1), TaskState.FAILED, 1)]).groups == ()
