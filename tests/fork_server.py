"""A process that has imported gandy, and becomes one of its commands in a fork whenever it is asked to.

    python -m tests.fork_server FD

`tests.forks` asks, over the socket FD. A fork has its own files, folder and environment, and ends as a command does.
"""

import gc
import json
import os
import selectors
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gandy.cli import main

FILES: Final = 5  # of a command: what to run, its standard input, output and error, and where its end is written
LATER: Final = ("cli.jobfile", "keys.certificates", "keys.foreman_home", "net.exposure", "net.join", "terminal.table")


class Server:
    """Forks until the socket is closed."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.PollSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._running: dict[
            int, tuple[int, int]
        ] = {}  # from file descriptors of forks: the pid, and where its end goes

    def serve(self) -> dict[str, Any] | None:
        """Returns, in a fork, what it is to run; in the server, nothing."""
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._running:
                    self._reap(key.fd)
                    continue
                _, files, _, _ = socket.recv_fds(self._control, 1, FILES)
                if not files:
                    return None
                if self._fork(files):
                    return self._become(files)

    def _fork(self, files: list[int]) -> bool:
        """True in the fork."""
        pid = os.fork()
        if not pid:
            return True
        for file in files[:-1]:
            os.close(file)
        os.write(files[-1], b"%d\n" % pid)
        ended = os.pidfd_open(pid)
        self._running[ended] = pid, files[-1]
        self._selector.register(ended, selectors.EVENT_READ)
        return False

    def _reap(self, ended: int) -> None:
        self._selector.unregister(ended)
        pid, report = self._running.pop(ended)
        _, status = os.waitpid(pid, 0)
        with suppress(BrokenPipeError):  # the test waited no longer
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(report)
        os.close(ended)

    def _become(self, files: list[int]) -> dict[str, Any]:
        """A process starts with three files, and nothing of ours."""
        self._selector.close()
        self._control.close()
        for ended, (_, report) in self._running.items():
            os.close(ended)
            os.close(report)
        for number, file in enumerate(files[1:4]):
            os.dup2(file, number)
        with os.fdopen(files[0], "rb") as request:
            found: dict[str, Any] = json.load(request)
        for file in files[1:]:
            os.close(file)
        return found


def run(request: dict[str, Any]) -> None:
    """Make this process what it would be if the script had been started, and go on as the script does."""
    os.chdir(request["folder"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["command"]
    sys.orig_argv = [sys.executable, *sys.argv]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [str(Path(sys.argv[0]).parent), *filter(None, paths)]
    del sys.modules["tests"]
    main.main()


def import_all() -> None:
    """Import every command, and what many of them import only when they run."""
    for lazy in main.COMMANDS.values():
        lazy.load()
    for name in LATER:
        import_module(f"gandy.{name}")
    gc.collect()
    gc.freeze()  # forks share these pages


if __name__ == "__main__":
    import_all()
    server = Server(socket.socket(fileno=int(sys.argv[1])))
    if (asked := server.serve()) is not None:
        run(asked)
