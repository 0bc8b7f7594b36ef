"""What hostile clients and workers did to a foreman once, each as it was found."""

import asyncio
import logging
import math
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.hostile.peers import Peer, a_foreman, a_worker, run

from gandy import AsyncClient
from gandy.core import requests as ask
from gandy.core.model import JobSpec, JobState, PythonSpec
from gandy.core.roles import CrewRole
from gandy.errors import Rejected
from gandy.foreman.main import socket_address
from gandy.foreman.request_queue import OpenRequest
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAYLOAD_BYTES, MAX_REQUESTS
from gandy.wire.messages import About, Error, Ok

SPEC = {"command": "true"}


def a_client(home: Path) -> AsyncClient:
    return AsyncClient(str(socket_address(str(home))))


def encode_submit(**fields: Any) -> bytes:
    return msgspec.msgpack.encode({"type": "Submit", "spec": SPEC | fields})


@pytest.mark.parametrize("field", ["retry_pause", "clock_ahead", "timeout", "at"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_a_job_that_is_kept_can_be_read_again(tmp_path: Path, field: str, value: float) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path):
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            answer = await peer.ask_bytes(encode_submit(**{field: value}))
            assert isinstance(answer, ask.RequestFailure | ask.Submitted), answer
            assert isinstance(await peer.ask(ask.ListJobs()), ask.JobList)
            await peer.close()
        async with a_foreman(tmp_path) as program:
            assert program.server.standing.trouble == ""

    run(test())


def test_no_client_says_how_far_the_clock_is_ahead(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path):
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            assert isinstance(await peer.ask_bytes(encode_submit(clock_ahead=7.0, held=True)), ask.Submitted)
            found = await peer.ask(ask.ShowJob(JobId(1)))
            assert isinstance(found, ask.JobFound)
            assert found.row.spec.clock_ahead == 0.0
            await peer.close()

    run(test())


@pytest.mark.parametrize(
    "fields",
    [{"has_lines": True}, {"is_open": True, "has_lines": True, "tasks": 3}, {"is_open": True, "tasks": 3}],
    ids=str,
)
def test_a_job_that_lacks_the_lines_that_it_claims_stops_no_foreman(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as program, a_worker(tmp_path, "w"), a_client(tmp_path) as client:
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            await peer.ask_bytes(encode_submit(**fields))
            assert (await (await client.submit("true")).wait()).state is JobState.FINISHED
            assert not program.has_failed
            await peer.close()

    run(test())


@pytest.mark.parametrize("offset", [2**63, 2**64 - 1, 2**63 - 1])
@pytest.mark.parametrize("limit", [65_536, 2**63, -1])
def test_reading_output_cuts_no_worker(tmp_path: Path, offset: int, limit: int) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_worker(tmp_path, "w") as worker, a_client(tmp_path) as client:
            await (await client.submit("echo hello")).wait()
            link = worker.conversations.all[0].link.link
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            fields = {"type": "ReadOutput", "job": 1, "task": 1, "offset": offset, "limit": limit}
            answer = await peer.ask_bytes(msgspec.msgpack.encode(fields))
            assert isinstance(answer, ask.RequestFailure | ask.Output)
            assert [piece async for piece in client.job(1).output()] == [b"hello\n"]
            assert worker.conversations.all[0].link.link is link
            await peer.close()

    run(test())


def test_jobs_with_large_closures_can_be_listed(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path):
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            spec = JobSpec(command="f", python=PythonSpec(shared=b"x" * 2_600_000), is_open=True, tasks=0, held=True)
            for _ in range(8):
                assert isinstance(await peer.ask(ask.Submit(spec)), ask.Submitted)
            observer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            number = observer.send_request(ask.encode(ask.ListJobs()))
            await observer.wait_replies(number)
            (payload,) = observer.replies[number]
            assert len(payload) < 10_000
            assert b"xxxx" not in payload
            await peer.close()
            await observer.close()

    run(test())


def test_a_list_of_jobs_with_long_commands_is_paged_by_bytes(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            for _ in range(12):
                await client.submit("true " + "x" * 3_000_000, held=True)
            assert [row.job async for row in client.jobs()] == list(range(12, 0, -1))
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            number = peer.send_request(ask.encode(ask.ListJobs()))
            await peer.wait_replies(number)
            assert len(peer.replies[number][0]) < MAX_PAYLOAD_BYTES
            await peer.close()

    run(test())


@pytest.mark.parametrize(
    "about",
    [
        About("w", "w", 2**64 - 1),
        About("w", "w", 2**40),
        About("w", "w", 65_535),
        About("w" * 9_000_000, "w", 1),
        About("w", "w" * 9_000_000, 1),
        About("w", "a\nJan 1 00:00:00 the foreman is fine", 1),
        About("a\x1b[2J", "w", 1),
        About("", "w", 1),
        About("w", "w", 1, tags=("x",) * 100_000),
        About("w", "w", 1, version="\n"),
    ],
    ids=lambda about: repr(about)[:40],
)
def test_a_worker_that_claims_too_much_is_refused(tmp_path: Path, about: About) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            payload = msgspec.msgpack.encode({"NumProcs": 1, "Running": None, "Gandy": about})
            header = b"\x47\xc0\x02\x00" + (0).to_bytes(4, "little") + (0x3F47 << 16 | 0x77).to_bytes(4, "little")
            peer = await Peer.connect(tmp_path, CrewRole.WORKER)
            with suppress(ConnectionError):
                peer.send_bytes(header + len(payload).to_bytes(4, "little") + payload)
                await peer.drain()
            await peer.wait_cut()
            heard = [message for _, message in _list_all(peer.messages)]
            assert not any(isinstance(message, Ok) for message in heard)
            assert any(isinstance(message, Error) for message in heard)  # which tells a gandy worker why
            assert await client.workers() == ()
            assert (await client.status()).slots == 0

    run(test())


def _list_all(queue: "asyncio.Queue[Any]") -> list[Any]:
    return [queue.get_nowait() for _ in range(queue.qsize())]


def test_requests_end_with_their_link(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as program, a_client(tmp_path) as client:
            await client.submit("true", tasks=1_000_000, held=True)
            begun = asyncio.Event()
            answer = program.server.requests._find_answer
            ended = []

            async def slow(request: OpenRequest) -> Any:
                asked = ask.decode_request(request.message.payload)
                if isinstance(asked, ask.ListTasks):
                    begun.set()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        ended.append(asked)
                return await answer(request)

            program.server.requests._find_answer = slow  # type: ignore[method-assign]
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            for _ in range(200):
                peer.send_request(ask.encode(ask.ListTasks(JobId(1), limit=10_000)))
            await begun.wait()
            await peer.close()
            assert (await client.job(1).status()).job == 1
            async with asyncio.timeout(10):
                while not ended:
                    await asyncio.sleep(0)
            assert len(ended) < 100  # and those behind them never began
            assert not program.server.requests._tasks

    run(test())


def test_a_link_with_many_requests_is_not_read_further(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as program, a_client(tmp_path) as client:
            gate = asyncio.Event()
            answer = program.server.requests._find_answer
            busy = most = 0

            async def slow(request: OpenRequest) -> Any:
                asked = ask.decode_request(request.message.payload)
                nonlocal busy, most
                if isinstance(asked, ask.GetStatus):
                    busy += 1
                    most = max(most, busy)
                    await gate.wait()
                    busy -= 1
                return await answer(request)

            program.server.requests._find_answer = slow  # type: ignore[method-assign]
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            for _ in range(20_000):  # more than the sockets hold
                last = peer.send_request(ask.encode(ask.GetStatus()))
            async with asyncio.timeout(10):
                while not (paused := [queue for queue in program.server.requests._queues.values() if queue._is_paused]):
                    await asyncio.sleep(0)
            assert [row async for row in client.jobs()] == []
            assert most == MAX_REQUESTS
            assert all(len(queue._waiting) < 15_000 for queue in paused)
            assert peer._writer.transport.get_write_buffer_size() > 0
            gate.set()
            await peer.wait_replies(last)
            assert all(len(replies) == 1 for replies in peer.replies.values())
            await peer.close()

    run(test())


@pytest.mark.parametrize("limit", [-1, 0, 2**63, 2**64 - 1])
@pytest.mark.parametrize("kind", ["ListJobs", "ListTasks"])
def test_every_limit_is_answered_with_a_page(tmp_path: Path, kind: str, limit: int) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            await client.submit("true", tasks=20_000, held=True)
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            fields = {"type": kind, "limit": limit} | ({"job": 1} if kind == "ListTasks" else {})
            answer = await peer.ask_bytes(msgspec.msgpack.encode(fields))
            if isinstance(answer, ask.JobList | ask.TaskList):
                assert len(answer.rows) <= 10_000
                assert limit >= 0
            else:
                assert isinstance(answer, ask.RequestFailure)
            await peer.close()

    run(test())


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_numbers_beyond_what_a_store_keeps_are_answered(tmp_path: Path, number: int) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path):
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            for kind in ("ShowJob", "CancelJob", "WatchJob", "ListResults", "ExplainJob", "ReadOutputs", "ForgetJobs"):
                fields = {"jobs": [number]} if kind == "ForgetJobs" else {"job": number}
                answer = await peer.ask_bytes(msgspec.msgpack.encode({"type": kind, **fields}))
                assert isinstance(answer, ask.RequestFailure), kind
            await peer.close()

    run(test())


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a bug")])
def test_a_request_whose_handling_fails_is_answered(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as program:

            async def fail(_job: JobId) -> None:
                raise error

            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            program.server.committer.store.find_job = fail  # type: ignore[method-assign, assignment]
            with caplog.at_level(logging.ERROR):
                answer = await peer.ask(ask.ShowJob(JobId(1)))
            assert isinstance(answer, ask.RequestFailure)
            assert answer.kind == "internal"
            assert isinstance(await peer.ask(ask.GetStatus()), ask.ForemanStatus)
            (record,) = [record for record in caplog.records if record.exc_info]
            assert record.exc_info is not None
            assert record.exc_info[1] is error
            await peer.close()

    run(test())


def test_a_stolen_id_is_refused_before_anything_is_agreed(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            owner = await Peer.connect_worker(tmp_path, About("w-1", "w", 1), CrewRole.OWNER)
            assert isinstance(await owner.hear(), Ok)
            thief = await Peer.connect_worker(tmp_path, About("w-1", "w", 1), CrewRole.WORKER)
            await thief.wait_cut()
            heard = [message for _, message in _list_all(thief.messages)]
            assert heard
            assert not any(isinstance(message, Ok) for message in heard)
            assert [row.connected for row in await client.workers()] == [True]
            await owner.close()

    run(test())


def test_an_endless_upload_of_lines_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.core.intake.MAX_TASKS", 10)

    async def test() -> None:
        async with a_foreman(tmp_path):
            peer = await Peer.connect_client(tmp_path, CrewRole.CLIENT)
            assert isinstance(await peer.ask(ask.AddLines(1, ("a",) * 10)), ask.Done)
            assert isinstance(await peer.ask(ask.AddLines(1, ("a",))), ask.RequestFailure)
            await peer.close()

    run(test())


def test_a_page_of_tasks_is_cut_by_bytes(tmp_path: Path) -> None:
    """Tasks that fail with many words are many bytes."""

    async def test() -> None:
        async with a_foreman(tmp_path), a_worker(tmp_path, "w"), a_client(tmp_path) as client:
            job = await client.submit("head -c 4096 /dev/zero | tr '\\0' x >&2; exit 1", tasks=30)
            await job.wait()
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            found = await peer.ask(ask.ListTasks(JobId(1), limit=10_000))
            assert isinstance(found, ask.TaskList)
            assert len(found.rows) == 30
            assert [row.task async for row in job.tasks()] == list(range(1, 31))
            assert await job.attempts(TaskNumber(3))
            await peer.close()

    run(test())


def test_a_job_that_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            for _ in range(2):
                await client.submit("true", held=True)
            await client.submit("true", after=[1])
        with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as db, db:
            db.execute("UPDATE specs SET spec = '{}' WHERE job = 1")
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            assert [bool(row.problem) async for row in client.jobs()] == [False, False, True]
            assert (await client.status()).unreadable == 1
            job = client.job(1)
            assert "set aside" in " ".join(await job.explain())
            for refused in (job.cancel, job.retry, job.hold, job.wait, lambda: client.submit("true", after=[1])):
                with pytest.raises(Rejected, match="cannot be read"):
                    await refused()
            assert "waits for job 1" in " ".join(await client.job(3).explain())
            await client.job(2).release()
            await job.forget()
            assert (await client.status()).unreadable == 0
            assert [row.job async for row in client.jobs()] == [3, 2]

    run(test())


def test_events_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.foreman.subscriptions.MAX_WATCHED", 3)

    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            await client.submit("true", held=True)
            peer = await Peer.connect_client(tmp_path, CrewRole.OBSERVER)
            answers = [await peer.ask(ask.WatchJob(JobId(1))) for _ in range(5)]
            assert [isinstance(answer, ask.JobFound) for answer in answers] == [True, True, True, False, False]
            await client.job(1).cancel()
            await client.submit("true", held=True)
            assert isinstance(await peer.ask(ask.WatchJob(JobId(2))), ask.JobFound)
            await peer.close()

    run(test())
