"""What travels by name, what by value, and what is copied."""

import functools
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
from tests.unit.functions import travellers

from gandy.functions import WrongPython
from gandy.functions.packing import ALIGNMENT, ENVELOPE, PLAIN, pack, unpack


class Array:
    """Gives its memory out of band, as arrays do."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Array, (pickle.PickleBuffer(self.memory),)


def is_by_value(packed: bytes) -> bool:
    return packed[0] != PLAIN and bool(packed[1] & 1)


@pytest.mark.parametrize("value", [None, 1, "text", [1, {"a": (2,)}], math.floor, Path("x"), functools.partial(max, 1)])
def test_what_can_be_imported_is_a_plain_pickle(value: Any) -> None:
    packed = pack(value)
    assert packed[0] == PLAIN
    opened = unpack(packed)
    assert opened == value or opened.args == value.args


@pytest.mark.parametrize("value", [lambda: 1, [lambda: 1], {"key": (lambda: 1,)}])
def test_what_cannot_be_imported_travels_by_value(value: Any) -> None:
    assert is_by_value(pack(value))


def test_text_that_names_main_still_travels() -> None:
    assert unpack(pack(["__main__"])) == ["__main__"]


SCRIPT = """
import sys
from gandy.functions import pack_task

class Point:
    def __init__(self, x): self.x = x

def shift(point, by=1): return Point(point.x + by)

def read(value): return value["point"].x

first, second = pack_task(shift, (Point(1),)), pack_task(len, ([Point(1), Point], ))
open(sys.argv[1], "wb").write(first)
open(sys.argv[2], "wb").write(second)
"""


def test_functions_and_classes_of_a_program_travel_by_value(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = [str(tmp_path / name) for name in ("first", "second")]
    subprocess.run([sys.executable, str(tmp_path / "script.py"), *paths], check=True)
    function, (point,), _ = unpack(Path(paths[0]).read_bytes())
    assert function(point).x == 2
    function, (points,), _ = unpack(Path(paths[1]).read_bytes())
    assert function(points) == 2


def test_modules_registered_with_cloudpickle_travel_by_value() -> None:
    assert pack(travellers.greet)[0] == PLAIN
    cloudpickle.register_pickle_by_value(travellers)
    try:
        assert is_by_value(pack(travellers.greet))
    finally:
        cloudpickle.unregister_pickle_by_value(travellers)


@pytest.mark.parametrize("sizes", [(1,), (0, 5), (100_000, 3, 17)])
def test_memory_of_arrays_stays_where_it_came(sizes: tuple[int, ...]) -> None:
    packed = bytearray(pack([Array(bytearray(b"x" * size)) for size in sizes]))
    arrays = unpack(packed)
    assert [bytes(array.memory) for array in arrays] == [b"x" * size for size in sizes]
    arrays[-1].memory[0] = 1
    assert 1 in packed[-sizes[-1] :]  # the same memory


def test_memory_of_arrays_can_be_written_to_even_out_of_bytes() -> None:
    (array,) = unpack(pack([Array(bytearray(b"abc"))]))
    array.memory[0] = 0
    assert bytes(array.memory) == b"\0bc"


def test_memory_that_was_read_only_stays_so() -> None:
    (array,) = unpack(bytearray(pack([Array(b"abc")])))
    assert memoryview(array.memory).readonly


def test_sections_are_aligned() -> None:
    packed = pack([Array(bytearray(b"x")), Array(bytearray(b"y" * 16))])
    assert packed.index(b"y" * 16) % ALIGNMENT == 0


def test_code_of_another_python_is_refused() -> None:
    packed = bytearray(pack(lambda: 1))
    packed[3] += 1
    with pytest.raises(WrongPython, match=rf"travelled as code from Python 3\.{packed[3]} to 3\."):
        unpack(packed)


def test_data_of_another_python_is_welcome() -> None:
    packed = bytearray(pack(Array(bytearray(b"abc"))))
    packed[3] += 1
    assert bytes(unpack(packed).memory) == b"abc"


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not a packed value"):
        unpack(bytes(ENVELOPE.size))
