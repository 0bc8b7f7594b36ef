"""Whether the package of an error is found, and its version."""

import os
import platform

import msgspec

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
