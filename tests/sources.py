"""The modules of gandy as text and as syntax trees, which several tests look through: read and parsed once."""

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parents[1] / "src" / "gandy"


class Module(NamedTuple):
    """One file."""

    name: str  # relative to the package, with slashes
    text: str
    nodes: tuple[ast.AST, ...]  # all of its syntax tree, in the order of `ast.walk`


@cache
def read_modules() -> tuple[Module, ...]:
    return tuple(_read(path) for path in sorted(SOURCE.rglob("*.py")))


def _read(path: Path) -> Module:
    text = path.read_text()
    return Module(path.relative_to(SOURCE).as_posix(), text, tuple(ast.walk(ast.parse(text))))
