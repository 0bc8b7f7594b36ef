"""What `gather`, `as_completed` and `wait` promise, with futures in hand."""

import asyncio
from collections import namedtuple
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from gandy import as_completed, gather, wait
from gandy.errors import ConfigError

Point = namedtuple("Point", "x y")


def ended(value: Any = None, error: Exception | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
    return future


def test_values_are_where_their_futures_were() -> None:
    assert gather(ended(1)) == 1
    assert gather([ended(1), ended(2)]) == [1, 2]
    assert gather(ended(1), ended(2), "three") == [1, 2, "three"]
    nested = {"a": [ended(1), (ended(2), 3)], "b": Point(ended(4), y=5), "c": {ended(6)}, 7: frozenset({ended(8)})}
    assert gather(nested) == {"a": [1, (2, 3)], "b": Point(4, 5), "c": {6}, 7: frozenset({8})}
    assert gather([]) == []
    assert gather("text") == "text"


def test_the_first_error_is_raised_without_waiting_for_the_rest() -> None:
    running: Future[int] = Future()
    with pytest.raises(ValueError, match="no"):
        gather([running, ended(error=ValueError("no"))])
    running.cancel()
    running.set_running_or_notify_cancel()
    with pytest.raises(CancelledError):
        gather([ended(1), running])


def test_a_future_may_be_named_twice() -> None:
    future = ended(5)
    assert gather([future, future]) == [5, 5]


def test_gather_and_wait_have_an_end() -> None:
    done, running = ended(1), Future[int]()
    with pytest.raises(TimeoutError, match="1 of 2 futures have not ended"):
        gather([done, running], timeout="0.001s")
    assert wait([done, {"x": running}], timeout=0.001) == ({done}, {running})
    assert wait([done, running], return_when="FIRST_COMPLETED").done == {done}


def test_futures_come_as_they_end_and_more_may_be_added() -> None:
    first, second, third = Future[int](), Future[int](), Future[int]()
    coming = as_completed([first, second])
    second.set_result(2)
    assert next(coming) is second
    coming.add(third)
    third.set_result(3)
    assert (len(coming), next(coming)) == (2, third)
    first.set_result(1)
    assert list(coming) == [first]
    assert list(coming) == []
    coming.update([first, first])
    assert list(coming) == [first, first]


def test_futures_come_with_their_values_or_raise() -> None:
    good, bad = ended(1), ended(error=ValueError("no"))
    coming = as_completed([good, bad], with_results=True)
    assert next(coming) == (good, 1)
    with pytest.raises(ValueError, match="no"):
        next(coming)
    assert list(coming) == []


def test_as_completed_has_an_end() -> None:
    coming = as_completed([Future[int]()], timeout=0.001)
    with pytest.raises(TimeoutError, match="1 futures have not ended"):
        next(coming)


def test_what_is_no_future_is_named() -> None:
    with pytest.raises(ConfigError, match="5 is not a future"):
        as_completed([5])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not a time"):
        gather([], timeout="soon")


def test_futures_of_asyncio_are_for_asyncio() -> None:
    async def test() -> None:
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(ConfigError, match=r"use asyncio\.gather"):
            gather([future])
        with pytest.raises(ConfigError, match=r"use asyncio\.gather"):
            as_completed([future])  # type: ignore[arg-type]

    asyncio.run(test())
