"""The watchdog: a shell beside the worker that kills its tasks if the worker dies without doing so, as by kill -9.

It waits for the end of a pipe from the worker, kills the groups in the table, and runs `recovery`, which kills what has
left its group and saves what ended. It holds the lock on the folder until then. There is one per worker, so it costs
nothing per task. If it is killed too, the next worker in the folder does all this.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.files import write_all
from gandy.worker.guardian import set_watchdog
from gandy.worker.labels import MARK_NAME, remove_label
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
            # If the worker itself runs in a task, its watchdog must not look like a part of that task.
            remove_label(self.pid)
            set_watchdog(self.pid)
        finally:
            os.close(reading)

    def _spawn(self, reading: int, folder: Path, table: Path, lock: int) -> int:
        return os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", SCRIPT, sys.executable, str(folder.absolute())],
            {name: value for name, value in inherited_environment(os.environ).items() if name != MARK_NAME},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, lock, LOCK),  # after the first: `reading` may have that number
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 3, str(table), os.O_RDONLY, 0),
            ],
            setsid=True,  # signals from a terminal or a supervisor to the worker's group must not reach it
        )

    def close(self) -> None:
        """End the watchdog: nothing runs any more."""
        with suppress(BrokenPipeError):  # it was killed
            write_all(self._pipe, b"done\n")
        os.close(self._pipe)
        os.waitpid(self.pid, 0)
        set_watchdog(0)
