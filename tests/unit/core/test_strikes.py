"""What speaks against a task, and what a suspect takes."""

import pytest

from gandy.core.strikes import NO_STRIKES, Strikes, StrikeTable
from gandy.ids import TaskNumber

ONE = TaskNumber(1)


def test_strikes_are_counted_and_forgiven() -> None:
    table = StrikeTable()
    assert table.strike(ONE, is_crash=False) == Strikes(1, 0)
    assert table.strike(ONE, is_crash=True) == Strikes(1, 1)
    table.pop(ONE)
    assert table[ONE] == NO_STRIKES
    assert ONE not in table, "a look leaves no trace"


@pytest.mark.parametrize(("crashes", "is_suspect"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_task_that_was_lost_with_two_workers_is_suspected(crashes: int, is_suspect: bool) -> None:
    assert Strikes(failures=9, crashes=crashes).is_suspect == is_suspect


def test_a_suspect_has_fewer_neighbours_with_each_crash() -> None:
    assert [Strikes(crashes=crashes).suspect_slots for crashes in (2, 3, 4)] == [4, 16, 64]
