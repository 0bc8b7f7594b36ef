"""Functions that tests have run: apart from the tests, because slot processes import the module of a function."""

from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def double_noted(number: int, notes: Path) -> int:
    with (notes / str(number)).open("a") as note:
        note.write("run\n")
    return 2 * number


def measure(data: bytes) -> int:
    return len(data)
