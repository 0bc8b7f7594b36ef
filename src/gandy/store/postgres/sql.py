"""The statements of this store, each from a file with its name and a sentence in the first line."""

from functools import cache
from importlib.resources import files
from typing import Final

COMMENT: Final = "--"


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


class Statements:
    """The statements for one schema. Names of tables are written with it: no session has a search path of ours."""

    def __init__(self, schema: str) -> None:
        self._texts = {name: text.replace("{schema}", f'"{schema}"') for name, text in _read_files().items()}

    def __getitem__(self, name: str) -> str:
        # All of it is from our own files, but for the schema, whose name was checked.
        return self._texts[name]

    def compose_commit(self, parts: tuple[str, ...]) -> str:
        """One statement that does all of these or, if the shard is not ours, none."""
        tables = ["fence AS MATERIALIZED (" + self._texts["fence"] + ")"]
        tables += [f"{part} AS ({self._texts[part]})" for part in parts]
        numbers = ", (SELECT max(setval) FROM commit_numbers)" if "commit_numbers" in parts else ""
        return f"WITH {', '.join(tables)} SELECT count(*){numbers} FROM fence"  # noqa: S608 - of our files
