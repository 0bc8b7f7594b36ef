"""Finds out if a process on this machine is alive. Starts and ends none."""

import os
from pathlib import Path


def is_dead(pid: int) -> bool:
    """True if a process has ended; a zombie counts as ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False
