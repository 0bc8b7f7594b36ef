"""The bar of a map: in terminals and notebooks, and nowhere else."""

import builtins
import io
import sys
import types
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from tests.screens import Screen

from gandy.progress import showing


class Chunk(Future[list[int]]):
    """Stands for a task of so many items."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def run_map(*sizes: int) -> None:
    """The first task has ended when the bar begins, and an error ends the map before the last one has."""
    chunks: list[Any] = [Chunk(size) for size in sizes]
    chunks[0].set_result([])
    with suppress(ValueError), showing("work", chunks):
        for chunk in chunks[1:-1]:
            chunk.set_exception(ValueError())
        raise ValueError


def test_bar_counts_items(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", screen)
    run_map(1_000, 500, 7)
    last = screen.getvalue().rpartition("work")[2]
    assert "1,500/1,507" in last
    assert "items/s" in last


def test_bar_is_full_when_all_values_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    late: Any = Chunk(7)
    with showing("work", [late]):
        pass
    late.set_result([])  # its value was there, and it calls back now
    assert "7/7" in screen.getvalue().rpartition("work")[2]


def test_what_is_printed_to_a_file_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, file = Screen(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", file)
    with showing("work", []):
        print("a value")
    assert file.getvalue() == "a value\n"
    assert "a value" not in screen.getvalue()


@pytest.mark.parametrize("has_ipython", [False, True])  # it may be imported, and no notebook be there
def test_nothing_is_drawn_outside_terminals_and_notebooks(monkeypatch: pytest.MonkeyPatch, has_ipython: bool) -> None:
    file = io.StringIO()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", file)
    if has_ipython:
        monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    run_map(1, 1, 1)
    assert file.getvalue() == ""


class ZMQInteractiveShell:
    """What a notebook has; rich knows it by this name."""


class Widget:
    """A part of a notebook's page that can be written anew."""

    made: ClassVar[list["Widget"]] = []

    def __init__(self) -> None:
        self.clears = 0
        self.made.append(self)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def clear_output(self, wait: bool) -> None:
        self.clears += wait


def test_notebook_has_a_bar_in_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[Any] = []
    display: Any = types.ModuleType("IPython.display")
    display.display = pages.append
    widgets: Any = types.ModuleType("ipywidgets")
    widgets.Output = Widget
    printed: list[str] = []
    file = io.StringIO()
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: printed.append(text))
    monkeypatch.setattr(sys, "stderr", file)
    run_map(3, 4, 5)
    assert pages == Widget.made
    assert Widget.made[-1].clears > 0
    assert file.getvalue() == ""
    assert "7/12" in printed[-2]  # rich ends with an empty one
