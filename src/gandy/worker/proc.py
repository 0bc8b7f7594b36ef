"""Reads /proc for processes and process groups, and signals a whole group. Knows no tasks."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to every process of the group, if there are any."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # PermissionError: what is left runs a set-user-id program as another user, and cannot be signalled.
        return


def ask_to_end(group: int) -> None:
    signal_group(group, signal.SIGTERM)
    # A stopped process handles SIGTERM only after it is continued.
    signal_group(group, signal.SIGCONT)


def is_gone(group: int) -> bool:
    """True if nothing is left of the group, not even zombies. Cheap."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def is_dead(group: int) -> bool:
    """True if no process of the group is alive. Reads all of /proc if anything is left of the group."""
    # Zombies stay in the group until process 1 reaps them, which may take seconds.
    return is_gone(group) or not any(map(lives, list_members().get(group, ())))


def list_members() -> dict[int, list[int]]:
    """List the processes of each group on this machine."""
    members: dict[int, list[int]] = {}
    for pid in list_processes():
        with suppress(ProcessLookupError):
            members.setdefault(os.getpgid(pid), []).append(pid)
    return members


def read_memory(pid: int) -> int:
    """Return the bytes that a process has in memory; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def list_processes() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name, in parentheses, may contain anything; the state comes after it.
    return status.rpartition(b") ")[2][:1] not in (b"Z", b"X")


def reap_orphans(group: int) -> None:
    """Reap orphans of the group that became our children: we may be process 1 of a container."""
    with suppress(ChildProcessError):
        while os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG) is not None:
            pass
