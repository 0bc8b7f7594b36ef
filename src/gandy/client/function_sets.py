"""The function sets that one client has open: closes them with the client, and closes their jobs."""

import asyncio
from threading import Lock
from typing import TYPE_CHECKING

from gandy.client.connection import SEND_PATIENCE, Connection
from gandy.client.options import FunctionOptions
from gandy.ids import JobId

if TYPE_CHECKING:
    from gandy.client.functions import Functions


class FunctionSets:
    """Any thread may open one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: list[Functions] = []
        self._default: Functions | None = None
        self._lock = Lock()

    def open(self, loop: asyncio.AbstractEventLoop, options: FunctionOptions) -> "Functions":
        """Raises: ConfigError."""
        from gandy.client.functions import Functions  # slow to import, and many programs run no functions

        functions = Functions(self._connection, loop, options)
        self._open.append(functions)
        return functions

    def get_default(self, loop: asyncio.AbstractEventLoop) -> "Functions":
        """Return the function set without options."""
        with self._lock:
            if self._default is None:
                self._default = self.open(loop, FunctionOptions())
            return self._default

    def reopen(self) -> None:
        """The client is used again after it was closed."""
        with self._lock:
            if self._default is not None and self._default not in self._open:
                self._default = None

    def close_job(self, job: JobId, is_cancelled: bool = False) -> None:
        """Add no more tasks to a job of this client. The next function opens another job."""
        for functions in self._open:
            functions.close_job(job, is_cancelled)

    def has_task(self, job: JobId, task: int) -> bool:
        """True if this client runs the task and has no result of it yet. The foreman may not have the task either."""
        return any(functions.has_task(job, task) for functions in self._open)

    def abandon(self) -> None:
        """Cancel every task that has not ended, and kill those that run: the program was interrupted."""
        if self._open:
            from gandy.client.functions import log_interrupted

            log_interrupted(sum(functions.abandon() for functions in self._open))

    async def end(self) -> None:
        """Close all function sets. Tasks that were queued go on, but their futures get no results any more."""
        for functions in self._open:
            await functions.end(SEND_PATIENCE)
        self._open.clear()
