"""Real crews on disks that fill up: who asks hears of it at once, nothing is taken later, and nothing is half there."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.disks import MEGABYTE, SmallDisk, small_disk
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.waiting import until

import gandy
from gandy.errors import StoreError


@contextmanager
def a_foreman(crew: Crew, disk: SmallDisk, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A foreman that sees the disk, until it is interrupted."""
    log = crew.home / "foreman.log"
    with log.open("ab") as written:
        command = [*disk.prefix, GANDY, "foreman", "run", *words]
        process = subprocess.Popen(command, env=crew.environment, stdout=subprocess.DEVNULL, stderr=written)
    try:
        until(lambda: b"listens at" in log.read_bytes())
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert b"Traceback" not in log.read_bytes()


# Large arguments


def test_large_arguments_that_do_not_fit_fail_alone_and_leave_no_file(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "home")
    crew.home.mkdir(mode=0o700)
    with small_disk(crew.home / "arguments", 12) as disk, a_foreman(crew, disk), crew.running("worker", "run"):
        with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
            before = client.run(len, bytes(1_000_000))
            large = client.run(len, bytes(30_000_000))
            after = [client.run(len, bytes(size)) for size in (10, 2_000_000)]
            assert before.result(PATIENCE) == 1_000_000
            with pytest.raises(StoreError, match="no place for arguments"):
                large.result(PATIENCE)
            assert [call.result(PATIENCE) for call in after] == [10, 2_000_000]
        kept = [path.stat().st_size // MEGABYTE for path in disk.seen.iterdir()]
        assert sorted(kept) == [1, 2]


def test_a_large_function_that_does_not_fit_fails_all_its_calls(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "home")
    crew.home.mkdir(mode=0o700)
    data = bytes(20_000_000)

    def measure(item: int) -> int:
        return item + len(data)

    with small_disk(crew.home / "arguments", 12) as disk, a_foreman(crew, disk), crew.running("worker", "run"):
        with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
            with pytest.raises(StoreError, match="no place for arguments"):
                list(client.map(measure, range(3), timeout=PATIENCE))
            assert client.run(len, b"abc").result(PATIENCE) == 3
        assert list(disk.seen.iterdir()) == []


# The store


def test_a_submit_on_a_full_disk_fails_at_once_and_people_can_clear_up(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "home")
    crew.home.mkdir(mode=0o700)
    with small_disk(tmp_path / "disk", 24) as disk:
        store = f"sqlite:{disk.path}/jobs.sqlite"
        with a_foreman(crew, disk, "--store", store), crew.running("worker", "run", "--slots", "1"):
            long = crew.submit("sleep 600")
            array = crew.submit("--tasks", "1000", "echo later")
            disk.fill()
            kept = submit_until_refused(crew)
            refused = crew.run("submit", "touch", str(tmp_path / "ran"), code=1)
            assert b"the disk is full: make room" in refused.stderr
            assert b"the disk is full" in crew.run("status").stdout
            for job in (long, array):
                crew.run("job", "cancel", job)
            crew.run("job", "forget", array)
            assert list_jobs(crew) == [int(long), *kept]
            disk.empty()
            until(lambda: not crew.show("status")[0]["trouble"])
            later = crew.submit("--wait", "echo done")
            assert int(later) > kept[-1] + 1, "a number that was refused is not given again"
            assert list_jobs(crew) == [int(long), *kept, int(later)]
    assert not (tmp_path / "ran").exists()


def submit_until_refused(crew: Crew) -> list[int]:
    """Jobs that were acknowledged. Each takes a lot of room."""
    kept: list[int] = []
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
        while True:
            try:
                kept.append(client.submit(f"true {os.urandom(100_000).hex()}", held=True).id)
            except StoreError:
                return kept


def list_jobs(crew: Crew) -> list[int]:
    return sorted(row["job"] for row in crew.show("job", "list", "--all"))


def test_a_clean_stop_on_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    crew = Crew(tmp_path / "home")
    crew.home.mkdir(mode=0o700)
    with small_disk(tmp_path / "disk", 24) as disk:
        store = f"sqlite:{disk.path}/jobs.sqlite"
        with a_foreman(crew, disk, "--store", store), crew.running("worker", "run"):
            job = crew.submit("--wait", "--tasks", "20", "true")
            gate = tmp_path / "gate"
            os.mkfifo(gate)
            running = crew.submit(f"cat {gate}")
            until(lambda: crew.show("job", "show", running)[0]["running"] == 1)
            disk.fill()
            gate.write_text("go")
            crew.run("job", "wait", running)
        disk.empty()
        (crew.home / "foreman.log").unlink()
        with a_foreman(crew, disk, "--store", store):
            shown = [crew.show("job", "show", each)[0] for each in (job, running)]
            assert [(row["state"], row["finished"]) for row in shown] == [("finished", 20), ("finished", 1)]
        assert b"commits are gone" not in (crew.home / "foreman.log").read_bytes()


def test_a_store_that_is_removed_under_its_foreman_takes_no_more_work(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        first = crew.submit("true")
        kept = tmp_path / "kept"
        (tmp_path / "jobs.sqlite").rename(kept)
        for _ in range(2):
            refused = crew.run("submit", "true", code=1)
            assert b"it was removed or replaced" in refused.stderr
        kept.rename(tmp_path / "jobs.sqlite")
        until(lambda: not crew.show("status")[0]["trouble"])
        assert int(crew.submit("true")) > int(first)
        linked = crew.run("foreman", "run", "--store", f"sqlite:{link(tmp_path)}", code=1)
        assert b"another foreman uses it" in linked.stderr


def link(home: Path) -> Path:
    """The same file under another name."""
    folder = home / "elsewhere"
    folder.mkdir()
    (folder / "jobs.sqlite").hardlink_to(home / "jobs.sqlite")
    return folder / "jobs.sqlite"
