"""What a program asks of its crew, as text for the crew's process."""

import json
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self

from gandy.config import LONGEST_SOCKET_PATH, SOCKET_NAME, Address
from gandy.errors import ConfigError

# Where temporary folders are made if the path of a socket would be too long in the usual place.
SHORT_PLACE: Final = "/tmp"  # noqa: S108 - the folder is made with a random name, for its user alone

StrPath = str | os.PathLike[str]


class CrewOptions(NamedTuple):
    """The folder is an absolute path. `is_kept`: it stays when the crew ends. `log`: empty unless it is kept."""

    folder: str
    is_kept: bool
    slots: int | None
    log: str
    commands: tuple[str, ...]
    preload: tuple[str, ...]
    reserve: int

    @property
    def address(self) -> Address:
        return Address("unix", str(Path(self.folder) / SOCKET_NAME))

    def format(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def parse(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "commands": tuple(found["commands"]), "preload": tuple(found["preload"])})


def make_options(
    slots: int | None,
    folder: StrPath | None,
    log: StrPath | None,
    commands: Iterable[str],
    preload: Iterable[str],
    reserve: int,
) -> CrewOptions:
    """Raises: ConfigError."""
    for name, value in (("commands", commands), ("preload", preload)):
        if isinstance(value, str):
            raise ConfigError(f"{name} is a list of modules: write {name}=[{value!r}]")
    place = _choose_folder() if folder is None else str(Path(folder).expanduser().absolute())
    if not _fits(place):
        raise ConfigError(f"the path of the socket in {place} would be longer than {LONGEST_SOCKET_PATH} bytes")
    kept_log = "" if log is None else str(Path(log).expanduser().absolute())
    return CrewOptions(place, folder is not None, slots, kept_log, tuple(commands), tuple(preload), reserve)


def _choose_folder() -> str:
    """Choose the path of a temporary folder. The crew's process makes it, so none is left if this process dies."""
    name = f"gandy-{secrets.token_hex(6)}"
    usual = str(Path(tempfile.gettempdir()).absolute() / name)
    return usual if _fits(usual) else str(Path(SHORT_PLACE) / name)


def _fits(folder: str) -> bool:
    return len(os.fsencode(Path(folder) / SOCKET_NAME)) <= LONGEST_SOCKET_PATH
