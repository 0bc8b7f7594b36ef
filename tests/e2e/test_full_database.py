"""A disk that is really full under PostgreSQL, while a crew with many foremen works over it."""

import os
import re
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.disks import SmallDisk
from tests.e2e.crew import Crew
from tests.e2e.foremen import Book, a_crew_over, check_each_ran_once
from tests.postgres_disk import a_small_server
from tests.waiting import until

from gandy import Client
from gandy.core.model import JobState
from gandy.errors import StoreFull

AT_ONCE = 10.0  # seconds, on a busy machine; a client that waits for the database to come back waits for 15
SEGMENT = 1 << 20  # bytes of one file of the server's log, where a test says so
LARGE_JOB = 100_000  # bytes


class Gate:
    """A task that waits at it runs until it is opened, and then writes a line."""

    def __init__(self, folder: Path) -> None:
        self._pipe = folder / "gate"
        self._passed = folder / "passed"
        os.mkfifo(self._pipe)
        self.command = f"cat {self._pipe} && echo passed >> {self._passed}"

    def open(self) -> None:
        """Returns when the task is about to end."""
        self._pipe.write_text("go")
        until(self._passed.exists)

    def count_passes(self) -> int:
        return len(self._passed.read_text().splitlines())


def submit_large(client: Client) -> int:
    return client.submit(f"true {os.urandom(LARGE_JOB // 2).hex()}", held=True).id


def submit_until_refused(client: Client) -> list[int]:
    """Jobs that were acknowledged. The user hears at once that there is no room for the next one."""
    kept: list[int] = []

    def submit_many() -> None:
        while True:
            kept.append(submit_large(client))

    began = time.monotonic()
    with pytest.raises(StoreFull, match="its disk is full: make room"):
        submit_many()
    assert time.monotonic() - began < AT_ONCE
    return kept


def submit_in_vain(crew: Crew, mark: Path) -> None:
    began = time.monotonic()
    refused = crew.run("submit", "touch", str(mark), code=1)
    assert time.monotonic() - began < AT_ONCE
    assert b"its disk is full: make room" in refused.stderr


def cancel_now_or_later(client: Client, job: int) -> None:
    """If a result waits for room, nothing else can be recorded, and the user is told so at once."""
    began, problem = time.monotonic(), "nothing can be changed now"
    try:
        client.job(job).cancel()
    except StoreFull as error:
        problem = str(error)
    assert re.match("nothing can be changed now|it is done when the store works again", problem)
    assert time.monotonic() - began < AT_ONCE


def list_jobs(client: Client) -> Counter[int]:
    return Counter(row.job for row in client.jobs())


def test_a_full_disk_is_named_at_once_and_the_crew_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with (
        a_small_server() as (server, disk),
        a_crew_over(server, tmp_path, foremen=2, workers=1) as crew,
        crew.client() as client,
    ):
        gate = Gate(tmp_path)
        running = client.submit(gate.command)
        array = client.submit("echo later", tasks=1_000, held=True)
        until(lambda: running.status().counts.running == 1)
        disk.fill()
        kept = submit_until_refused(client)
        submit_in_vain(crew.crew, tmp_path / "ran")
        assert "its disk is full" in client.status().trouble
        assert "its disk is full" in " ".join(array.explain())
        gate.open()
        assert list_jobs(client) == Counter([running.id, array.id, *kept])
        cancel_now_or_later(client, array.id)
        disk.empty()
        until(lambda: not client.status().trouble)
        assert running.wait().state is JobState.FINISHED
        if array.status().state is not JobState.CANCELLED:
            array.cancel()
        assert client.submit("true").wait().state is JobState.FINISHED
        assert len(list_jobs(client)) == len(kept) + 3
    assert not (tmp_path / "ran").exists()
    assert gate.count_passes() == 1


# A server that crashes for want of room


def use_up_log(db: "psycopg.Connection[Any]", disk: SmallDisk) -> None:
    """Leave less room in the files of the log than a large job needs. The next file will not fit on the disk."""
    (position,) = db.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (0,)
    last = max(path.name for path in (disk.seen / "pg_wal").iterdir() if re.fullmatch("[0-9A-F]{24}", path.name))
    end = (int(last[8:16], 16) << 32) + (int(last[16:], 16) + 1) * SEGMENT
    db.execute("SELECT pg_logical_emit_message(false, '', repeat('x', %s))", [end - position - LARGE_JOB // 2])


def test_a_crew_survives_that_its_server_crashes_for_want_of_room_and_restarts(tmp_path: Path) -> None:
    with (
        a_small_server(wal_megabytes=SEGMENT >> 20) as (server, disk),
        a_crew_over(server, tmp_path, foremen=2, workers=1) as crew,
        crew.client() as client,
        ThreadPoolExecutor(1) as threads,
    ):
        book, gate = Book(tmp_path / "book"), Gate(tmp_path)
        running = client.submit(gate.command)
        short = client.submit(book.command(0.02), tasks=100)
        until(lambda: len(list(book.read("ends"))) > 3)
        with server.connect() as db:
            os.kill(server.pid, signal.SIGSTOP)  # it must not restart before there is room: it would give up
            disk.fill(leave=SEGMENT * 3 // 4)
            use_up_log(db, disk)
        large = threads.submit(submit_large, client)
        until(lambda: "PANIC" in server.read_log())
        gate.open()
        disk.empty()
        os.kill(server.pid, signal.SIGCONT)
        assert large.result() == max(list_jobs(client))
        for job in (running, short):
            assert job.wait().state is JobState.FINISHED
        assert len(list_jobs(client)) == 3
        until(lambda: not client.status().trouble)  # it looks once a second
    check_each_ran_once(book, 100)
    assert gate.count_passes() == 1
