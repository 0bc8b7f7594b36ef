"""A map of a job's tasks: each cell stands for as many tasks as it must, and shows the worst of them. Pure."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from gandy.cli.top.lines import SPARKS, Line, Styled, make_line
from gandy.core.model import TaskState

# In this order: the first state that a task of the cell is in. A cell in which some tasks are finished and the others
# wait shows how many are.
_MARKS: Final = (
    (TaskState.FAILED, "✗"),
    (TaskState.RUNNING, "▒"),
    (TaskState.ASSIGNED, "░"),
)

LEGEND: Final = make_line(
    Styled("█", "finished"),
    " finished  ",
    Styled("▒", "running"),
    " running  ",
    Styled("░", "assigned"),
    " assigned  ",
    Styled("·", "waiting"),
    " waiting  ",
    Styled("✗", "failed"),
    " failed  ",
    Styled("○", "cancelled"),
    " cancelled",
)


def draw_map(states: bytes | bytearray, width: int, rows: int) -> tuple[list[Line], int]:
    """The lines of the map, and how many tasks a cell stands for."""
    size = max(1, -(-len(states) // (width * rows)))
    cells = [_mark(states[first : first + size]) for first in range(0, len(states), size)]
    return [tuple(_join(cells[first : first + width])) for first in range(0, len(cells), width)], size


def _join(cells: Iterable[Styled]) -> Iterator[Styled]:
    for style, group in groupby(cells, lambda cell: cell.style):
        yield Styled("".join(cell.text for cell in group), style)


def _mark(states: bytes | bytearray) -> Styled:
    for state, mark in _MARKS:
        if state in states:
            return Styled(mark, state.name.lower())
    finished = states.count(TaskState.FINISHED)
    if finished and TaskState.WAITING in states:
        return Styled(SPARKS[min(len(SPARKS) - 2, finished * len(SPARKS) // len(states))], "finished")
    if TaskState.CANCELLED in states:
        return Styled("○", "cancelled")
    return Styled("█", "finished") if finished else Styled("·", "waiting")
