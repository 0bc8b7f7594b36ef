"""Pieces of Markdown that the generated parts of pages share."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([_make_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _make_cell(value: object) -> str:
    return str(value).replace("|", "\\|")  # otherwise it would end the cell, even inside code
