"""A tiny shell beside the worker that kills its tasks when it dies without a word, by kill -9 for instance.

It holds the end of a pipe that breaks with the worker, and reads then which groups were running. One per worker,
so it costs nothing per task. Should it be killed too, the next worker on the folder sweeps.
"""

import os
from pathlib import Path
from typing import Final

from gandy.worker.order import tell_base

SCRIPT: Final = """
read -r _
while read -r group _; do
    [ -z "$group" ] || kill -s KILL -- "-$group"
done <&3
"""


class Watchdog:
    """Watches this process, from now until `close`."""

    def __init__(self, table: Path) -> None:
        reading, self._pipe = os.pipe()
        try:
            self._pid = self._spawn(reading, table)
        finally:
            os.close(reading)

    def _spawn(self, reading: int, table: Path) -> int:
        return os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", SCRIPT, "gandy-watchdog"],
            tell_base(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 3, str(table), os.O_RDONLY, 0),
            ],
            setsid=True,  # what a terminal or a supervisor sends to the worker's group must not reach it
        )

    def close(self) -> None:
        """Let it go. What the table still lists is killed."""
        os.close(self._pipe)
        os.waitpid(self._pid, 0)
