"""Processes that left the group of their task, with `setsid` for instance: they die with their task all the same.

They are known by what the worker put into the environment of everything that it starts. Orphans become children of the
guardian, so where there is one, only its children are looked at; elsewhere it is every process of the machine. What
has cleared its environment is not found: it dies with the worker, and only where there is a guardian.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gandy.core.model import AttemptKey
from gandy.ids import JobId, TaskNumber
from gandy.worker.groups import list_processes, lives
from gandy.worker.guardian import find_guardian, is_watchdog, list_children
from gandy.worker.table import MARK_NAME


class Stray(NamedTuple):
    """A process that lives, and the attempt that it was started for. None: it was not started for any."""

    pid: int
    attempt: AttemptKey | None


class Strays:
    """Of one worker, which is known by its mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._guardian = find_guardian()
        self._dying: dict[AttemptKey, set[int]] = {}

    @property
    def is_quick(self) -> bool:
        """Whether a look at them takes microseconds, and not milliseconds."""
        return self._guardian is not None

    def kill(self, attempt: AttemptKey) -> bool:
        """Kill those of an attempt whose group is dead. True while any of them lives."""
        # Before the others are listed: children of what dies become the guardian's at the end of that, and not before.
        dying = {pid for pid in self._dying.pop(attempt, ()) if lives(pid)}
        dying |= _kill(stray for stray in self._list() if stray.attempt == attempt)
        if dying:
            self._dying[attempt] = dying
        return bool(dying)

    def forget(self, attempt: AttemptKey) -> None:
        """What was killed and does not die is not waited for any longer."""
        self._dying.pop(attempt, None)

    def sweep(self, is_running: Callable[[AttemptKey], bool]) -> None:
        """Kill those of attempts that are over."""
        _kill(stray for stray in self._list() if stray.attempt is not None and not is_running(stray.attempt))

    def kill_all(self) -> None:
        """The worker ends, and its groups are dead."""
        _kill(self._list())

    def _list(self) -> Iterator[Stray]:
        candidates = list_processes() if self._guardian is None else list_children(self._guardian)
        return list_marked(self._mark, candidates)


def list_marked(mark: bytes, candidates: Iterable[int]) -> Iterator[Stray]:
    """Those that were started by the worker with this mark, or by what it started. The dead have no environment."""
    for pid in candidates:
        try:
            pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        values = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
        if values.get(MARK_NAME.encode()) == mark:
            yield Stray(pid, _read_attempt(values))


def _read_attempt(values: dict[bytes, bytes]) -> AttemptKey | None:
    try:
        job, task, attempt = (int(values[name]) for name in (b"GANDY_JOB", b"GANDY_TASK", b"GANDY_ATTEMPT"))
    except (KeyError, ValueError):
        return None
    return AttemptKey(JobId(job), TaskNumber(task), attempt)


def _kill(strays: Iterable[Stray]) -> set[int]:
    killed = set()
    for stray in strays:
        if is_watchdog(stray.pid):  # of a worker that ran in a task: it ends that one's tasks, and then itself
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.kill(stray.pid, signal.SIGKILL)
            killed.add(stray.pid)
    return killed
