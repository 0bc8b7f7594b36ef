"""Finds the client that `run`, `map` and `delay` of decorated functions use."""

import os
from threading import Lock
from typing import TYPE_CHECKING, Final

from gandy.errors import ConfigError

if TYPE_CHECKING:
    from gandy.client.blocking import Client

# Where a client without an address looks for its foreman.
VARIABLES: Final = ("GANDY_FOREMAN", "GANDY_HOME", "HOME", "XDG_DATA_HOME")


class CurrentClients:
    """The clients whose `with` block is open, and one of our own. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: list[Client] = []
        self._own: Client | None = None
        self._key: tuple[int, list[str | None]] | None = None  # for which process and environment it was made

    def enter(self, client: "Client") -> None:
        with self._lock:
            self._open.append(client)

    def leave(self, client: "Client") -> None:
        with self._lock:
            self._open = [each for each in self._open if each is not client]

    def find(self) -> "Client":
        """Return the client whose `with` block is open; if there is none, one that is closed when the program ends.

        Raises: ConfigError, if clients of several foremen are open.
        """
        with self._lock:
            if len({client.address for client in self._open}) > 1:
                raise ConfigError("clients of several foremen are open; say which one: client.run(function, ...)")
            return self._open[-1] if self._open else self._get_own()

    def _get_own(self) -> "Client":
        from gandy.client.blocking import Client

        key = os.getpid(), [os.environ.get(name) for name in VARIABLES]
        if self._own is None or self._key != key:
            self._own, self._key = Client(), key
        return self._own


_current: Final = CurrentClients()
enter, leave, find_client = _current.enter, _current.leave, _current.find
