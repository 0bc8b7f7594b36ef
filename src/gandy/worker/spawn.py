"""Starts processes from orders, each in a process group of its own. Never waits for what it started.

A group and not a session: on Linux each new session gets a scheduling group (autogroup), which costs more than the rest
of a spawn. A task that makes a session of its own leaves its group; `strays` finds it.
"""

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from gandy.core.model import AttemptKey
from gandy.core.placeholders import needs_filling
from gandy.errors import ConfigError
from gandy.ids import JobId
from gandy.net.open_files import find_limits_of_tasks
from gandy.worker.frames import BOX, DESCRIPTOR
from gandy.worker.guardian import find_guardian
from gandy.worker.labels import LIMIT, MARK_NAME, can_label, make_label
from gandy.worker.order import (
    SHELL,
    Order,
    inherited_environment,
    make_arguments,
    make_environment,
    make_job_environment,
)
from gandy.worker.output import FLAGS, OutputFiles, name_output_files
from gandy.worker.posix_spawn import CAN_CHANGE_FOLDER, Actions, Attributes, Strings, encode, spawn
from gandy.worker.shortage import find_shortage
from gandy.worker.table import NO_ATTEMPT

# Python ignores these two, and ignored signals stay ignored through exec: `yes` in `yes | head` would not end.
RESTORED: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})

OF_ATTEMPT: Final = frozenset({"GANDY_JOB", "GANDY_TASK", "GANDY_ATTEMPT"})
OWN: Final = ("GANDY_TASK", "GANDY_ATTEMPT", "GANDY_LINE")  # differ between tasks; the last may be absent

CACHED_VALUES: Final = 1_000  # entries of a cache with small values
CACHED_PLANS: Final = 32  # each has a whole environment, and a worker does not know when a job is over


Limits = tuple[int, int]  # soft and hard


class NotStartedError(Exception):
    """The task could not be started; the text says why, for users."""


class ShortageError(NotStartedError):
    """The worker lacks something that every task needs. Nothing was started, and the task is not at fault."""


def make_start_error(what: str, error: OSError) -> NotStartedError:
    """Make the error for a failed step: `what` names the step."""
    shortage = find_shortage(error)
    return NotStartedError(f"{what}: {error.strerror}") if shortage is None else ShortageError(shortage)


class Spawner:
    """Spawns processes with the environment and the ignored signals that the worker has when it makes the spawner.

    The worker's other descriptors are not inherited.
    """

    def __init__(self, mark: int = 0) -> None:
        """`mark`: the worker's mark, by which everything that it spawns can be found. 0: no mark."""
        # A worker may itself run inside a task, whose numbers must not be passed on.
        base = {name: value for name, value in inherited_environment(os.environ).items() if name not in OF_ATTEMPT}
        self._base = {**base, MARK_NAME: str(mark)} if mark else base
        # To label a child, this process labels itself for a moment. In a user's program, other threads may start
        # processes at that moment.
        self._mark = mark if find_guardian() is not None and can_label() else 0
        self._attributes = Attributes(_list_defaults())
        self._stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._limits_of_tasks = find_limits_of_tasks()
        self._plans: dict[JobId, _Plan] = {}
        self._actions: dict[tuple[OutputFiles, str], Actions] = {}
        _close_on_exec()

    def spawn(self, order: Order, files: OutputFiles) -> int:
        """Start a task. Returns the pid of its first process, which is also its group. Raises: NotStartedError,
        ShortageError."""
        try:
            plan = self._plans.get(order.attempt.job)
            if plan is None or not plan.fits(order):
                if len(self._plans) >= CACHED_PLANS:
                    self._plans.clear()
                plan = self._plans[order.attempt.job] = _Plan(self._base, order)
            plan.set_task(order)
            if order.cwd and not CAN_CHANGE_FOLDER:
                return self._spawn_slowly(order, files)  # after `plan`, so that both ways raise the same errors
            actions = self._actions.get((files, order.cwd)) or self._keep_actions(files, order.cwd)
            try:
                return self._spawn(plan.program, plan.arguments, plan.env, actions, order.attempt)
            except OSError:
                plan.find_program_again()
                return self._spawn(plan.program, plan.arguments, plan.env, actions, order.attempt)
        except OSError as error:
            shortage = find_shortage(error)
            if shortage is None or (error.errno == errno.ENOMEM and self._can_spawn(files)):
                raise NotStartedError(_explain(order, error)) from error
            raise ShortageError(shortage) from error
        except ConfigError as error:  # of a job from before {line} was checked at submit
            raise NotStartedError(f"cannot run: {error}") from error
        except ValueError as error:  # a zero byte, a name with "=", or text that has no UTF-8 form
            raise NotStartedError(f"cannot run: {error}") from error

    def spawn_slot(self, series: str, preload: tuple[str, ...], env: dict[str, str], link: int, box: int) -> int:
        """Start a slot process with our interpreter. `link` is its end of the channel.

        Raises: NotStartedError, ShortageError.
        """
        # -P: a folder called gandy in the current folder must not be imported.
        arguments = [sys.executable, "-P", "-m", "gandy.worker.slot", series, *preload]
        try:
            with ExitStack() as held:
                actions = self._make_actions(name_output_files(series, 0))
                held.callback(actions.close)
                for ours, theirs in ((link, DESCRIPTOR), (box, BOX)):
                    high = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, BOX + 1)  # so that neither copy overwrites it
                    held.callback(os.close, high)
                    actions.copy(high, theirs)
                return self._spawn(
                    encode(sys.executable),
                    Strings([encode(argument) for argument in arguments]),
                    Strings(_encode_environment({**self._base, **env})),
                    actions,
                )
        except OSError as error:
            raise make_start_error(f"cannot run {sys.executable}", error) from error

    def close(self) -> None:
        os.close(self._stdin)
        self._drop_actions()

    def _spawn(
        self, program: bytes, arguments: Strings, env: Strings, actions: Actions, attempt: AttemptKey = NO_ATTEMPT
    ) -> int:
        own = self._change_limits(attempt)
        try:
            return spawn(program, arguments, env, actions, self._attributes)
        finally:
            _restore_limits(own)

    def _change_limits(self, attempt: AttemptKey) -> list[tuple[int, Limits]]:
        """Set the limits that a task inherits. Returns our own, for `_restore_limits`."""
        own = []
        if self._limits_of_tasks is not None:
            own.append((resource.RLIMIT_NOFILE, resource.prlimit(0, resource.RLIMIT_NOFILE, self._limits_of_tasks)))
        if self._mark:
            limits = (make_label(self._mark, *attempt), resource.RLIM_INFINITY)
            own.append((LIMIT, resource.prlimit(0, LIMIT, limits)))
        return own

    def _can_spawn(self, files: OutputFiles) -> bool:
        """True if another program starts although one got ENOMEM: some programs need too much memory."""
        actions = self._make_actions(files)
        try:
            probe = self._spawn(encode(SHELL), Strings([b"sh", b"-c", b":"]), Strings([]), actions)
        except OSError:
            return False
        finally:
            actions.close()
        os.waitpid(probe, 0)
        return True

    def _spawn_slowly(self, order: Order, files: OutputFiles) -> int:
        """Start in another folder if the C library cannot change folders: this takes 0.1 ms more."""
        with ExitStack() as held:
            out = os.open(files.out, FLAGS | os.O_CLOEXEC, 0o600)
            held.callback(os.close, out)
            err = os.open(files.err, FLAGS | os.O_CLOEXEC, 0o600)
            held.callback(os.close, err)
            held.callback(_restore_limits, self._change_limits(order.attempt))
            process = subprocess.Popen(  # noqa: S603
                make_arguments(order),
                env=make_environment(self._base, order),
                cwd=order.cwd,
                stdin=self._stdin,
                stdout=out,
                stderr=err,
                process_group=0,
                close_fds=False,  # all are close-on-exec
            )
        # The runner waits for the process. Without this, Popen would wait too, and warn.
        process.returncode = 0
        return process.pid

    def _keep_actions(self, files: OutputFiles, cwd: str) -> Actions:
        if len(self._actions) >= CACHED_VALUES:
            self._drop_actions()
        actions = self._actions[files, cwd] = self._make_actions(files, cwd)
        return actions

    def _drop_actions(self) -> None:
        for actions in self._actions.values():
            actions.close()
        self._actions.clear()

    def _make_actions(self, files: OutputFiles, cwd: str = "") -> Actions:
        actions = Actions()
        actions.copy(self._stdin, 0)
        actions.open(1, encode(files.out), FLAGS, 0o600)
        actions.open(2, encode(files.err), FLAGS, 0o600)
        if cwd:
            actions.go_to(encode(cwd))
        return actions


class _Plan:
    """Program, arguments and environment of a job's tasks. What differs is overwritten before each task."""

    arguments: Strings
    program: bytes

    def __init__(self, base: Mapping[str, str], order: Order) -> None:
        """Raises: NotStartedError, OSError, ValueError."""
        encode(order.cwd)  # raise ValueError here, and not in `_explain`
        env = make_job_environment(base, order)
        for name in OWN:
            env.pop(name, None)
        fixed = _encode_environment(env)
        self.env = Strings(fixed, room=len(OWN))
        self._first = len(fixed)
        path = env.get("PATH", os.defpath)
        self._path = _anchor(path, order.cwd) if order.cwd else path
        self._made_of = (order.command, order.env, order.tasks, order.job_name, order.cwd)
        self._has_fixed_arguments = not needs_filling(order.command)
        self._set_arguments(order)

    def fits(self, order: Order) -> bool:
        return self._made_of == (order.command, order.env, order.tasks, order.job_name, order.cwd)

    def set_task(self, order: Order) -> None:
        first, env = self._first, self.env.array
        env[first] = b"GANDY_TASK=%d" % order.attempt.task
        env[first + 1] = b"GANDY_ATTEMPT=%d" % order.attempt.attempt
        env[first + 2] = None if order.line is None else encode(f"GANDY_LINE={order.line}")
        if not self._has_fixed_arguments:
            self._set_arguments(order)

    def find_program_again(self) -> None:
        """Search for the program again, which is not where it was. Raises: OSError."""
        self.program = _find_program(self._name, self._path)

    def _set_arguments(self, order: Order) -> None:
        arguments = make_arguments(order)
        if not arguments:
            raise NotStartedError("cannot run: the command is empty")
        self.arguments = Strings([encode(argument) for argument in arguments])
        self._name = arguments[0]
        self.program = _programs.get((self._name, self._path)) or _find_program(self._name, self._path)


def _restore_limits(own: list[tuple[int, Limits]]) -> None:
    for number, limits in own:
        resource.setrlimit(number, limits)


def _encode_environment(env: Mapping[str, str]) -> list[bytes]:
    """Raises: ValueError."""
    if any(not name or "=" in name for name in env):
        raise ValueError("illegal environment variable name")
    return [encode(f"{name}={value}") for name, value in env.items()]


def _anchor(path: str, cwd: str) -> str:
    """Make the folders of PATH absolute, as a process that starts in this folder would resolve them."""
    start = Path(cwd).absolute()  # relative folders of PATH are relative to it, and not to the worker's folder
    return os.pathsep.join(os.path.join(start, folder) for folder in path.split(os.pathsep))  # noqa: PTH118


def _list_defaults() -> list[int]:
    """List the signals that get their default action in a child: all but the ignored ones, which stay ignored.

    With this list, the C library saves sixty system calls per child, one for each signal.
    """
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    return sorted(map(int, signal.valid_signals() - ignored | RESTORED))


def _close_on_exec() -> None:
    """Let no child inherit the descriptors that the worker inherited; Python marks those that it opens itself."""
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with suppress(OSError):  # the descriptor that listed the folder is closed by now
                os.set_inheritable(descriptor, False)


# Where programs were found last; searching PATH for each task would cost a tenth of its time.
_programs: dict[tuple[str, str], bytes] = {}


def _find_program(name: str, path: str) -> bytes:
    """Raises: FileNotFoundError."""
    if "/" in name:
        return encode(name)
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "no such program", name)
    if len(_programs) >= CACHED_VALUES:
        _programs.clear()
    _programs[name, path] = program = encode(found)
    return program


def _explain(order: Order, error: OSError) -> str:
    if order.cwd and (reason := _find_folder_problem(order.cwd)) is not None:
        return f"cannot change to {order.cwd}: {reason}"
    program = "sh" if isinstance(order.command, str) else order.command[0]
    return f"cannot run {program}: {error.strerror}"


def _find_folder_problem(folder: str) -> str | None:
    """Find why we cannot change to the folder; None: we can. posix_spawn does not report which step failed."""
    try:
        os.close(os.open(f"{folder}/.", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror
    return None
