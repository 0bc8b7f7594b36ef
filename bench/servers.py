"""Servers that peers need, on free ports of 127.0.0.1, each with its files in the contestant's folder."""

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.contract import Missing, Place, Server
from bench.processes import running, wait_until

PLAIN_USERS = ("postgres", "nobody")  # PostgreSQL runs as one of these if we are root


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def redis(place: Place, appendfsync: str = "everysec") -> Iterator[str]:
    """The URL of a Redis that writes every change to its append-only file."""
    port = find_port()
    keeps = ("--appendonly", "yes", "--appendfsync", appendfsync, "--save", "")
    where = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(place.folder))
    with running(place.programs["redis-server"], *where, *keeps):
        wait_until(partial(_ping_redis, port), "Redis")
        yield f"redis://127.0.0.1:{port}/0"


def _ping_redis(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(16).startswith(b"+PONG")
    except OSError:
        return False


@contextmanager
def nats(place: Place) -> Iterator[str]:
    port = find_port()
    with running(place.programs["nats-server"], "-a", "127.0.0.1", "-p", str(port)):
        wait_until(partial(can_connect, port), "NATS")
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def gearmand(place: Place) -> Iterator[int]:
    port = find_port()
    where = ("--listen", "127.0.0.1", "--port", str(port), "--log-file", "stderr")
    with running(place.programs["gearmand"], *where):
        wait_until(partial(can_connect, port), "gearmand")
        yield port


@contextmanager
def postgres(place: Place) -> Iterator[str]:
    """The URL of a PostgreSQL that only this contestant uses."""
    with run_postgres(place.folder / "postgres", place.programs["initdb"], place.programs["postgres"]) as server:
        yield server.url


@contextmanager
def run_postgres(folder: Path, initdb: str, program: str) -> Iterator[Server]:
    """With default settings, so fsync and synchronous_commit are on."""
    folder.mkdir()
    user = _find_plain_user()
    become: tuple[str, ...] = ()
    if user:
        shutil.chown(folder, user)
        become = _find_way_to_become(user)
    _run(*become, initdb, "-D", str(folder), "-U", "bench", "-A", "trust", "--no-instructions")
    port, log = find_port(), folder.with_suffix(".log")
    where = ("-D", str(folder), "-h", "127.0.0.1", "-p", str(port), "-k", str(folder))
    with log.open("wb") as output, running(*become, program, *where, cwd=folder, stderr=output) as process:
        wait_until(partial(_has_line, folder / "postmaster.pid", "ready"), "PostgreSQL")
        yield Server(f"postgresql://bench@127.0.0.1:{port}/postgres", process.pid, log)


def create_database(server: Server, name: str) -> Server:
    """The same server, with the URL of a new database there."""
    import psycopg  # not every environment has it

    with psycopg.connect(server.url, autocommit=True) as link:
        link.execute(f'CREATE DATABASE "{name}"')
    return replace(server, url=f"{server.url.rpartition('/')[0]}/{name}")


def _has_line(path: Path, word: str) -> bool:
    """A file that PostgreSQL writes its state to."""
    return path.exists() and bool(re.search(rf"^{word}\s*$", path.read_text(), re.MULTILINE))


def _find_plain_user() -> str:
    """The user to switch to. Empty if we are not root."""
    if os.geteuid() != 0:
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in PLAIN_USERS:
        if name in known:
            return name
    raise Missing("PostgreSQL refuses to run as root, and there is no other user to run it as")


def _find_way_to_become(user: str) -> tuple[str, ...]:
    if path := shutil.which("setpriv"):
        return (path, f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups")
    if path := shutil.which("runuser"):
        return (path, "-u", user, "--")
    raise Missing("PostgreSQL refuses to run as root, and neither setpriv nor runuser is here")


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing((done.stderr.strip() or "initdb failed").splitlines()[-1])
