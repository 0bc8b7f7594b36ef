"""Whether the package of an error is found, and its version."""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from gandy.functions import versions
from gandy.functions.versions import format_versions

PYTHON = f"Python {platform.python_version()}"


def test_package_of_a_missing_name_is_told_with_its_version() -> None:
    error = AttributeError("module 'msgspec' has no attribute 'x'", name="x", obj=msgspec)
    assert format_versions(error) == f"{PYTHON}, msgspec {msgspec.__version__}"


def test_package_that_is_not_installed_is_told() -> None:
    assert format_versions(ModuleNotFoundError("no", name="a.b")) == f"{PYTHON}, no installed package 'a'"
    assert format_versions(AttributeError("no", name="x", obj=os)) == f"{PYTHON}, no installed package 'os'"


def test_where_no_package_is_to_blame_only_python_is_told() -> None:
    assert format_versions(AttributeError("no", name="x", obj=3)) == PYTHON
    assert format_versions(ImportError("no")) == PYTHON


def test_one_failure_of_many_tasks_reads_the_metadata_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading all metadata takes tens of milliseconds, in the slot process and in the client."""
    reads = 0

    def read() -> Mapping[str, list[str]]:
        nonlocal reads
        reads += 1
        return {}

    monkeypatch.setattr(versions, "packages_distributions", read)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(3):
        format_versions(ModuleNotFoundError("no", name="recipes"))
    assert reads == 1
    (tmp_path / "recipes-1.0.dist-info").mkdir()
    (tmp_path / "recipes-1.0.dist-info" / "METADATA").write_text("Name: recipes\nVersion: 1.0\n")
    assert format_versions(ModuleNotFoundError("no", name="recipes")).endswith("recipes 1.0")
    assert reads == 2


@pytest.mark.parametrize("entry", [b"/bytes", None, 3, "a\0b", "/not/there"])
def test_a_strange_entry_of_the_path_does_not_hide_the_error(entry: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program can put anything into sys.path, and importlib.metadata does not take all of it."""
    monkeypatch.setattr(sys, "path", [entry, *sys.path])
    assert format_versions(ImportError("no", name="recipes")).startswith(PYTHON)
