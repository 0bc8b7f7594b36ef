"""Finds and kills strays: processes that left the group of their task, for instance with `setsid`.

They are found by their labels. A worker inside a user's program does not label what it starts, since the program may
start a process at the same moment: there, strays are found by their environment, unless they have cleared it. With a
guardian, only its children are examined, since orphans become its children; without one, all processes are.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gandy.core.model import AttemptKey
from gandy.worker.guardian import find_guardian, list_children
from gandy.worker.labels import MARK_NAME, is_label_of, make_label, read_label
from gandy.worker.proc import list_processes, lives
from gandy.worker.table import NO_ATTEMPT


class Stray(NamedTuple):
    """A live process, and the label of the attempt that started it."""

    pid: int
    label: int


class Strays:
    """The strays of one worker, which are recognised by its mark."""

    def __init__(self, mark: int) -> None:
        self._mark = mark
        self._guardian = find_guardian()
        self._dying: dict[AttemptKey, set[int]] = {}

    @property
    def is_quick(self) -> bool:
        """True if listing strays takes microseconds, not milliseconds."""
        return self._guardian is not None

    def kill(self, attempt: AttemptKey) -> bool:
        """Kill the strays of an attempt whose group is dead. True while any of them is alive."""
        # Before listing: the children of a dying process become the guardian's only when it is dead.
        dying = {pid for pid in self._dying.pop(attempt, ()) if lives(pid)}
        label = make_label(self._mark, *attempt)
        dying |= _kill(stray for stray in self._list() if stray.label == label)
        if dying:
            self._dying[attempt] = dying
        return bool(dying)

    def find_labelled(self, attempts: Iterable[AttemptKey], candidates: Iterable[int]) -> dict[AttemptKey, set[int]]:
        """Find the processes of each attempt, in its group or not; none if processes are not labelled."""
        pids: dict[int | None, set[int]] = {}
        for pid in candidates:
            pids.setdefault(read_label(pid), set()).add(pid)
        return {attempt: pids.get(make_label(self._mark, *attempt), set()) for attempt in attempts}

    def forget(self, attempt: AttemptKey) -> None:
        """Stop waiting for strays of an attempt that were killed and do not die."""
        self._dying.pop(attempt, None)

    def sweep(self, running: Iterable[AttemptKey]) -> None:
        """Kill the strays of attempts that are over."""
        labels = {make_label(self._mark, *attempt) for attempt in (*running, NO_ATTEMPT)}
        _kill(stray for stray in self._list() if stray.label not in labels)

    def kill_all(self) -> None:
        """Kill all strays: the worker ends, and its groups are dead."""
        _kill(self._list())

    def _list(self) -> Iterator[Stray]:
        candidates = list_processes() if self._guardian is None else list_children(self._guardian)
        return list_marked(self._mark, candidates)


def list_marked(mark: int, candidates: Iterable[int]) -> Iterator[Stray]:
    """List the candidates that the worker with this mark started, directly or indirectly."""
    for pid in candidates:
        label = read_label(pid)
        if label is None or not is_label_of(mark, label):
            label = _find_label_in_environment(mark, pid)
        if label is not None and lives(pid):
            yield Stray(pid, label)


def _find_label_in_environment(mark: int, pid: int) -> int | None:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    values = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
    if values.get(MARK_NAME.encode()) != b"%d" % mark:
        return None
    try:
        return make_label(mark, *(int(values[name]) for name in (b"GANDY_JOB", b"GANDY_TASK", b"GANDY_ATTEMPT")))
    except (KeyError, ValueError):
        return make_label(mark, *NO_ATTEMPT)


def _kill(strays: Iterable[Stray]) -> set[int]:
    killed = set()
    for stray in strays:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(stray.pid, signal.SIGKILL)
            killed.add(stray.pid)
    return killed
