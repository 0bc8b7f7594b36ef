"""Function tasks: packed, opened, run; and what is said of things that cannot be pickled."""

import asyncio
import functools
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gandy.functions import (
    NotPicklable,
    format_error,
    open_function,
    open_result,
    open_task,
    pack_function,
    pack_items,
    pack_task,
    pack_value,
)
from gandy.functions.tasks import name_function


class Keeper:
    """Has something that cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def use(self) -> None:
        pass


def take(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def test_task_is_run() -> None:
    assert open_task(pack_task(take, (1, 2), {"three": 3})).run() == ((1, 2), {"three": 3})
    assert open_task(pack_task(take)).run() == ((), {})
    assert open_task(bytearray(pack_task(lambda x: x + 1, (1,)))).run() == 2


def test_chunk_is_run_with_the_shared_function() -> None:
    function = open_function(pack_function(math.pow))
    assert open_task(pack_items([(2, 3), (3, 2)]), function).run() == [8, 9]
    assert open_task(pack_items([]), function).run() == []
    assert open_task(pack_items([(1, 1)]), function).function is math.pow


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


class Doubler:
    async def __call__(self, number: int) -> int:
        return await double(number)


@pytest.mark.parametrize("function", [double, Doubler(), functools.partial(double), lambda number: double(number)])
def test_coroutine_is_run_to_its_end(function: Callable[[int], Any]) -> None:
    assert open_task(pack_task(function, (4,))).run() == 8
    assert open_task(pack_items([(1,), (2,)]), function).run() == [2, 4]


def test_coroutine_leaves_no_loop_behind() -> None:
    async def find_loop() -> int:
        begun = asyncio.create_task(asyncio.sleep(3_600))  # is cancelled when the function returns
        await asyncio.sleep(0)
        return id(begun)

    assert open_task(pack_task(find_loop)).run()
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


async def fail() -> None:
    await asyncio.sleep(0)
    raise ValueError("bad")


def test_traceback_of_a_coroutine_begins_where_it_was_written() -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        open_task(pack_task(fail)).run()
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # this frame, which a slot process does not have
    lines = format_error(error).splitlines()
    assert (lines[0], lines[2:]) == (
        "Traceback (most recent call last):",
        ['    raise ValueError("bad")', "ValueError: bad"],
    )


def test_value_comes_back() -> None:
    assert open_result(pack_value({"a": [1]})) == {"a": [1]}


def test_missing_module_gives_advice() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        open_task(b"\x80\x05cno_such_module\nfunction\n.").run()
    assert "register_pickle_by_value" in caught.value.__notes__[0]


def make_closure() -> Any:
    lock = threading.Lock()
    unset: Any
    if lock.locked():
        unset = 1
    return lambda: (lock, unset)


def make_function_of_a_program() -> Any:
    program: dict[str, Any] = {"__name__": "__main__", "lock": threading.Lock()}
    exec("def use(): return len, lock", program)
    return program["use"]


def iter_nothing() -> Iterator[None]:
    yield None


LOCK = "a _thread.lock"
BAD: dict[str, tuple[Any, str]] = {
    "itself": (threading.Lock(), LOCK),
    "dict": ({"x": threading.Lock()}, f"{LOCK} inside dict key 'x'"),
    "key": ({threading.Lock(): 1}, f"{LOCK} inside a key of a dict"),
    "list": ([1, 2, [threading.Lock()]], f"{LOCK} inside item 2 of a list, item 0 of a list"),
    "set": ({threading.Lock()}, f"{LOCK} inside item 0 of a set"),
    "attribute": (Keeper(), f"{LOCK} inside attribute 'lock' of a {Keeper.__module__}.Keeper"),
    "closure": (make_closure(), f"{LOCK} inside variable 'lock' of function <lambda>"),
    "global": (make_function_of_a_program(), f"{LOCK} inside global 'lock' of function use"),
    "default": (lambda lock=threading.Lock(): lock, f"{LOCK} inside a default of function <lambda>"),  # noqa: B008
    "method": (Keeper().use, f"{LOCK} inside the object of method use, attribute 'lock' of"),
    "partial": (functools.partial(take, 1, threading.Lock()), f"{LOCK} inside argument 2 of a partial"),
    "partial by name": (functools.partial(take, a=threading.Lock()), f"{LOCK} inside argument 'a' of a partial"),
    "partial of method": (functools.partial(Keeper().use), f"{LOCK} inside the function of a partial, the object of"),
    "generator": (iter_nothing(), "a generator"),
}


@pytest.mark.parametrize("case", BAD)
def test_argument_that_cannot_travel_is_named(case: str) -> None:
    value, told = BAD[case]
    with pytest.raises(NotPicklable) as caught:
        pack_task(take, (1, value, 3))
    assert str(caught.value).startswith(f"cannot pickle argument 2 of take: {told}")
    assert isinstance(caught.value, TypeError)
    assert caught.value.__cause__ is not None


def test_everything_that_cannot_travel_is_named() -> None:
    lock = threading.Lock()
    with pytest.raises(NotPicklable, match=r"^cannot pickle argument 'key' of take: a _thread.lock \(TypeError"):
        pack_task(take, (), {"key": lock})
    with pytest.raises(NotPicklable, match=r"^cannot pickle the function Keeper.use: a _thread.lock inside the object"):
        pack_task(Keeper().use)
    with pytest.raises(NotPicklable, match=r"^cannot pickle the function .*<lambda>: a _thread.lock inside"):
        pack_function(make_closure())
    with pytest.raises(NotPicklable, match=r"^cannot pickle argument 2 of item 1 of the chunk: a _thread.lock"):
        pack_items([(1, 2), (3, lock)])
    with pytest.raises(NotPicklable, match=r"^cannot pickle the result of take: a _thread.lock inside dict key 'x'"):
        pack_value({"x": lock}, take)
    with pytest.raises(NotPicklable, match=r"^cannot pickle the result: a _thread.lock \("):
        pack_value(lock)


def test_long_lists_are_searched_quickly() -> None:
    items: list[Any] = list(range(100_000))
    items[77_777] = threading.Lock()
    with pytest.raises(NotPicklable, match=r"inside item 77777 of a list"):
        pack_value(items)


def test_cycles_end() -> None:
    knot: list[Any] = [threading.Lock()]
    knot.insert(0, knot)
    with pytest.raises(NotPicklable, match=r"cannot pickle the result"):
        pack_value(knot)


def test_value_that_raises_anything_is_named() -> None:
    class Rude:
        def __reduce__(self) -> Any:
            raise KeyError("no")

    with pytest.raises(NotPicklable, match=r"Rude inside item 0 of a list .KeyError"):
        pack_value([Rude()])


@pytest.mark.parametrize(
    ("function", "name"),
    [(take, "take"), (functools.partial(take, 1), "take"), (Keeper, "Keeper"), (Keeper().use, "Keeper.use")],
)
def test_functions_have_names(function: Any, name: str) -> None:
    assert name_function(function) == name
