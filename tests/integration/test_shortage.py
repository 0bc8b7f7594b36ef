"""A worker that is short of something, with a real foreman: it says so, takes less, and no task fails for it."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.integration.local_crews import a_foreman, a_worker, read, run

from gandy import AsyncClient, AsyncJob
from gandy.core.model import Cause, JobState
from gandy.errors import GandyError
from gandy.worker import output, slot_limit, spawn, throttle
from gandy.worker.posix_spawn import spawn as real_spawn

LARGE = 2_000_000  # bytes of a result that stays on its worker


class Fault:
    """Lets a call fail while it is on, and counts."""

    def __init__(self, code: int, real: Any) -> None:
        self.code = code
        self.real = real
        self.is_on = True
        self.count = 0

    def __call__(self, *args: Any) -> Any:
        if not self.is_on:
            return self.real(*args)
        self.count += 1
        raise OSError(self.code, os.strerror(self.code))


async def until_short(client: AsyncClient, is_short: bool = True) -> str:
    """What the foreman says of its only worker."""
    while True:
        rows = await client.workers()
        if rows and bool(rows[0].problem) is is_short:
            return rows[0].problem
        await asyncio.sleep(0.01)


async def list_causes(job: AsyncJob, tasks: int) -> list[Cause]:
    attempts = [row for task in range(1, tasks + 1) for row in await job.attempts(task)]
    return [row.ending.cause for row in attempts if row.ending is not None]


def test_tasks_outlast_a_shortage_of_processes_without_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(errno.EAGAIN, real_spawn)
    monkeypatch.setattr(spawn, "spawn", fault)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await client.submit("echo {task}", tasks=30)
            assert "processes" in await until_short(client)
            assert "Worker hut is short of processes" in " ".join(await job.explain())
            tried = fault.count
            while fault.count < tried + 2:  # it tries again by itself
                await asyncio.sleep(0.01)
            fault.is_on = False
            assert (await job.wait()).state is JobState.FINISHED
            causes = await list_causes(job, 30)
            assert set(causes) == {Cause.EXIT, Cause.RETURNED}
            assert causes.count(Cause.EXIT) == 30
            # Few are given to a worker that says that it is short: there is no going back and forth.
            assert causes.count(Cause.RETURNED) <= fault.count + 30
            assert [await read(job, task) for task in range(1, 31)] == [b"%d\n" % task for task in range(1, 31)]
            assert await until_short(client, is_short=False) == ""

    run(test())


def test_attempts_that_were_given_back_count_neither_as_failures_nor_as_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_limit, "LAST_PAUSE", slot_limit.FIRST_PAUSE)
    fault = Fault(errno.EMFILE, real_spawn)
    monkeypatch.setattr(spawn, "spawn", fault)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            job = await client.submit("true")
            while fault.count < 7:  # more than crashes are forgiven
                await asyncio.sleep(0.01)
            fault.is_on = False
            assert (await job.wait()).state is JobState.FINISHED
            (row,) = [row async for row in job.tasks()]
            assert (row.failures, row.crashes) == (0, 0)
            assert "given back before it began (open files" in " ".join(await job.explain(1))

    run(test())


def test_running_tasks_go_on_while_others_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(errno.ENOMEM, real_spawn)
    fault.is_on = False
    monkeypatch.setattr(spawn, "spawn", fault)
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            long = await client.submit(f"echo began; cat {gate}")
            while await read(long) != b"began\n":
                await asyncio.sleep(0.01)
            fault.is_on = True
            others = await client.submit("true", tasks=5)
            assert "memory" in await until_short(client)
            assert (await client.workers())[0].used == 1
            await asyncio.to_thread(gate.write_text, "went on\n")
            assert (await long.wait()).state is JobState.FINISHED
            assert await read(long) == b"began\nwent on\n"
            fault.is_on = False
            assert (await others.wait()).state is JobState.FINISHED

    run(test())


def test_nothing_is_started_while_the_disk_is_nearly_full_and_cancel_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "DISK_PERIOD", 0.02)
    monkeypatch.setattr("gandy.worker.task_service.DISK_PERIOD", 0.02)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            runaway = await client.submit("echo began; exec sleep 600")
            while await read(runaway) != b"began\n":
                await asyncio.sleep(0.01)
            with monkeypatch.context() as patch:
                patch.setattr(slot_limit, "RESERVED_BYTES", 1 << 62)
                patch.setattr(slot_limit, "RESERVED_SHARE", 2.0)  # more than any disk has
                assert "room on the disk" in await until_short(client)
                job = await client.submit("true")
                assert "room on the disk" in " ".join(await job.explain())
                await runaway.cancel()
                assert (await runaway.wait()).state is JobState.CANCELLED
                while (await client.status()).used:
                    await asyncio.sleep(0.01)
                assert (await job.status()).state is JobState.WAITING
            assert await until_short(client, is_short=False) == ""
            assert (await job.wait()).state is JobState.FINISHED

    run(test())


def test_worker_tells_a_new_foreman_that_it_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_limit, "FIRST_PAUSE", 30.0)
    fault = Fault(errno.EAGAIN, real_spawn)
    monkeypatch.setattr(spawn, "spawn", fault)

    async def test() -> None:
        async with a_worker(tmp_path):
            async with a_foreman(tmp_path) as client:
                await client.submit("true")
                await until_short(client)
            async with a_foreman(tmp_path) as client:
                assert "processes" in await until_short(client)

    run(test())


def test_large_result_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.worker.task_service.DISK_PERIOD", 0.02)
    fault = Fault(errno.ENOSPC, output._write)
    monkeypatch.setattr(output, "_write", fault)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path):
            call = client.run(bytes, LARGE)
            assert "room on the disk" in await until_short(client)
            fault.is_on = False
            assert len(await call) == LARGE

    run(test())


@pytest.mark.parametrize("end", ["cancel", "stop"])
def test_large_result_that_waits_for_room_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    fault = Fault(errno.ENOSPC, output._write)
    monkeypatch.setattr(output, "_write", fault)

    async def test() -> None:
        async with a_foreman(tmp_path) as client:
            async with a_worker(tmp_path):
                call = client.run(bytes, LARGE)
                await until_short(client)
                (row,) = [row async for row in client.jobs()]
                if end == "cancel":
                    await client.job(row.job).cancel()
                    while (await client.status()).used:
                        await asyncio.sleep(0.01)
            if end == "stop":
                with pytest.raises(OSError, match="could not be kept"):
                    await call
            (row,) = [row async for row in client.jobs()]
            assert row.counts.running == row.counts.assigned == 0

    run(test())


def test_isolated_call_that_cannot_be_started_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gandy.worker.commands import Commands

    commands = Commands()
    commands.command(isolate=True, name="size")(len)
    fault = Fault(errno.EAGAIN, real_spawn)
    monkeypatch.setattr(spawn, "spawn", fault)

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path, commands=commands):
            await finish_when_offered(client)

    async def finish_when_offered(client: AsyncClient) -> None:
        while not any("size" in row.commands for row in await client.workers()):
            await asyncio.sleep(0.01)
        with pytest.raises(GandyError, match="short of processes"):
            await client.call("size", "abc")
        fault.is_on = False
        assert await client.call("size", "abc") == 3

    run(test())
