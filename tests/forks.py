"""Short commands of gandy, run as forks of one process that has imported it: real processes that need not import again.

A command that would inherit a limit, a namespace or a setting of Python that the tests did not begin with is run by its
script. GANDY_COLD=1 has all commands run so.
"""

import atexit
import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
NAMESPACES: Final = ("mnt", "net", "pid", "user")
LIMITS: Final = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
# Variables that Python and the C library read when a process starts. The server sees to PYTHONPATH.
READ_AT_START: Final = re.compile(r"(?!PYTHONPATH$)PYTHON|LC_|LANG|LD_|MALLOC_|TZ")


class Inherited(NamedTuple):
    """What a process has from its parent."""

    namespaces: list[str]
    limits: list[tuple[int, int]]
    settings: dict[str, str]


def list_inherited(environment: Mapping[str, str]) -> Inherited:
    namespaces = [str(Path(f"/proc/thread-self/ns/{name}").readlink()) for name in NAMESPACES]
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    return Inherited(namespaces, limits, {name: environment[name] for name in environment if READ_AT_START.match(name)})


FROM_THE_BEGINNING: Final = list_inherited(os.environ)


class Forks:
    """A server, and the commands that it becomes."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
            environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
            self._server = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])

    @property
    def pid(self) -> int:
        return self._server.pid

    def close(self) -> None:
        self._control.close()
        self._server.wait()

    def run(
        self, command: Sequence[str], data: bytes, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run` with `capture_output`. Raises: subprocess.TimeoutExpired."""
        umask = os.umask(0)
        os.umask(umask)
        request = {"command": command, "environment": dict(environment), "folder": str(Path.cwd()), "umask": umask}
        with a_file(json.dumps(request).encode()) as asked, a_file(data) as given, a_file() as out, a_file() as err:
            reading, writing = os.pipe()
            with os.fdopen(reading, "rb", buffering=0) as ends:
                try:
                    socket.send_fds(self._control, [b"run"], [asked, given, out, err, writing])
                finally:
                    os.close(writing)
                pid = int(ends.readline())
                if not select.select([ends], [], [], timeout)[0]:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(command), timeout, read_all(out), read_all(err))
                return subprocess.CompletedProcess(command, int(ends.readline()), read_all(out), read_all(err))


@contextmanager
def a_file(data: bytes = b"") -> Iterator[int]:
    """In memory."""
    file = os.memfd_create("gandy-tests")
    try:
        with os.fdopen(file, "wb", closefd=False) as writer:
            writer.write(data)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def read_all(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


@cache
def _find_forks() -> Forks:
    forks = Forks()
    atexit.register(forks.close)
    return forks


def run_command(
    command: Sequence[str], data: bytes, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run the script of gandy with some words, and return what it wrote. Raises: subprocess.TimeoutExpired."""
    if os.environ.get("GANDY_COLD") != "1" and list_inherited(environment) == FROM_THE_BEGINNING:
        return _find_forks().run(command, data, environment, timeout)
    return subprocess.run(command, input=data, capture_output=True, timeout=timeout, check=False, env=environment)
