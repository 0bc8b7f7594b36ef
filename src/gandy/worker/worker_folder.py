"""The folder that one worker uses alone: its lock, output, table of process groups, journal and watchdog."""

import os
from pathlib import Path

from gandy.errors import GandyError
from gandy.journal import Journal
from gandy.keys.files import make_private_folder
from gandy.wire import payloads
from gandy.worker.output import OutputFolder
from gandy.worker.recovery import claim_folder, recover
from gandy.worker.table import GroupTable
from gandy.worker.watchdog import Watchdog


class WorkerFolder:
    """Claims the folder, after tidying up what dead workers left in it.

    Raises: GandyError where another worker uses it.
    """

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self.path = folder
        self._lock = claim_folder(folder)
        try:
            self.left = recover(folder)  # by dead workers, for the foreman
        except OSError as error:
            os.close(self._lock)
            raise GandyError(f"cannot tidy up after the last worker in {folder}: {error.strerror}") from error
        self.outputs = OutputFolder(folder)
        self.table = GroupTable(folder)

    def open_journal(self, worker: str) -> Journal:
        """Open a journal with what dead workers left. `worker` is our id. Raises: GandyError; the folder is closed
        then."""
        try:
            packed = [payloads.encode(result) for result in self.left.results]
            return Journal(self.path, (*self.left.ids, worker), packed)
        except OSError as error:
            self.close()
            raise GandyError(f"cannot save results in {self.path}: {error.strerror}") from None

    def start_watchdog(self) -> None:
        """Start the watchdog, after every inheritable descriptor that it must not keep open is marked."""
        self.watchdog = Watchdog(self.path, self.table.path, self._lock)

    def close(self) -> None:
        """Release the folder. Call this after the watchdog is closed."""
        self.table.close()
        os.close(self._lock)
