"""The guardian: a second process for programs with a worker, so that kill -9 loses no result of a finished task.

The process that users see is the guardian and only waits; its child is the worker. If the guardian is killed, the
kernel signals the worker, which saves what has ended and dies too. Orphans of the worker become the guardian's
children, which it reaps (`strays` kills them). If the worker dies, the guardian kills what is left and dies likewise.
"""

import ctypes
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from gandy.clocks import read_monotonic

GUARDIAN_DIED: Final = signal.SIGUSR1  # the kernel sends it to the worker; without a handler the worker dies of it
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM)
HANDLED: Final = {*FORWARDED, signal.SIGTSTP}  # by the guardian
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # for prctl, on every Linux
PID_BYTES: Final = 4
ORPHAN_SECONDS: Final = 20.0  # then orphans are left to process 1: what survives SIGKILL hangs in the kernel
ORPHAN_PAUSE: Final = 0.005  # seconds between two looks at the orphans

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _Guarded:
    """The state of this process, set by `guard`."""

    by: int | None = None  # the guardian's pid, in the worker
    watchdog: mmap.mmap | None = None  # the watchdog's pid, in memory that guardian and worker share


def guard(at_end: Callable[[], None] | None = None) -> None:
    """Fork the worker, and return in it; this process becomes its guardian. Call it before there are threads.

    The guardian calls `at_end` when the worker and all that it left are dead.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become our children, and not those of process 1
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a careless parent may have left it ignored: then wait() fails
    guardian = os.getpid()
    others = frozenset(list_children(guardian))  # of the program that exec replaced by this one: `tee`, perhaps
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # until there are handlers for them
    _Guarded.watchdog = mmap.mmap(-1, PID_BYTES)
    worker = os.fork()
    if worker:
        _wait(worker, others, at_end)  # never returns; the worker goes on below
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    # A group of its own: the guardian forwards what a terminal sends to its group, so signals would come twice.
    os.setpgid(0, 0)
    _libc.prctl(_SET_PDEATHSIG, GUARDIAN_DIED, 0, 0, 0)
    if os.getppid() != guardian:  # it was killed before the prctl
        os._exit(1)
    _Guarded.by = guardian


def find_guardian() -> int | None:
    """Return the pid of this process's guardian, if it has one."""
    return _Guarded.by


def find_visible_pid() -> int:
    """Return the pid that users see as this worker."""
    return _Guarded.by or os.getpid()


def set_watchdog(pid: int) -> None:
    """Record the watchdog's pid: the guardian must not kill it when the worker dies. 0: there is none."""
    if _Guarded.watchdog is not None:
        _Guarded.watchdog[:] = pid.to_bytes(PID_BYTES, "little")


def list_children(pid: int) -> list[int]:
    """List the children of a process's main thread, with the orphans that became its children."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def _wait(worker: int, others: Collection[int], at_end: Callable[[], None] | None) -> NoReturn:
    for number in FORWARDED:
        signal.signal(number, lambda number, _frame: _send(worker, number))
    signal.signal(signal.SIGTSTP, lambda _number, _frame: _pause(worker))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    while True:
        pid, status = os.wait()
        if pid == worker:
            break
    _end_orphans(others)
    if at_end is not None:
        at_end()
    _end_like(status)


def _pause(worker: int) -> None:
    """Handle Ctrl-Z: stop the worker and this process, and continue both later."""
    _send(worker, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    _send(worker, signal.SIGCONT)


def _end_orphans(others: Collection[int]) -> None:
    """Kill what a dead worker left, except for its watchdog, which ends by itself."""
    deadline = read_monotonic() + ORPHAN_SECONDS
    watchdog = int.from_bytes(_Guarded.watchdog or b"", "little")
    while read_monotonic() < deadline:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = set(list_children(os.getpid())).difference(others)
        if not children:
            return
        for pid in children - {watchdog}:
            _send(pid, signal.SIGKILL)
        time.sleep(ORPHAN_PAUSE)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the worker has dumped core, if the user wants that
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
