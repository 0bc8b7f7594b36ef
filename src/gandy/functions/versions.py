"""Finds the package that an import error is about, and its installed version, for the text of the error."""

import platform
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import ModuleType


def format_versions(error: BaseException) -> str:
    """Format the versions of Python and of the package whose module or name was missing, if it is known."""
    package = find_package(error)
    here = f"Python {platform.python_version()}"
    return here if package is None else f"{here}, {_format_version(package)}"


def find_package(error: BaseException) -> str | None:
    missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
    owner = getattr(error, "obj", None)  # of an AttributeError
    if isinstance(owner, ModuleType):
        missing = owner.__name__
    return missing.partition(".")[0] if missing else None


def _format_version(package: str) -> str:
    return _find_version(package, tuple(map(_read_change_time, sys.path)))


@lru_cache(maxsize=64)
def _find_version(package: str, _changed: tuple[int, ...]) -> str:
    """All metadata must be read for this, in tens of milliseconds, and each of a million tasks may fail alike.

    `_changed`: what is installed or removed changes its folder, and then it is looked up again.
    """
    try:
        name = packages_distributions().get(package, [package])[0]
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no installed package {package!r}"
    except Exception:  # noqa: BLE001 - a program can put anything into sys.path, and this must not hide its own error
        return f"{package} of an unknown version"


def _read_change_time(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except (OSError, TypeError, ValueError):  # a program can put anything into sys.path
        return 0
