"""docs/design/walks.md: its functions exist, and no turn enters a layer again that it left."""

import importlib
import re
from functools import reduce
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parents[2] / "docs" / "design" / "walks.md"
STEP: Final = re.compile(r"`([a-z0-9_.]+):([A-Za-z0-9_.]+)`")
WITHOUT_IO: Final = {"core", "talk", "wire", "bus.core", "bus.wire"}  # one layer: the crew without I/O

Step = tuple[str, str]


def read_turns() -> list[list[Step]]:
    """The numbered items of the page, each with its steps."""
    items = re.split(r"^\d+\. ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return [STEP.findall(item.split("\n\n")[0]) for item in items]


def find_layer(module: str) -> str:
    first, _, rest = module.partition(".")
    layer = f"{first}.{rest.partition('.')[0]}" if first == "bus" else first
    return "without I/O" if layer in WITHOUT_IO else layer


TURNS: Final = read_turns()
STEPS: Final = sorted({step for turn in TURNS for step in turn})


def test_the_page_has_five_walks() -> None:
    assert len(re.findall(r"^## ", PAGE.read_text(), flags=re.MULTILINE)) == 5


def test_the_walk_of_a_shell_task_has_at_most_100_functions() -> None:
    walk = PAGE.read_text().split("\n## ")[1]
    assert 50 < len(set(STEP.findall(walk))) <= 100


@pytest.mark.parametrize(("module", "function"), STEPS)
def test_every_step_exists(module: str, function: str) -> None:
    assert callable(reduce(getattr, function.split("."), importlib.import_module(f"gandy.{module}")))


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn[0][1] if turn else "-")
def test_no_turn_enters_a_layer_again_that_it_left(turn: list[Step]) -> None:
    left: set[str] = set()
    current = ""
    for module, function in turn:
        layer = find_layer(module)
        if layer != current:
            assert layer not in left, f"{module}:{function}"
            left.add(current)
            current = layer
