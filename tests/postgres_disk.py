"""A PostgreSQL whose data are on a small disk of their own, which tests can fill."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from tests.disks import SmallDisk, small_disk
from tests.postgres import Postgres

MEGABYTES: Final = 80  # of which a new server takes 32


@contextmanager
def a_small_server(wal_megabytes: int = 16) -> Iterator[tuple[Postgres, SmallDisk]]:
    """A server whose data are on a disk of their own, in a folder that its user can reach."""
    with TemporaryDirectory(prefix="gandy-disk-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with small_disk(folder / "data", MEGABYTES) as disk:
            if disk.prefix:
                pytest.skip("only root can mount a small disk for PostgreSQL")
            server = Postgres.start(data=disk.path, wal_megabytes=wal_megabytes, fsync=False)
            try:
                yield server, disk
            finally:
                disk.empty()
                server.stop()
