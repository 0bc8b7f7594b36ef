"""Where a foreman listens besides its unix socket, and what a further door must be able to do."""

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:  # a worker, which has options for doors too, needs no foreman
    from gandy.foreman.server import Server


class OpenDoor(NamedTuple):
    """A door that is open, as it is shown to people."""

    name: str
    audience: str | None = None  # from where it can be reached, if it is without keys


class DoorOpening(Protocol):
    """How to open a door for peers that speak another protocol."""

    def check(self, insecure: bool) -> None:
        """Raises: ConfigError, if it may not be opened like this."""
        ...

    async def open(self, server: "Server", home: str, insecure: bool) -> OpenDoor:
        """Raises: ConfigError."""
        ...


class Doors(NamedTuple):
    """All doors of one foreman besides its unix socket."""

    listen: tuple[str, ...] = ()
    others: tuple[DoorOpening, ...] = ()
    ensemble: str | None = None  # which is led by this foreman's clock


NATIVE_ONLY: Final = Doors()
NO_KEYS: Final = (
    "would be without keys: with 'gandy foreman run --insecure', every program that reaches it can run commands as you"
)
