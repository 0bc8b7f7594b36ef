"""Starts processes from orders, each in a process group of its own. Never waits for what it started.

A group and not a session: on Linux each new session gets a scheduling group (autogroup), and that costs more than the
rest of a spawn. A task that makes a session of its own leaves its group, and then nobody kills it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from gandy.worker.frames import BOX, DESCRIPTOR
from gandy.worker.order import Order, make_arguments, make_environment, tell_base
from gandy.worker.output import FLAGS, Sheets, name_sheets

# Python ignores these two, and what is ignored stays so through exec: `yes | head` would never end well.
RESTORED: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


class NotStartedError(Exception):
    """The task could not be started; the text says why, for people."""


class Spawner:
    """Spawns into the environment that the worker had when this was made, and with what it ignored then.

    Its descriptors stay its own.
    """

    def __init__(self) -> None:
        self._env = tell_base(os.environ)
        self._defaults = _list_defaults()
        self._here = Path.cwd().stat()
        self._stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        _close_on_exec()

    def spawn(self, order: Order, sheets: Sheets) -> int:
        """The number of the first process and of its group. Raises: NotStartedError."""
        try:
            arguments, env = make_arguments(order), make_environment(self._env, order)
            if not arguments:
                raise NotStartedError("cannot run: the command is empty")
            if not order.cwd or os.path.samestat(os.stat(order.cwd), self._here):  # noqa: PTH116 (a Path costs more)
                return self._spawn_here(arguments, env, sheets)
            return self._spawn_elsewhere(arguments, env, order.cwd, sheets)
        except OSError as error:
            raise NotStartedError(_explain(order, error)) from error
        except ValueError as error:  # a zero byte, a name with "=", text that is no text
            raise NotStartedError(f"cannot run: {error}") from error

    def spawn_slot(self, series: str, preload: tuple[str, ...], env: dict[str, str], link: int, box: int) -> int:
        """A process for Python calls, with our interpreter, the other end of its link, and its box.

        Raises: NotStartedError.
        """
        # -P: should a folder here be called gandy, it is not the one that is meant.
        arguments = [sys.executable, "-P", "-m", "gandy.worker.slot", series, *preload]
        try:
            with ExitStack() as held:
                given = []
                for ours, theirs in ((link, DESCRIPTOR), (box, BOX)):
                    high = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, BOX + 1)  # out of the way of the other one
                    held.callback(os.close, high)
                    given.append((os.POSIX_SPAWN_DUP2, high, theirs))
                return self._spawn_here(arguments, {**self._env, **env}, name_sheets(series, 0), *given)
        except OSError as error:
            raise NotStartedError(f"cannot run {sys.executable}: {error.strerror}") from error

    def close(self) -> None:
        os.close(self._stdin)

    def _spawn_here(
        self, arguments: list[str], env: dict[str, str], sheets: Sheets, *more: tuple[int, int, int]
    ) -> int:
        name, path = arguments[0], env.get("PATH", os.defpath)
        known = name if "/" in name else _programs.get((name, path))
        if known is not None:
            try:
                return self._spawn_program(known, arguments, env, sheets, more)
            except OSError:
                if known is name:
                    raise
        return self._spawn_program(_find_program(name, path), arguments, env, sheets, more)

    def _spawn_program(
        self,
        program: str,
        arguments: list[str],
        env: dict[str, str],
        sheets: Sheets,
        more: tuple[tuple[int, int, int], ...],
    ) -> int:
        return os.posix_spawn(
            program,
            arguments,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self._stdin, 0),
                (os.POSIX_SPAWN_OPEN, 1, sheets.out, FLAGS, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, sheets.err, FLAGS, 0o600),
                *more,
            ],
            setpgroup=0,
            setsigdef=self._defaults,
        )

    def _spawn_elsewhere(self, arguments: list[str], env: dict[str, str], cwd: str, sheets: Sheets) -> int:
        # posix_spawn cannot change folders. This takes 0.1 ms more; `env -C` or a second shell takes 1 ms more.
        with ExitStack() as held:
            out, err = (os.open(path, FLAGS | os.O_CLOEXEC, 0o600) for path in (sheets.out, sheets.err))
            held.callback(os.close, out)
            held.callback(os.close, err)
            process = subprocess.Popen(  # noqa: S603
                arguments,
                env=env,
                cwd=cwd,
                stdin=self._stdin,
                stdout=out,
                stderr=err,
                process_group=0,
                close_fds=False,  # exec closes them all
            )
        # The runner waits for it. Without this Popen would too, and warn.
        process.returncode = 0
        return process.pid


def _list_defaults() -> list[int]:
    """Signals that do what they do by default in a child: all but those that are ignored, which stay so through exec.

    Naming them spares a child a question about each: sixty system calls.
    """
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    return sorted(map(int, signal.valid_signals() - ignored | RESTORED))


def _close_on_exec() -> None:
    """Mark what the worker inherited from its parent; what Python opens is marked from the beginning."""
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with suppress(OSError):  # the one that listed the folder is closed by now
                os.set_inheritable(descriptor, False)


# Where programs were found last; a look at every folder of PATH for each task would cost a tenth of its time.
_programs: dict[tuple[str, str], str] = {}
MAX_PROGRAMS = 1_000


def _find_program(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(2, "no such program", name)
    if len(_programs) >= MAX_PROGRAMS:
        _programs.clear()
    _programs[name, path] = found
    return found


def _explain(order: Order, error: OSError) -> str:
    if order.cwd and error.filename == order.cwd:
        return f"cannot go to {order.cwd}: {error.strerror}"
    program = "sh" if isinstance(order.command, str) else order.command[0]
    return f"cannot run {program}: {error.strerror}"
