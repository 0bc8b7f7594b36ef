"""Processes and their descendants: what they cost, how they are paused, and how all of them are ended."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

PR_SET_CHILD_SUBREAPER: Final = 36  # from linux/prctl.h
CPU_FIELDS: Final = slice(11, 15)  # of /proc/PID/stat behind the name: utime, stime, cutime, cstime
PATIENCE: Final = 60.0  # seconds within which a program that was started must answer


def adopt_orphans() -> None:
    """From now on, descendants whose parents end become children of this process, so that none is lost."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def list_tree(root: int) -> list[int]:
    """The process and all its descendants, parents before children."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _read_stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def cpu_seconds(root: int) -> float:
    """CPU time so far of the process, its descendants and all children that these have waited for."""
    ticks = sum(int(ticks) for pid in list_tree(root) for ticks in _read_stat(pid)[CPU_FIELDS])
    return ticks / os.sysconf("SC_CLK_TCK")


def stolen_seconds() -> float:
    """CPU time that the host of a virtual machine has given to other machines since it started (steal)."""
    words = Path("/proc/stat").read_text().split(maxsplit=9)
    return int(words[8]) / os.sysconf("SC_CLK_TCK")


def own_cpu_seconds(pid: int) -> float:
    """CPU time so far of the threads of one process, to the nanosecond: for work that takes milliseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def memory_kib(pid: int) -> int:
    """The most memory that the process has used."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


def signal_tree(root: int, number: int) -> None:
    for pid in list_tree(root):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_descendants(root: int | None = None) -> None:
    """Of this process, or of another. Children that start meanwhile are killed in the next round."""
    while others := [pid for pid in list_tree(root or os.getpid())[1:] if not _is_dead(pid)]:
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


@contextmanager
def running(*command: str, env: Mapping[str, str] | None = None, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block. Its output goes into the driver's log."""
    variables = {**os.environ, **(env or {})}
    with subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, **options) as program:
        try:
            yield program
        finally:
            program.terminate()
            try:
                program.wait(5)
            except subprocess.TimeoutExpired:
                program.kill()


def wait_until(is_ready: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Poll until it is true.

    Raises: TimeoutError.
    """
    deadline = time.monotonic() + patience
    while not is_ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not answer within {patience:.0f} seconds")
        time.sleep(0.02)


def _read_stat(pid: int) -> list[str]:
    """The fields behind the name. None, if the process has just ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _is_dead(pid: int) -> bool:
    fields = _read_stat(pid)
    return not fields or fields[0] == "Z"
