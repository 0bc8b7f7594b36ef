"""The folder that a worker has to itself while it lives: lock, output, the table of its groups, and its watchdog."""

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
        """With what dead workers left; `worker` is our id. Closes the folder if that fails. Raises: GandyError."""
        try:
            packed = [payloads.encode(result) for result in self.left.results]
            return Journal(self.path, (*self.left.ids, worker), packed)
        except OSError as error:
            self.close()
            raise GandyError(f"cannot save results in {self.path}: {error.strerror}") from None

    def start_watchdog(self) -> None:
        """After everything that opens descriptors which the watchdog must not keep open."""
        self.watchdog = Watchdog(self.path, self.table.path, self._lock)

    def close(self) -> None:
        """After the watchdog, and when nothing runs any more."""
        self.table.close()
        os.close(self._lock)
