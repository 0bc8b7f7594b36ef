"""What a worker should know about the program that calls functions: where its modules are, and whether they changed."""

import os
import sys
import sysconfig
from hashlib import blake2b
from typing import Final

# Modules below these come with Python or are installed; they do not change while a program is written.
INSTALLED: Final = tuple(
    {os.path.realpath(path) + os.sep for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)}
)


def tell_code() -> dict[str, str]:
    """For the environment of calls. A process that has run the code of one program does not run that of another."""
    told = {"GANDY_CODE": _sum_up()}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main:
        told["GANDY_PATH"] = os.path.dirname(os.path.abspath(main))  # noqa: PTH100, PTH120
    return told


def _sum_up() -> str:
    """All modules that somebody may have edited, with their sizes and times, in a few letters."""
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
