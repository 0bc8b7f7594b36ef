"""What the files of the page may contain: the content security policy holds, and nothing comes from elsewhere."""

import gzip
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(str(files("gandy.dashboard"))) / "page"
FILES: Final = sorted(path for path in PAGE.rglob("*") if path.is_file())
MODULES: Final = [path for path in FILES if path.suffix == ".js"]

MAX_LINES: Final = 250
MAX_WIRE_BYTES: Final = 80_000  # of the whole page, compressed: it is there at once, over any link

# Turns text into code or markup, which what a crew sends must never become.
DANGEROUS: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|"
    r"\beval\(|new Function|setTimeout\(\s*[\"'`]|javascript:"
)
IMPORT: Final = re.compile(r"^(?:import|export)\b[^;]*?\bfrom \"([^\"]+)\"", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return str(path.relative_to(PAGE))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_module_is_short_has_a_purpose_and_makes_no_markup(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// ")
    assert len(text.splitlines()) <= MAX_LINES
    assert DANGEROUS.search(text) is None


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_import_modules_of_the_page(path: Path) -> None:
    for imported in IMPORT.findall(path.read_text()):
        assert (path.parent / imported).resolve() in MODULES


def test_views_are_above_pieces_which_are_above_what_draws_nothing() -> None:
    ranks = {"lib": 0, "ui": 1, "views": 2, "page": 3}
    for path in MODULES:
        for imported in IMPORT.findall(path.read_text()):
            target = (path.parent / imported).resolve()
            assert ranks[target.parent.name] <= ranks[path.parent.name], (name(path), imported)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", path.read_text())
    assert set(addresses) <= {"http://www.w3.org"}  # the name of SVG, which is never requested


def test_index_has_no_code_and_no_style_in_it() -> None:
    text = (PAGE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", text) == []
    assert "<style" not in text
    assert re.findall(r"\s(?:style|on\w+)=", text) == []


def test_page_is_small() -> None:
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) < MAX_WIRE_BYTES
