"""gandy beside peers that know the protocol documents and nothing of gandy, on real sockets."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.plain_peers import (
    AT_ONCE,
    CANCEL,
    ERROR,
    NO_PROCS,
    OK,
    STOP,
    UPDATE,
    PlainWorker,
    V1Worker,
    a_place,
    a_yard,
    finish,
    make_result,
    numbers,
)

from gandy.core.model import JobState, TaskState


def test_plain_worker_that_makes_no_sense_behind_a_result_is_cut_and_no_other(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path, grace=0.1) as place:
            job = await place.client.submit("true", tasks=2)
            worker = await place.connect(PlainWorker)
            await worker.greet()
            tasks = [await worker.take(), await worker.take()]
            await worker.end_and_rave(tasks[0])
            other = await place.connect(PlainWorker)
            await other.greet()
            task = await other.take()
            assert task["Task"] == tasks[1]["Task"]  # the first result counts
            await other.end(task)
            assert await finish(job) is JobState.FINISHED

    asyncio.run(go())


@pytest.mark.parametrize("waits", [False, True], ids=["worker speaks first", "foreman speaks first"])
def test_plain_worker_does_a_job(tmp_path: Path, waits: bool) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("./paint 'a b'", tasks=7, name="paint", cwd="/tmp")
            worker = await place.connect(PlainWorker)
            if waits:
                greeting = await worker.read()
                assert (greeting.type, greeting.padding, greeting.arg0) == (OK, 0, 0)
            await worker.greet()
            done = []
            tasks = [await worker.take(), await worker.take()]
            while tasks:
                task = tasks.pop(0)
                await worker.end(task)
                done.append(task)
                if len(done) + len(tasks) < 7:
                    tasks.append(await worker.take())
            assert await finish(job) is JobState.FINISHED
            assert sorted(task["Task"] for task in done) == list(range(1, 8))
            assert done[0]["JobDescription"] == {
                "JobId": job.id,
                "Name": "paint",
                "NumTasks": 7,
                "WorkingDir": "/tmp",
                "LoggingDir": "",
                "Command": "./paint 'a b'",
                "Status": 1,
            }
            await worker.close()

    asyncio.run(go())


def test_failure_on_a_plain_worker_is_a_failure(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit(("paint", "a b"))
            worker = await place.connect(PlainWorker)
            await worker.greet()
            task = await worker.take()
            assert task["JobDescription"]["Command"] == "paint 'a b'"
            await worker.end(task, success=False, status="error encountered: exit status 1")
            assert await finish(job) is JobState.FAILED
            assert "error encountered: exit status 1" in " ".join(await job.explain(1))
            await worker.close()

    asyncio.run(go())


def test_plain_worker_is_told_to_cancel_and_to_stop(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint", tasks=2)
            worker = await place.connect(PlainWorker)
            await worker.greet()
            first, second = await worker.take(), await worker.take()
            await job.cancel([1])
            cancel = await worker.next(CANCEL)
            assert cancel.data == [{"JobId": job.id, "Task": 1}]
            worker.say_ok(cancel, 1)
            await worker.end(first, success=False, status="error encountered: signal: killed")
            (row,) = await place.client.workers()
            await place.client.stop_worker(row.name)
            stop = await worker.next(STOP)
            assert stop.arg0 == 2  # never 0, which the original takes for 1
            worker.say_ok(stop, 0, 1)
            await worker.end(second)
            await worker.close()
            assert await finish(job) is JobState.CANCELLED
            assert [row.state async for row in job.tasks()] == [TaskState.CANCELLED, TaskState.FINISHED]

    asyncio.run(go())


def test_plain_worker_that_comes_back_keeps_its_task(tmp_path: Path) -> None:
    """It has no name, but its HELLO lists what it runs: only tasks that no worker runs are handed out again."""

    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint")
            worker = await place.connect(PlainWorker)
            await worker.greet()
            task = await worker.take()
            await worker.close()
            again = await place.connect(PlainWorker)
            again.running = [task]
            await again.greet()
            await again.end(task)
            assert await finish(job) is JobState.FINISHED
            assert [row.attempt for row in await job.attempts(1)] == [1]
            await again.close()

    asyncio.run(go())


def test_plain_worker_that_reports_to_a_new_foreman_before_its_hello_is_believed(tmp_path: Path) -> None:
    """Its UPDATE was due when the old foreman went; the new one asks for HELLO with its answer."""

    async def go() -> None:
        store = f"sqlite:{tmp_path}/jobs.sqlite"
        async with a_place(tmp_path, store=store) as place:
            number = (await place.client.submit("paint", tasks=2)).id
            worker = await place.connect(PlainWorker)
            await worker.greet()
            first, second = await worker.take(), await worker.take()
        async with a_place(tmp_path, store=store) as place:
            again = await place.connect(PlainWorker)
            answer = await again.ask(UPDATE, make_result(first))
            assert (answer.type, answer.pair) == (OK, (0xFFFF, 0xFFFF))
            again.running = [second]
            await again.greet()
            await again.end(second)
            job = place.client.job(number)
            assert await finish(job) is JobState.FINISHED
            assert [len(await job.attempts(task)) for task in (1, 2)] == [1, 1]

    asyncio.run(go())


def test_plain_worker_that_stays_away_loses_its_task(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path, grace=0.1) as place:
            job = await place.client.submit("paint")
            worker = await place.connect(PlainWorker)
            await worker.greet()
            await worker.take()
            await worker.close()
            other = await place.connect(PlainWorker)
            await other.greet()
            await other.end(await other.take())
            assert await finish(job) is JobState.FINISHED
            assert [row.attempt for row in await job.attempts(1)] == [1, 2]
            await other.close()

    asyncio.run(go())


class SinglePlainWorker(PlainWorker):
    slots = 1


def test_plain_worker_that_refuses_is_asked_again(tmp_path: Path) -> None:
    """It runs nothing, so it has no reason to speak again."""

    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint")
            worker = await place.connect(SinglePlainWorker)
            await worker.greet()
            for _ in range(3):
                await worker.refuse()
            await worker.end(await worker.take())
            assert await finish(job) is JobState.FINISHED

    asyncio.run(go())


def test_plain_worker_that_refuses_with_its_last_result_is_asked_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint", tasks=3)
            worker = await place.connect(PlainWorker)
            await worker.greet()
            first, second = await worker.take(), await worker.take()
            await worker.end(first)
            await worker.refuse_and_end(second)
            await worker.end(await worker.take())
            assert await finish(job) is JobState.FINISHED

    asyncio.run(go())


def test_plain_worker_that_refuses_while_a_long_task_runs_is_asked_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint", tasks=2)
            worker = await place.connect(PlainWorker)
            await worker.greet()
            long = await worker.take()
            await worker.refuse()
            await worker.end(await worker.take())
            await worker.end(long)
            assert await finish(job) is JobState.FINISHED

    asyncio.run(go())


@pytest.mark.parametrize("kind", [PlainWorker, V1Worker])
def test_a_task_that_no_frame_can_carry_fails_and_the_others_run(
    tmp_path: Path, kind: type[PlainWorker | V1Worker]
) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            large = await place.client.submit(("paint", "'" * 3_900_000))  # each becomes five characters for a shell
            job = await place.client.submit("paint", tasks=2)
            worker = await place.connect(kind)
            await worker.greet()
            tasks = [await worker.take(), await worker.take()]
            assert [task["JobDescription"]["Command"] for task in tasks] == ["paint", "paint"]
            for task in tasks:
                await worker.end(task)
            assert await finish(job) is JobState.FINISHED
            assert await finish(large) is JobState.FAILED
            assert "too large to send" in " ".join(await large.explain(1))

    asyncio.run(go())


# A v1 worker and gandy's foreman


def test_v1_worker_does_a_job(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_place(tmp_path) as place:
            job = await place.client.submit("paint", tasks=7)
            worker = await place.connect(V1Worker)
            await worker.greet()
            done = []
            tasks = [await worker.take(), await worker.take()]
            while tasks:
                task = tasks.pop(0)
                await worker.end(task)
                done.append(task["Task"])
                if len(done) + len(tasks) < 7:
                    tasks.append(await worker.take())
            assert await finish(job) is JobState.FINISHED
            assert sorted(done) == list(range(1, 8))
            (row,) = await place.client.workers()
            await place.client.stop_worker(row.name)
            assert await worker.read(worker.stop) == 2
            await worker.close()

    asyncio.run(go())


# A plain foreman and gandy's worker


def test_worker_works_for_a_plain_foreman(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            hello = await foreman.greet()
            assert (hello["NumProcs"], hello["Running"]) == (2, [])
            assert numbers(await foreman.give("echo $# $1 > out$1; test $1 != 3", 1)) == [(OK, 1, 1)]
            assert await foreman.record(2, 0) == (1, True)
            assert numbers(await foreman.give("", 2, 3)) == [(OK, 0, 2)]
            assert sorted([await foreman.record(1, 1), await foreman.record(2, 0)]) == [(2, True), (3, False)]
            assert [(tmp_path / f"out{task}").read_text() for task in (1, 2, 3)] == ["1 1\n", "1 2\n", "1 3\n"]

    asyncio.run(go())


def test_plain_foreman_sees_no_report(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            await foreman.give("exit 3", 1)
            update = await foreman.next(UPDATE)
            expected = {"JobId": 7, "Task": 1, "Success": False, "Status": "exit status 3", "NewJob": None}
            assert update.data == expected
            assert list(update.data) == list(expected)  # the order is part of the original's bytes
            foreman.say_ok(update, 2)

    asyncio.run(go())


def test_output_goes_where_a_plain_foreman_says(tmp_path: Path) -> None:
    """Both streams in one file; a second try has another one."""

    async def go() -> None:
        logs = tmp_path / "logs"
        logs.mkdir()
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            for _ in range(2):
                await foreman.give("echo out $1; echo err $1 >&2; echo end", 4, log=str(logs))
                assert await foreman.record(2, 0) == (4, True)
            await foreman.give("", 5, log=str(logs), name="../../outside")
            assert await foreman.record(2, 0) == (5, True)
            written = {path.name: path.read_text() for path in logs.iterdir()}
            assert written == {
                "paint_4.log": "out 4\nerr 4\nend\n",
                "paint_4-1.log": "out 4\nerr 4\nend\n",
                ".._.._outside_5.log": "out 5\nerr 5\nend\n",
            }
            assert not list((tmp_path / "output").rglob("*.out"))

    asyncio.run(go())


@pytest.mark.parametrize(("log", "name"), [("no such folder", "paint"), ("", "a\0b"), ("", "x" * 300)])
def test_task_that_cannot_have_its_log_does_not_begin(tmp_path: Path, log: str, name: str) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            await foreman.give("touch $1", 1, log=str(tmp_path / log), name=name)
            update = await foreman.next(UPDATE)
            foreman.say_ok(update, 2)
            assert (update.data["Success"], update.data["Status"][:17]) == (False, "error opening log")
            assert not (tmp_path / "1").exists()

    asyncio.run(go())


def test_worker_takes_no_more_from_a_plain_foreman_than_it_has_slots(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            assert numbers(await foreman.give("sleep 600", 1)) == [(OK, 1, 1)]
            refusal = await foreman.give("", 2, 3)
            assert (refusal.type, refusal.subtype, refusal.pair) == (ERROR, NO_PROCS, (1, 1))
            assert numbers(await foreman.give("", 2)) == [(OK, 0, 2)]
            refusal = await foreman.give("", 3)
            assert (refusal.type, refusal.subtype, refusal.pair) == (ERROR, NO_PROCS, (0, 2))

    asyncio.run(go())


def test_worker_cancels_for_a_plain_foreman(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            await foreman.give("sleep 600", 1, 2)
            assert numbers(await foreman.cancel((7, 5), (9, 1))) == [(OK, 0, 0)]
            assert numbers(await foreman.cancel((7, 2))) == [(OK, 1, 0)]
            assert await foreman.record(1, 1) == (2, False)
            assert numbers(await foreman.give("", 3)) == [(OK, 0, 2)]
            assert numbers(await foreman.cancel((7, -1))) == [(OK, 2, 0)]  # every task of the job
            assert sorted([await foreman.record(1, 1), await foreman.record(2, 0)]) == [(1, False), (3, False)]

    asyncio.run(go())


def test_worker_leaves_a_plain_foreman_when_it_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            gate = tmp_path / "gate"
            await foreman.give(f"until test -e {gate}; do sleep 0.02; done", 1)
            assert numbers(await foreman.ask(STOP, arg0=1)) == [(OK, 0, 1)]
            assert numbers(await foreman.ask(STOP, arg0=1)) == [(OK, 0, 1)]
            gate.touch()
            assert await foreman.record(0, 0) == (1, True)
            assert await foreman.at_end()
            await yard.work

    asyncio.run(go())


def test_worker_leaves_a_plain_foreman_at_once(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            await foreman.give("sleep 600", 1, 2)
            assert (await foreman.ask(STOP, arg0=AT_ONCE)).type == OK
            assert await foreman.at_end()
            await yard.work

    asyncio.run(go())


def test_worker_comes_back_to_a_plain_foreman_with_its_tasks(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_yard(tmp_path) as yard:
            foreman = await yard.answer()
            await foreman.greet()
            gate = tmp_path / "gate"
            await foreman.give(f"until test -e {gate}; do sleep 0.02; done", 1)
            await foreman.close()
            again = await yard.answer()
            hello = await again.greet()
            assert hello["NumProcs"] == 1
            assert [(task["Task"], task["JobDescription"]["JobId"]) for task in hello["Running"]] == [(1, 7)]
            gate.touch()
            assert await again.record(2, 0) == (1, True)

    asyncio.run(go())
