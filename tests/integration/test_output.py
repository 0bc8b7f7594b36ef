"""Output through a real foreman and worker: whole and its own, or said to be missing, never another task's."""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.integration.local_crews import a_foreman, a_worker, read, run
from tests.integration.plain_peers import PlainWorker, a_place

from gandy import AsyncClient, AsyncJob
from gandy.core.model import JobState
from gandy.errors import GandyError
from gandy.foreman.main import socket_address
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker import trim as trimming
from gandy.worker.service import WorkerService

LARGE = 2_000_000  # bytes of a result that stays on its worker


async def finish(client: AsyncClient, command: str, **more: Any) -> AsyncJob:
    job = await client.submit(command, **more)
    assert (await job.wait()).state is JobState.FINISHED
    return job


def test_numbers_that_are_given_again_do_not_show_the_output_of_the_former_job(tmp_path: Path) -> None:
    async def test() -> None:
        for life, command in enumerate(("echo old; echo old >&2", "true")):
            async with a_foreman(tmp_path) as client, a_worker(tmp_path, life):
                job = await finish(client, command)
                assert job.id == 1
                assert await read(job) == (b"old\n" if life == 0 else b"")
                assert await read(job, stream="err") == (b"old\n" if life == 0 else b"")

    run(test())


def test_restored_backup_does_not_show_the_output_of_jobs_that_came_after_it(tmp_path: Path) -> None:
    store, backup = tmp_path / "jobs.sqlite", tmp_path / "backup.sqlite"

    async def test() -> None:
        async with a_foreman(tmp_path, f"sqlite:{store}") as client, a_worker(tmp_path):
            await finish(client, "echo before")
        shutil.copy(store, backup)
        async with a_foreman(tmp_path, f"sqlite:{store}") as client, a_worker(tmp_path, 2):
            await finish(client, "echo lost")
        for path in tmp_path.glob("jobs.sqlite*"):
            path.unlink()
        shutil.copy(backup, store)
        async with a_foreman(tmp_path, f"sqlite:{store}") as client, a_worker(tmp_path, 3):
            job = await finish(client, "true")
            assert job.id == 2
            assert await read(job) == b""
            assert await read(client.job(1)) == b"before\n"

    run(test())


@pytest.mark.parametrize("stream", ["out", "err"])
def test_output_that_was_trimmed_is_said_to_be_gone(tmp_path: Path, stream: str) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await finish(client, f"echo much >&{1 if stream == 'out' else 2}")
            silent = await finish(client, "true")
            trimming.trim(tmp_path / "out", 0)
            with pytest.raises(GandyError, match="task 1 wrote is no longer kept: its worker hut removed it"):
                await read(job, stream=stream)
            assert await read(silent, stream=stream) == b""

    run(test())


def test_output_that_was_cut_short_is_read_and_then_said_to_be_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await finish(client, "echo much")
            (kept,) = (tmp_path / "out").rglob("1.1.out")
            kept.write_bytes(b"mu")
            pieces = aiter(job.output(1))
            assert await anext(pieces) == b"mu"
            with pytest.raises(GandyError, match="only 2 of 5 bytes"):
                await anext(pieces)

    run(test())


def test_output_that_its_task_removed_is_said_to_be_missing(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await finish(client, f"echo x; echo y >&2; rm -f {tmp_path}/out/open/*.out")
            with pytest.raises(GandyError, match="task 1: its standard output is missing: the file was removed"):
                await read(job)
            assert await read(job, stream="err") == b"y\n"
            assert "missing" in " ".join(await job.explain(1))

    run(test())


def test_output_that_was_lost_with_its_worker_is_said_to_be_gone(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client:
            about = About("hut-1", "hut", 1)
            worker = WorkerService(Reach((socket_address(str(tmp_path)),)), about, tmp_path / "out")
            working = asyncio.create_task(worker.run())
            job = await client.submit("echo said; exec sleep 600", tags=())
            while await read(job) != b"said\n":
                await asyncio.sleep(0.01)
            await job.hold()
            working.cancel()  # without a word to the foreman, as by kill -9
            await asyncio.gather(working, return_exceptions=True)
            while (await job.attempts())[0].ending is None:
                await asyncio.sleep(0.01)
            async with a_worker(tmp_path, 2):
                while not (await client.status()).workers:
                    await asyncio.sleep(0.01)
                with pytest.raises(GandyError, match="was lost with its worker"):
                    await read(job)

    run(test())


def test_part_of_an_error_output_is_not_taken_for_the_whole_where_its_worker_is_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client:
            async with a_worker(tmp_path):
                long = await finish(client, "head -c 5000 /dev/zero >&2")
                short = await finish(client, "echo short >&2")
            while (await client.status()).workers:
                await asyncio.sleep(0.01)
            assert await read(short, stream="err") == b"short\n"
            with pytest.raises(GandyError, match="is on worker hut, which is not connected"):
                await read(long, stream="err")

    run(test())


def test_output_of_a_plain_worker_is_said_to_be_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_place(tmp_path) as place:
            worker = await place.connect(PlainWorker)
            await worker.greet()
            job = await place.client.submit("echo hello")
            await worker.end(await worker.take())
            assert (await job.wait()).state is JobState.FINISHED
            for stream in ("out", "err"):
                with pytest.raises(GandyError, match="which cannot send it"):
                    await read(job, stream=stream)

    run(test())


def test_removed_output_folder_is_made_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            await finish(client, "true")
            shutil.rmtree(tmp_path / "out")
            assert await read(await finish(client, "echo on")) == b"on\n"
            await client.run(print, "first")
            shutil.rmtree(tmp_path / "out")
            await client.run(print, "second")

    run(test())


def test_only_the_owner_may_look_at_output_and_results(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await finish(client, "echo said; umask; echo; mkdir made; stat -c %a made", cwd=str(tmp_path))
            assert len(await client.run(bytes, LARGE)) == LARGE
            before = os.umask(0)
            os.umask(before)
            assert await read(job) == b"said\n%04o\n\n%o\n" % (before, 0o777 & ~before)

    run(test())
    kept = list((tmp_path / "out").rglob("*"))
    assert any(path.name.endswith(".result") for path in kept)
    assert {oct(path.stat().st_mode & 0o777) for path in kept if path.is_file()} == {oct(0o600)}
    assert {oct(path.stat().st_mode & 0o777) for path in [*kept, tmp_path / "out"] if path.is_dir()} == {oct(0o700)}


def weigh_outputs(folder: Path) -> int:
    """Files and folders may go away meanwhile."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(where) / name).stat().st_size if name.endswith(".out") else 0
    return size


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("can't start new thread")])
def test_output_is_trimmed_also_after_that_was_not_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failures = 0

    real_trim = trimming.trim

    def trim_later(folder: Path, max_bytes: int) -> int:
        nonlocal failures
        if failures < 3:
            failures += 1
            raise error
        return real_trim(folder, max_bytes)

    monkeypatch.setattr(trimming, "LOOK_PERIOD", 0.01)
    monkeypatch.setattr(trimming, "trim", trim_later)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path, max_output_bytes=10_000):
            await finish(client, "head -c 20000 /dev/zero")
            while weigh_outputs(tmp_path / "out"):
                await asyncio.sleep(0.01)
            assert failures == 3

    run(test())


def test_old_output_of_other_stores_is_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "LOOK_PERIOD", 0.01)

    async def test() -> None:
        for life in (1, 2):
            async with a_foreman(tmp_path) as client, a_worker(tmp_path, life, max_output_bytes=10_000):
                await finish(client, "head -c 9000 /dev/zero")
                while weigh_outputs(tmp_path / "out") > 9_000:
                    await asyncio.sleep(0.01)

    run(test())
