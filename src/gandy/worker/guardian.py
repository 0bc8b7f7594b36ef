"""A second process for programs with a worker in them, so that kill -9 loses no result of a task that has ended.

The process that users see only waits; its child does the work. If the first one is killed, the kernel signals the
second, which writes down what has ended and dies too. Every orphan below the second becomes a child of the first, which
reaps it (`strays` kills it), and if the second dies, ends what is left and then dies in the same way.
"""

import ctypes
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from gandy.clocks import read_monotonic

GUARDIAN_DIED: Final = signal.SIGUSR1  # the kernel sends it to the worker; without a handler the worker dies of it
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM)
HANDLED: Final = {*FORWARDED, signal.SIGTSTP}  # by the guardian
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # for prctl, on every Linux
PID_BYTES: Final = 4
ORPHAN_SECONDS: Final = 20.0  # until orphans are left to process 1: what does not die of SIGKILL hangs in the kernel
ORPHAN_PAUSE: Final = 0.005  # seconds between two looks at them

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _Guarded:
    """True if this process has a guardian; set in the child."""

    by: int | None = None
    shared: mmap.mmap | None = None  # memory of guardian and worker, and of nothing that they start: the watchdog's pid


def guard() -> None:
    """Return in a child of this process, which from now on only waits for it. Call it before there are threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become our children, and not those of process 1
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a careless parent may have left it ignored: then wait() fails
    guardian = os.getpid()
    others = frozenset(list_children(guardian))  # of the program that exec replaced by this one: `tee`, perhaps
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # until there are handlers for them
    _Guarded.shared = mmap.mmap(-1, PID_BYTES)
    worker = os.fork()
    if worker:
        _wait(worker, others)  # never returns: from here on we are the worker
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    # A group of its own: what a terminal sends to the guardian's is forwarded, and would come twice.
    os.setpgid(0, 0)
    _libc.prctl(_SET_PDEATHSIG, GUARDIAN_DIED, 0, 0, 0)
    if os.getppid() != guardian:  # it was killed before we could ask
        os._exit(1)
    _Guarded.by = guardian


def find_guardian() -> int | None:
    """The process that waits for this one, if any does."""
    return _Guarded.by


def find_visible_pid() -> int:
    """The process that users know as this worker."""
    return _Guarded.by or os.getpid()


def spare(pid: int) -> None:
    """The watchdog of this worker. If the worker dies, its guardian lets it do its work."""
    if _Guarded.shared is not None:
        _Guarded.shared[:] = pid.to_bytes(PID_BYTES, "little")


def list_children(pid: int) -> list[int]:
    """The children of a process's main thread, with orphans that became its children."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return []


def _wait(worker: int, others: Collection[int]) -> NoReturn:
    for number in FORWARDED:
        signal.signal(number, lambda number, _frame: _send(worker, number))
    signal.signal(signal.SIGTSTP, lambda _number, _frame: _pause(worker))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    while True:
        pid, status = os.wait()
        if pid == worker:
            break
    _end_orphans(others)
    _end_like(status)


def _pause(worker: int) -> None:
    """Ctrl-Z: stop both, and go on with both."""
    _send(worker, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    _send(worker, signal.SIGCONT)


def _end_orphans(others: Collection[int]) -> None:
    """Kill what a dead worker left, but let its watchdog do its work."""
    deadline = read_monotonic() + ORPHAN_SECONDS
    watchdog = int.from_bytes(_Guarded.shared or b"", "little")
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
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the worker has left a core dump if the user wants one
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
