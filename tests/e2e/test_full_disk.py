"""A task that fills the disk of its worker's output, on a small file system in a mount namespace of the worker."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE
from tests.e2e.kitchens import Kitchen, a_kitchen
from tests.waiting import until

import gandy
from gandy.core.model import JobState

WAYS = (("unshare", "--mount"), ("unshare", "--map-root-user", "--mount"))  # for root; for others, where they may
SIZE = 16_000_000  # bytes of the file system


def find_way() -> tuple[str, ...]:
    """How to start a program that may mount. Skips the test where there is none."""
    for way in WAYS:
        if shutil.which("unshare"):
            line = "mount -t tmpfs -o size=1m tmpfs /tmp"
            if subprocess.run([*way, "sh", "-c", line], capture_output=True, timeout=PATIENCE).returncode == 0:
                return way
    pytest.skip("nothing can be mounted here: neither as root nor in a user namespace")


@contextmanager
def a_worker(kitchen: Kitchen) -> Iterator[Path]:
    """Whose output has a small file system of its own. Gives the folder, as others can reach it."""
    output = kitchen.home / "output"
    output.mkdir()
    line = f"mount -t tmpfs -o size={SIZE} tmpfs {output} && exec {GANDY} worker run --name small --slots 2"
    with subprocess.Popen([*find_way(), "sh", "-c", line], env=kitchen.environment) as process:
        try:
            yield Path(f"/proc/{process.pid}/root") / output.relative_to("/")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def test_task_that_fills_the_disk_can_be_cancelled_and_other_tasks_wait_for_room(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen, a_worker(kitchen) as output, gandy.Client(kitchen.address) as client:

        def find_problem() -> str:
            return "".join(row.problem for row in client.workers())

        runaway = client.submit("cat /dev/zero; exec sleep 600")  # until nothing more can be written
        until(lambda: "room on the disk" in find_problem())
        waiting = client.submit("echo done")
        assert "small is short of room on the disk" in kitchen.run("job", "explain", str(waiting.id)).stdout.decode()
        kitchen.run("job", "cancel", str(runaway.id))
        until(lambda: client.status().used == 0)
        assert waiting.status().state is JobState.WAITING
        written = sum(len(piece) for piece in runaway.output())
        assert written > SIZE / 2, "what was written is kept"
        for kept in (output / "small").glob(f"{runaway.id}-*/0/*"):
            kept.unlink()  # the user makes room
        assert waiting.wait().state is JobState.FINISHED
        assert b"".join(waiting.output()) == b"done\n"
        assert find_problem() == ""
