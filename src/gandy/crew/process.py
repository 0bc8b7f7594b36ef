"""A program's handle on its crew: starts it, notices its end, and ends it. Sends no requests.

The crew's process stops when it reads from its standard input, or that ends, and it watches the program's pid.
"""

import atexit
import os
from threading import Lock
from typing import Final
from weakref import WeakSet

from gandy.client.connection import Connection
from gandy.config import Address
from gandy.crew.child import Child
from gandy.crew.options import CrewOptions

NOT_STARTED: Final = "the crew does not run: start it by 'with', or with start()"
CLOSED: Final = "the crew was closed"


class CrewProcess:
    """One crew, which may be started again after its end. Any thread may use it, of the process that made it."""

    def __init__(self, options: CrewOptions) -> None:
        self.options = options
        self._owner = os.getpid()
        self._connections: WeakSet[Connection] = WeakSet()  # of clients of this crew
        self._changing = Lock()  # held while it is started or ended
        self._child: Child | None = None

    @property
    def address(self) -> Address:
        return self.options.address

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked: the crew is its parent's."""
        return os.getpid() == self._owner

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_ready and self._child.is_alive

    def add(self, connection: Connection) -> None:
        """A client of this crew: its requests must fail, rather than wait, when the crew is gone."""
        connection.end_of_crew = "" if self.is_running else NOT_STARTED
        self._connections.add(connection)

    def start(self) -> None:
        """Start the crew unless it runs, and wait until it is ready. Raises: CrewFailed, ConfigError."""
        with self._changing:
            if self.is_running:
                return
            self._child = child = Child(self.options, self._explain)
            try:
                child.wait_ready()
            except BaseException:
                child.end(kill=True)
                raise
            self._explain("" if child.is_alive else CLOSED)
            _started.add(self)

    def end(self) -> None:
        """End the crew with all that it runs, and wait until it is gone."""
        if not self.is_ours:
            return
        self.let_go()  # even while it is being started
        with self._changing:
            child, self._child = self._child, None
            if child is not None:
                self._explain(CLOSED)
                child.end()

    def let_go(self) -> None:
        """Let the crew end, without waiting for it."""
        child = self._child
        if child is not None and self.is_ours:
            child.ask_to_end()

    def _explain(self, end: str) -> None:
        """Tell all clients why there is no crew any more. Empty: there is one."""
        for connection in list(self._connections):
            connection.end_of_crew = end


_started: Final[WeakSet[CrewProcess]] = WeakSet()


def _end_all() -> None:
    """End crews that the program has not closed, so that nothing is left of them when it ends."""
    running = list(_started)
    for process in running:
        process.let_go()
    for process in running:
        process.end()


atexit.register(_end_all)
