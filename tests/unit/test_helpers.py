"""Helpers of tests are in modules of their own, and the one that waits exists once."""

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
IMPORT = re.compile(r"^\s*(?:from|import) (?:tests\.[\w.]*)?test_\w+", re.MULTILINE)
UNTIL = re.compile(r"^\s*(?:async )?def (until(?:_async)?)\(", re.MULTILINE)


def find_all(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(TESTS.rglob("*.py")):
        for found in pattern.findall(path.read_text()):
            yield str(path.relative_to(TESTS)), found


def test_no_helper_is_imported_from_a_test_module() -> None:
    assert list(find_all(IMPORT)) == []


def test_until_exists_once() -> None:
    assert list(find_all(UNTIL)) == [("waiting.py", "until"), ("waiting.py", "until_async")]
