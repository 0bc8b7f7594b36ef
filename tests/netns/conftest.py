"""What the tests in namespaces need: root on Linux, and for some of them Debian's libo2 and a C compiler."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.netns.namespaces import Hosts, Namespace, find_hindrance, two_hosts

SOURCE: Final = Path(__file__).with_name("peer.c")
INSTALL_SECONDS: Final = 180


@pytest.fixture(scope="session", autouse=True)
def may_make_namespaces() -> None:
    if hindrance := find_hindrance():
        pytest.skip(hindrance)


@pytest.fixture
def host() -> Iterator[Namespace]:
    """One with nothing but 127.0.0.1."""
    with Namespace() as namespace:
        yield namespace


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as joined:
        yield joined


@pytest.fixture(scope="session")
def peer_program(may_make_namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our program against libo2, which is installed where that is possible."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: install gcc")
    program = tmp_path_factory.mktemp("libo2") / "peer"
    complaint = _compile(program)
    if complaint and not _install():
        pytest.skip("no libo2 1.1, and it cannot be installed: on Debian, apt-get install libo2-dev")
    complaint = complaint and _compile(program)
    assert not complaint, complaint
    return program


def _compile(program: Path) -> str:
    """What is wrong with it."""
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE), "-lo2"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@cache
def _install() -> bool:
    """Whether libo2 is there now. Tests may run in several processes, and only one may install."""
    if shutil.which("apt-get") is None:
        return False
    with (Path(tempfile.gettempdir()) / "gandy-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _apt_get("install", "libo2-dev") or (_apt_get("update") and _apt_get("install", "libo2-dev"))


def _apt_get(*words: str) -> bool:
    command = ["apt-get", "-qq", "-y", "--no-install-recommends", *words]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
