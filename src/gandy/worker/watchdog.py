"""A shell beside the worker that kills its tasks when the worker dies without doing so, by kill -9 for instance.

It holds the end of a pipe that breaks with the worker, then reads which groups were running, and lets `recovery` do the
rest: kill what has left its group, and write down what ended. It also holds the lock on the folder until that is done.
One per worker, so it costs nothing per task. Should it be killed too, the next worker in the folder does all this.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.files import write_all
from gandy.worker.guardian import spare
from gandy.worker.labels import MARK_NAME, take_off
from gandy.worker.order import inherited_environment

SCRIPT: Final = """
read -r word
[ -z "$word" ] || exit 0
while read -r group _; do
    case $group in ''|*[!0-9]*) ;; *) kill -s KILL -- "-$group" ;; esac
done <&3
exec "$0" -P -m gandy.worker.recovery "$1"
"""
LOCK: Final = 4  # the descriptor of the lock, in the watchdog


class Watchdog:
    """Watches this process, from now until `close`."""

    def __init__(self, folder: Path, table: Path, lock: int) -> None:
        reading, self._pipe = os.pipe()
        try:
            self.pid = self._spawn(reading, folder, table, lock)
            # Where the worker runs in a task of another one, the watchdog must not look like a part of that task.
            take_off(self.pid)
            spare(self.pid)
        finally:
            os.close(reading)

    def _spawn(self, reading: int, folder: Path, table: Path, lock: int) -> int:
        return os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", SCRIPT, sys.executable, str(folder.absolute())],
            {name: value for name, value in inherited_environment(os.environ).items() if name != MARK_NAME},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, lock, LOCK),  # not before: `reading` may have that number
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 3, str(table), os.O_RDONLY, 0),
            ],
            setsid=True,  # what a terminal or a supervisor sends to the worker's group must not reach it
        )

    def close(self) -> None:
        """Let it end: nothing runs any more."""
        with suppress(BrokenPipeError):  # it was killed
            write_all(self._pipe, b"done\n")
        os.close(self._pipe)
        os.waitpid(self.pid, 0)
        spare(0)
