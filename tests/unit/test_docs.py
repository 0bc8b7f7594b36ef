"""Pages name only what exists: files, modules, classes, headings. Their tables are whole."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "gandy"
PAGES: Final = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS: Final = ("src", "tests", "bench", "tools", "examples")  # pages name things that are in one of these

LINK: Final = re.compile(r"\]\((?!http)([^)#\s]*)(#[^)\s]+)?\)")
TABLE: Final = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CODE: Final = re.compile(r"`([^`\n]+)`")
FILE: Final = re.compile(r"(?:src|tests|bench|tools|examples|docs|[a-z_]+)/[\w./-]+\.(?:py|md|svg)")
FOLDER: Final = re.compile(r"(?:src|tests|bench|tools|examples)/[\w/-]+")
MODULE: Final = re.compile(r"(?:gandy\.)?([a-z_0-9]+(?:\.[a-z_0-9]+)+)")
CLASS: Final = re.compile(r"[A-Z][a-z]+[A-Z]\w*")

# Names that CONTRIBUTING.md gives as examples of bad ones.
FOREIGN: Final = {"CallStream"}


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in LINK.findall(page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), f"{page} links to {target}"
        if heading:
            assert heading[1:] in list_headings(path), f"{page} links to {target}{heading}"


def test_rows_of_a_table_have_the_same_number_of_cells(page: Path) -> None:
    for found in TABLE.findall(page.read_text()):
        rows = [row.replace(r"\|", "") for row in found.splitlines()]
        assert len({row.count("|") for row in rows}) == 1, f"{page}: {rows[0]}"


def test_files_and_folders_exist(page: Path) -> None:
    for word in list_code(page):
        if FILE.fullmatch(word):
            assert any((folder / word).exists() for folder in (ROOT, SOURCE)), f"{page} names {word}"
        elif FOLDER.fullmatch(word):
            assert (ROOT / word).exists(), f"{page} names {word}"


def test_modules_exist(page: Path) -> None:
    packages = {path.stem for path in SOURCE.iterdir()}
    for word in list_code(page):
        if (found := MODULE.fullmatch(word)) and found[1].split(".")[0] in packages:
            path = SOURCE / found[1].replace(".", "/")
            is_name_in_module = path.parent.with_suffix(".py").exists() or path.parent.joinpath("__init__.py").exists()
            is_module = path.is_dir() or path.with_suffix(".py").exists()
            assert is_module or (is_name_in_module and is_known(path.name)), f"{page} names {word}"


def test_classes_exist(page: Path) -> None:
    for word in list_code(page):
        for name in word.removesuffix("()").split("."):
            if CLASS.fullmatch(name) and name not in FOREIGN:
                assert is_known(name), f"{page} names {word}"


def list_headings(path: Path) -> list[str]:
    """As GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def list_code(page: Path) -> Iterator[str]:
    """What stands between backticks, but not in blocks of code."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return (found[1] for found in CODE.finditer(text))


def is_known(name: str) -> bool:
    return name in read_words()


@cache
def read_words() -> frozenset[str]:
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
    return frozenset(word for path in paths for word in re.findall(r"\w+", path.read_text()))
