"""Processes of this machine, as /proc shows them, and the limits of this one."""

import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 20.0  # seconds, for changes that take a fraction of one


def read_state(pid: int) -> str:
    """As ps shows it; X if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (ProcessLookupError, FileNotFoundError):
        return "X"


def is_alive(pid: int) -> bool:
    """A zombie that process 1 has not reaped yet counts as dead."""
    return read_state(pid) not in "ZX"


def find_busy(guardian: int) -> int:
    """The child of a guardian that does the work. It is the first child, and starts at once."""
    children = Path(f"/proc/{guardian}/task/{guardian}/children")
    deadline = time.monotonic() + PATIENCE
    while not (found := children.read_text().split()):
        assert time.monotonic() < deadline, f"process {guardian} has no child"
        time.sleep(0.01)
    return int(found[0])


def read_memory(process: object, key: str) -> int:
    """Bytes: VmRSS is what it uses, and VmHWM the most that it ever used."""
    found = re.search(rf"^{key}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def list_descendants(pid: int) -> list[int]:
    """Those that are there now. One that ends meanwhile has none."""
    try:
        paths = list(Path(f"/proc/{pid}/task").glob("*/children"))
        children = [int(word) for path in paths for word in path.read_text().split()]
    except (ProcessLookupError, FileNotFoundError):
        return []
    return children + [found for child in children for found in list_descendants(child)]


@contextmanager
def many_files(wanted: int, besides: int) -> Iterator[int]:
    """How many links we may open in addition to other files: all that are wanted, if the hard limit allows it."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + besides
    most = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    try:
        yield max(0, min(enough, max(soft, most)) - besides)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
