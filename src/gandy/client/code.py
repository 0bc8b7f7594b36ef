"""Describes a program's code for the workers that run its functions: where its modules are, and a hash of them."""

import os
import sys
import sysconfig
from hashlib import blake2b
from pathlib import Path
from typing import Final

# Modules below these come with Python or are installed; they do not change while a program is written.
INSTALLED: Final = tuple(
    {os.path.realpath(path) + os.sep for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)}
)

# Folders of the standard library, and the names of those of installed modules.
STANDARD: Final = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})  # noqa: PTH118
SITES: Final = frozenset({"site-packages", "dist-packages", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"})


def describe_code() -> dict[str, str]:
    """Make the variables for tasks' environments: where modules are, and their version.

    A slot process runs code of one version of a program only.
    """
    variables = {"GANDY_CODE": _hash_modules()}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = [os.path.dirname(main)] if main else []  # noqa: PTH120
    folders += [path for path in sys.path if path and not _is_pythons(path)]
    if folders:
        variables["GANDY_PATH"] = os.pathsep.join(dict.fromkeys(map(os.path.abspath, folders)))
    return variables


def _is_pythons(path: object) -> bool:
    """True for folders of modules that come with Python or are installed: each worker has its own.

    And for what is no folder: a program can put anything into sys.path.
    """
    if not isinstance(path, str):
        return True
    return f"{path}{os.sep}".startswith(STANDARD) or not SITES.isdisjoint(Path(path).parts)


def _hash_modules() -> str:
    """Hash the paths, sizes and times of all modules that the user may have edited."""
    found = []
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.endswith(".py") and not path.startswith(INSTALLED):
            try:
                status = os.stat(path)  # noqa: PTH116 (a thousand of them)
            except OSError:
                continue
            found.append(f"{path} {status.st_mtime_ns} {status.st_size}")
    return blake2b("\n".join(sorted(found)).encode(errors="replace"), digest_size=8).hexdigest()
