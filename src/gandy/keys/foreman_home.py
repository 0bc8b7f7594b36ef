"""Makes a home that of a foreman of a crew which is there already: with the crew's identity, and a key of its own."""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from gandy.core.roles import CrewRole
from gandy.errors import ConfigError
from gandy.keys.crew import CREW, CrewKeys, Membership
from gandy.keys.ensemble import SHARED, save_ensemble_key
from gandy.keys.files import create, lock_folder, make_folder
from gandy.keys.foreman import CERTIFICATE, FOLDER, SECRET

NEW: Final = "keys.new"  # becomes the folder of keys when it is complete
OLD: Final = "keys.old"  # and a number


class CrewIdentity(NamedTuple):
    """What a foreman gets of its crew. The certificate is DER, the secret PEM."""

    certificate: bytes
    secret: bytes
    ensemble_key: bytes

    def __repr__(self) -> str:
        return "CrewIdentity()"  # the secrets must not get into a log


def install(home: Path, about: Membership, secret: bytes, certificate: bytes, crew: CrewIdentity) -> CrewKeys:
    """Write the keys of this home anew. The caller has made sure that no foreman runs in it. Raises: ConfigError.

    Keys that were there are moved aside: they are another crew's, whose foreman may be wanted again.
    """
    new = home / NEW
    make_folder(home, must_be_hidden=False)
    try:
        _write(new, about, secret, certificate, crew)
        with lock_folder(home / FOLDER):
            if (old := choose_old_folder(home)) is not None:
                (home / FOLDER).rename(old)
            else:  # it has nothing but the lock
                _empty(home / FOLDER)
                (home / FOLDER).rmdir()
            new.rename(home / FOLDER)
    except OSError as error:
        raise ConfigError(f"cannot save keys in {home}: {error}") from None
    if (joined := CrewKeys.find(home / CREW)) is not None:
        joined.remove()  # else the programs of this home would not ask its own foreman
    return CrewKeys(home / FOLDER / CrewRole.FOREMAN, about)


def choose_old_folder(home: Path) -> Path | None:
    """Where the keys of this home are moved by `install`; None if it has none."""
    folder = home / FOLDER
    if not folder.exists() or not any(path.name != ".lock" for path in folder.iterdir()):
        return None
    number = 1
    while (home / f"{OLD}-{number}").exists():
        number += 1
    return home / f"{OLD}-{number}"


def _write(new: Path, about: Membership, secret: bytes, certificate: bytes, crew: CrewIdentity) -> None:
    """Raises: OSError, ConfigError."""
    make_folder(new)
    _empty(new)  # what a join that was cut short has left
    create(new / SECRET, crew.secret)
    create(new / CERTIFICATE, ssl.DER_cert_to_PEM_cert(crew.certificate).encode())
    if crew.ensemble_key:
        save_ensemble_key(new, crew.ensemble_key)
        create(new / SHARED, b"")
    CrewKeys.save(new / CrewRole.FOREMAN, about, secret, certificate, crew.certificate)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            _empty(path)
            path.rmdir()
        else:
            path.unlink()
