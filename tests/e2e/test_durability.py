"""What is acknowledged is on the disk: the system calls of a real foreman, in their order, as strace saw them.

Power cuts cannot be had in a test, but the kernel's promise about `fdatasync` can be relied on: so no word that
acknowledges anything may go to a socket between a write to the log of the store and the sync that follows it.
"""

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

import gandy
from gandy.core.requests import EVENT, REPLY, Results, decode_answer
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER, PLAIN, RECORDED

JOBS = 20
CALLS = 300

CALL = re.compile(r"^\d+ +(\w+)\(\d+<([^>]*)>")
BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
RESUMED = re.compile(r"^\d+ +<\.\.\. (\w+) resumed>")


def _can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _can_trace(), reason="strace is missing, or may not trace")


class Step(NamedTuple):
    """A system call that ended, or began and may not have ended: what it did, to which file, with which bytes."""

    name: str
    file: str
    data: bytes


def read_steps(trace: Path) -> Iterator[Step]:
    """In the order of their ends for syncs, and of their beginnings for writes: to our disadvantage, that is."""
    unfinished: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        thread = line.split()[0]
        if RESUMED.match(line):
            line = unfinished.pop(thread, "")
        elif line.endswith("<unfinished ...>") and "sync(" in line:
            unfinished[thread] = line
            continue
        if found := CALL.match(line):
            name, file = found.groups()
            data = b"".join(map(_open_hex, BYTES.findall(line)))
            written = re.search(r" = (\d+)$", line)
            yield Step(name, _open_hex(file).decode(), data[: int(written[1])] if written else data)


def _open_hex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if "\\x" in text else text.encode()


class Stream:
    """What was written to one socket, cut into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The kinds and payloads of all frames that end with this."""
        self._rest += data
        while len(self._rest) >= HEADER.size:
            magic, kind, _subtype, _seq, _padding, size = HEADER.unpack_from(self._rest)
            assert magic == MAGIC
            end = HEADER.size + (0 if kind in PLAIN else size)
            if len(self._rest) < end:
                return
            yield kind, self._rest[HEADER.size : end]
            self._rest = self._rest[end:]


def tells_ends(payload: bytes) -> bool:
    """Whether an event tells more than what has begun, which is on the disk for a while when that is told."""
    answer = decode_answer(payload)
    return isinstance(answer, Results) and bool(answer.rows or answer.is_last)


class Traced(Crew):
    """A crew whose foreman runs under strace."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.trace = home / "trace"
        calls = "trace=write,writev,sendto,sendmsg,pwrite64,fsync,fdatasync"
        command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", calls, "-o", str(self.trace)]
        program = [sys.executable, "-m", "gandy", "foreman", "run"]
        self.foreman = subprocess.Popen(
            [*command, *program], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until((home / "foreman.sock").exists)

    def stop(self) -> list[Step]:
        with gandy.Client(f"unix:{self.home}/foreman.sock") as client:
            client.stop_foreman()
        self.foreman.wait(PATIENCE)
        return list(read_steps(self.trace))


def test_nothing_is_acknowledged_before_it_is_on_the_disk(tmp_path: Path) -> None:
    crew = Traced(tmp_path)
    worker = None
    try:
        with gandy.Client(f"unix:{tmp_path}/foreman.sock") as client:
            for _ in range(JOBS):
                client.submit("true", held=True)
        with gandy.Client(f"unix:{tmp_path}/foreman.sock") as client:
            worker = crew.start("worker", "run", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until(lambda: bool(client.workers()))
            assert [call.result(PATIENCE) for call in [client.run(abs, -n) for n in range(CALLS)]] == list(range(CALLS))
    finally:
        if worker is not None:
            worker.terminate()
            worker.wait(PATIENCE)
        steps = crew.stop()
    seen = dict.fromkeys((REPLY, RECORDED, EVENT), 0)
    streams: defaultdict[str, Stream] = defaultdict(Stream)
    syncs = 0
    is_dirty = False
    for step in steps:
        if step.file.endswith("-wal"):
            syncs += "sync" in step.name
            is_dirty = "sync" not in step.name
        elif step.file.startswith(("UNIX", "socket")):
            for kind, payload in streams[step.file].take(step.data):
                # The first client only submitted. Others also ask, and are answered at any time.
                is_submitted = kind == REPLY and step.file == next(iter(streams))
                if kind == RECORDED or is_submitted or (kind == EVENT and tells_ends(payload)):
                    seen[kind] += 1
                    assert not is_dirty, f"{kind:#x} was said while the log was not on the disk"
    assert syncs >= JOBS
    assert seen[REPLY] == JOBS
    assert seen[RECORDED] > 0
    assert seen[EVENT] > 0
