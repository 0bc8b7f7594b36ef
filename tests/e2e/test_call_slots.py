"""Jobs and calls share the slots of a worker: neither kind keeps the other out, and no slot is lost."""

import asyncio
from pathlib import Path

import pytest
from tests.e2e.kitchens import SOON, a_kitchen, read_lines
from tests.waiting import until, until_async

import gandy
from gandy.client import Job
from gandy.errors import CallTimeout

MANY = 100_000  # tasks; more than end while a test looks


def wait_for(path: Path) -> str:
    """A task that ends when the file is there."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


def count_finished(job: Job) -> int:
    return job.status().counts.finished


def test_reserved_slots_answer_though_the_crew_is_full_of_jobs(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, 3, "--reserve", "1") as kitchen, gandy.Client(kitchen.address) as client:
        path = tmp_path / "go"
        job = client.submit(wait_for(path), tasks=10)
        until(lambda: job.status().counts.running >= 2)
        for number in range(20):
            assert client.call("ping") == "pong"
            assert client.call("add", number, 1) == number + 1
        assert count_finished(job) == 0  # no task had to end for it
        path.touch()
        assert job.wait(SOON).state is gandy.JobState.FINISHED


def test_jobs_never_take_reserved_slots(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, 2, "--reserve", "1") as kitchen, gandy.Client(kitchen.address) as client:
        path, pids = tmp_path / "go", tmp_path / "pids"
        job = client.submit(f"echo $$ >> {pids}; {wait_for(path)}", tasks=5)
        until(lambda: len(read_lines(pids)) == 1)
        for _ in range(50):
            client.call("add", 1, 2)
        assert len(read_lines(pids)) == 1
        path.touch()
        assert job.wait(SOON).state is gandy.JobState.FINISHED


@pytest.mark.parametrize("slots", [1, 2])
def test_call_gets_a_turn_between_the_tasks_of_a_big_job(tmp_path: Path, slots: int) -> None:
    with a_kitchen(tmp_path, slots) as kitchen, gandy.Client(kitchen.address) as client:
        job = client.submit("true", tasks=MANY)
        for number in range(3):
            before = count_finished(job)
            until(lambda before=before: count_finished(job) > before)  # type: ignore[misc]
            assert client.call("add", number, 1, timeout=SOON) == number + 1
        before = count_finished(job)
        until(lambda: count_finished(job) > before)
        assert job.status().counts.waiting > 0
        job.cancel()


def test_job_goes_on_though_calls_never_stop(tmp_path: Path) -> None:
    """Both make progress as long as both want slots."""
    with a_kitchen(tmp_path, slots=2) as kitchen:

        async def go(client: gandy.AsyncClient) -> None:
            ended = 0

            async def call_for_ever() -> None:
                nonlocal ended
                while True:
                    await client.call("add", 1, 2)
                    ended += 1

            callers = [asyncio.create_task(call_for_ever()) for _ in range(20)]
            job = await client.submit("true", tasks=100)
            await job.wait(SOON)
            before = ended
            await until_async(lambda: ended > before)
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)

        kitchen.talk(go)


def test_worker_full_of_calls_runs_a_task_in_the_end(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=2) as kitchen:
        book, path = tmp_path / "book", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            held = [client.call("hold", str(book), str(path)) for _ in range(2)]
            await until_async(lambda: len(read_lines(book)) == 2)
            job = await client.submit("true")
            waiting = [client.call("add", number, 1) for number in range(10)]
            path.touch()
            assert (await job.wait(SOON)).state is gandy.JobState.FINISHED
            await asyncio.gather(*held)
            assert await asyncio.gather(*waiting) == list(range(1, 11))

        kitchen.talk(go)


def test_slot_that_a_job_has_left_is_free_for_calls(tmp_path: Path) -> None:
    """Also where a call had looked for one in vain, and given up."""
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        path = tmp_path / "go"
        job = client.submit(wait_for(path))
        until(lambda: job.status().counts.running == 1)
        with pytest.raises(CallTimeout):
            client.call("add", 1, 2, timeout=0.3)
        path.touch()
        job.wait(SOON)
        assert client.call("add", 1, 2, timeout=SOON) == 3


def test_call_that_waits_for_a_job_gets_its_slot(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        path = tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            job = await client.submit(wait_for(path))
            while not (await job.status()).counts.running:
                await asyncio.sleep(0.01)
            call = client.call("add", 1, 2)
            await client.workers()
            assert not call.done()
            path.touch()
            assert await call == 3
            assert (await job.wait(SOON)).state is gandy.JobState.FINISHED

        kitchen.talk(go)


def test_call_may_take_several_slots(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=2) as kitchen:
        first, second, path = tmp_path / "first", tmp_path / "second", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            wide = client.call("hold_two_slots", str(first), str(path))
            await until_async(lambda: read_lines(first) == ["began"])
            narrow = client.call("hold", str(second), str(path))
            await client.workers()
            assert read_lines(second) == []
            path.touch()
            assert (await wide, await narrow) == (b"xxxx", b"xxxx")
            assert read_lines(first) == ["began", "ended"]

        kitchen.talk(go)


def test_isolated_calls_and_python_functions_of_jobs_share_the_slots(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=2) as kitchen, gandy.Client(kitchen.address) as client:
        values = client.map(abs, range(-40, 0))
        squares = [client.call("square", number)[0] for number in range(10)]
        assert list(values) == list(range(40, 0, -1))
        assert squares == [number * number for number in range(10)]
