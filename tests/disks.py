"""Small file systems that can be filled: as root they are mounted, otherwise in a mount namespace of their own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MEGABYTE = 1_000_000


class SmallDisk:
    """A disk of a few megabytes. Programs that should see it are started with `prefix`."""

    def __init__(self, path: Path, seen: Path, prefix: tuple[str, ...]) -> None:
        self.path = path  # as these programs see it
        self.seen = seen  # as the test sees it
        self.prefix = prefix
        self._ballast = seen / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Leave this many bytes free."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                count = min(MEGABYTE, self.count_free_bytes() - leave)
                if count <= 0 or not file.write(bytes(count)):
                    return

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def count_free_bytes(self) -> int:
        state = os.statvfs(self.seen)
        return state.f_bavail * state.f_frsize


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Skips the test if no such disk can be made."""
    path.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(path)]
    if os.geteuid() == 0:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
        try:
            yield SmallDisk(path, path, ())
        finally:
            subprocess.run(["umount", "--lazy", path], check=True)
        return
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("no small disk can be mounted: this is not root, and unshare or nsenter is missing")
    script = '"$@" && echo mounted && exec sleep infinity'
    command = ["unshare", "-r", "-m", "sh", "-c", script, "sh", *mount]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline() != "mounted\n":
                pytest.skip("no small disk can be mounted: this is not root, and may make no namespaces")
            prefix = ("nsenter", "--preserve-credentials", "-U", "-m", "-t", str(holder.pid))
            yield SmallDisk(path, Path(f"/proc/{holder.pid}/root{path}"), prefix)
        finally:
            holder.kill()
