"""Reads how often the kernel's out-of-memory killer struck in this worker's control group, or else on the machine."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.clocks import read_monotonic
from gandy.moments import LONG_AGO

COUNT: Final = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
RECENT: Final = 1.0  # seconds; tasks that start together share a reading
READ_BYTES: Final = 16 * 1024  # /proc/vmstat is the longest of them, at about 5 KiB


class OomCounter:
    """Keeps the file open, so that a reading is one system call. It reads None if the kernel does not count."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._descriptor = _find_counter(root)
        self._recent: int | None = None
        self._read_at = LONG_AGO

    def read_recent(self) -> int | None:
        """Return the counter, up to RECENT seconds old."""
        now = read_monotonic()
        if now - self._read_at > RECENT:
            self._recent, self._read_at = self.read(), now
        return self._recent

    def read(self) -> int | None:
        if self._descriptor is None:
            return None
        try:
            return _parse_count(os.pread(self._descriptor, READ_BYTES, 0))
        except OSError:  # our control group was removed
            return None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _parse_count(data: bytes) -> int | None:
    found = COUNT.search(data)
    return None if found is None else int(found[1])


def _find_counter(root: Path) -> int | None:
    for path in _candidates(root):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if _parse_count(os.pread(descriptor, READ_BYTES, 0)) is not None:
                return descriptor
            os.close(descriptor)
    return None


def _candidates(root: Path) -> Iterator[Path]:
    """List the files that may count: of our own control group, version 2 or 1, then of the whole machine."""
    groups = root / "sys/fs/cgroup"
    for line in _read_lines(root / "proc/self/cgroup"):
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            yield groups / path.lstrip("/") / "memory.events"
        if controllers == "memory":
            yield groups / "memory" / path.lstrip("/") / "memory.oom_control"
    yield root / "proc/vmstat"


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
