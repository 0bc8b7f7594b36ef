"""The file that says which jobs have been sent to one collector. One process uses it, and replaces it as a whole."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from gandy.cli.trace.sent import SentJobs
from gandy.errors import ConfigError, StoreError
from gandy.keys.files import make_private_folder, replace
from gandy.store.lock import FileLock

FOLDER: Final = "traces"  # in the home


class KeptFile:
    """Locked until `close`."""

    def __init__(self, home: str, crew: Sequence[str], endpoint: str) -> None:
        """`crew`: what tells it from others. Raises: ConfigError."""
        digest = sha256("\n".join([*crew, endpoint]).encode()).hexdigest()[:16]
        self.path = Path(home) / FOLDER / f"{digest}.json"
        try:
            make_private_folder(self.path.parent)
            self._lock = FileLock(self.path, "'gandy trace'")
        except OSError as error:
            raise ConfigError(f"cannot make the folder {self.path.parent}: {error.strerror}") from None
        except StoreError as error:
            raise ConfigError(str(error)) from None

    def close(self) -> None:
        self._lock.release()

    def read(self) -> SentJobs | None:
        """None: nothing has been sent. Raises: ConfigError."""
        try:
            return SentJobs.unpack(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror}") from None
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}; remove it to begin anew") from None

    def write(self, sent: SentJobs) -> None:
        """Raises: OSError."""
        replace(self.path, sent.pack())
