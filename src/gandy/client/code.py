"""Describes a program's code for the workers that run its functions: where its modules are, and a hash of them."""

import os
import sys
import sysconfig
from hashlib import blake2b
from typing import Final

# Modules below these come with Python or are installed; they do not change while a program is written.
INSTALLED: Final = tuple(
    {os.path.realpath(path) + os.sep for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)}
)


def describe_code() -> dict[str, str]:
    """Make the variables for tasks' environments. A slot process runs code of one version of a program only."""
    variables = {"GANDY_CODE": _hash_modules()}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main:
        variables["GANDY_PATH"] = os.path.dirname(os.path.abspath(main))  # noqa: PTH100, PTH120
    return variables


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
