"""The key to the private ensembles of a home: that of the crew that it joined, or else one of its own."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from gandy.errors import ConfigError
from gandy.keys.files import create, make_folder, read_secret, replace

KEY_BYTES: Final = 32
NAME: Final = "ensemble.key"
SHARED: Final = "ensemble.shared"  # a file that exists once other machines have the key too
CREW_FOLDER: Final = "crew"
OWN_FOLDER: Final = "keys"


class EnsembleKey(NamedTuple):
    """A secret, and whether other machines have it."""

    secret: bytes
    is_shared: bool

    def __repr__(self) -> str:
        return "EnsembleKey()"  # the secret must not get into a log


def open_ensemble_key(home: str) -> EnsembleKey:
    """The key of the crew that this home joined; else its own. Raises: ConfigError."""
    path = find_ensemble_key(home)
    return EnsembleKey(_read(path), is_shared=True) if path.parent.name == CREW_FOLDER else open_own_key(home)


def find_ensemble_key(home: str) -> Path:
    """The path of the key that `open_ensemble_key` reads, whether it exists or not."""
    joined = Path(home) / CREW_FOLDER / NAME
    return joined if joined.exists() else Path(home) / OWN_FOLDER / NAME


def open_own_key(home: str) -> EnsembleKey:
    """The key of this home's own crew, whichever crew it joined. Made if there is none.

    Raises: ConfigError.
    """
    folder = Path(home) / OWN_FOLDER
    make_folder(Path(home), must_be_hidden=False)
    make_folder(folder)
    if not (folder / NAME).exists():
        with _saving(folder):
            create(folder / NAME, _make())
    return EnsembleKey(_read(folder / NAME), is_shared=(folder / SHARED).exists())


def renew_own_key(home: str) -> None:
    """Replace the key: processes that start from now on ignore those with the old one. Raises: ConfigError."""
    open_own_key(home)  # raises if something is wrong with the folder
    with _saving(Path(home) / OWN_FOLDER) as folder:
        replace(folder / NAME, _make())


def note_shared(home: str) -> None:
    """Record that another machine has our own key: ensembles of this home use the network now. Raises: ConfigError."""
    with _saving(Path(home) / OWN_FOLDER) as folder:
        create(folder / SHARED, b"")


def save_ensemble_key(crew_folder: Path, key: bytes) -> None:
    """Raises: OSError."""
    replace(crew_folder / NAME, key.hex().encode() + b"\n")


def parse_ensemble_key(text: str) -> bytes:
    """Raises: ConfigError, whose text never contains the key."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(f"the key of an ensemble has {2 * KEY_BYTES} hexadecimal digits")
    return key


@contextmanager
def _saving(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except OSError as error:
        raise ConfigError(f"cannot save keys in {folder}: {error}") from None


def _make() -> bytes:
    return secrets.token_hex(KEY_BYTES).encode() + b"\n"


def _read(path: Path) -> bytes:
    try:
        return parse_ensemble_key(read_secret(path).decode(errors="replace"))
    except (OSError, ConfigError) as error:
        raise ConfigError(f"cannot read the ensemble's key in {path}: {error}") from None
