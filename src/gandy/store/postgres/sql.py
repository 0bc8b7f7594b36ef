"""The statements of this store, each from a file with its name and a sentence in the first line.

A part of a commit that appends rows takes them out of arrays: `ARRAY[i]` is a column, and `{rows ARRAY}` stands for all
values of `i`. It names the array that is read from front to back: in a bytea[], finding one element takes long.
"""

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Final

COMMENT: Final = "--"

_ROWS: Final = re.compile(r"\{rows (\w+)\}")


@cache
def _read_files() -> dict[str, str]:
    folder = files(__package__) / "sql"
    found = {
        path.name.removesuffix(".sql"): path.read_text() for path in folder.iterdir() if path.name.endswith(".sql")
    }
    return {name: _strip(text) for name, text in found.items()}


def _strip(text: str) -> str:
    """Without comments, which the server would have to read each time."""
    return "\n".join(line for line in text.splitlines() if line and not line.lstrip().startswith(COMMENT))


def _take_all(text: str) -> str:
    """For any number of rows."""
    found = _ROWS.search(text)
    if found is None:
        return text
    array = f"%({found[1]})s"
    rows = f", unnest({array}) WITH ORDINALITY AS u (element, i)"
    return text.replace(f"{array}[i]", "u.element").replace(found[0], rows)


def _take_one(text: str) -> str:
    """For one row. Without the function, small commits cost the server a third less CPU."""
    return _ROWS.sub("", text.replace("[i]", "[1]"))


class Statements:
    """The statements for one schema. Names of tables are written with it: no session has a search path of ours."""

    def __init__(self, schema: str) -> None:
        texts = {name: text.replace("{schema}", f'"{schema}"') for name, text in _read_files().items()}
        self._texts = {name: _take_all(text) for name, text in texts.items()}
        self._singles = {name: _take_one(text) for name, text in texts.items()}

    def __getitem__(self, name: str) -> str:
        # All of it is from our own files, but for the schema, whose name was checked.
        return self._texts[name]

    def compose_commit(self, parts: tuple[str, ...], singles: Collection[str]) -> str:
        """One statement that does all of these or, if the shard is not ours, none. `singles`: those with one row."""
        tables = ["fence AS MATERIALIZED (" + self._texts["fence"] + ")"]
        tables += [f"{part} AS ({(self._singles if part in singles else self._texts)[part]})" for part in parts]
        numbers = ", (SELECT max(setval) FROM commit_numbers)" if "commit_numbers" in parts else ""
        return f"WITH {', '.join(tables)} SELECT count(*){numbers} FROM fence"  # noqa: S608 - of our files
