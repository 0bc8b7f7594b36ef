"""Python programs in the docs, as users copy them."""

import re
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).parents[1] / "docs"
BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME: Final = re.compile(r"# (\w+\.py)\n")


class Snippet(NamedTuple):
    """A block of code. `file`: what its first line calls it, else a name from its place on the page."""

    file: str
    code: str

    @property
    def is_test(self) -> bool:
        return "\ndef test_" in f"\n{self.code}"


def list_snippets(page: str) -> list[Snippet]:
    found = []
    for number, code in enumerate(BLOCK.findall((DOCS / page).read_text()), 1):
        name = FILE_NAME.match(code)
        stem = "test_" if "def test_" in code else "program_"
        found.append(Snippet(name[1] if name else f"{stem}{number}.py", code))
    return found
