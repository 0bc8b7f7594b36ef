"""Peers that know the seeds and nothing of gandy, on real sockets: a v2 worker, a v2 foreman and a v1 worker.

They are written here from the descriptions, with struct and msgpack. Like the original, they hold one request at most
and do not forgive an ERROR.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from msgspec import msgpack

from gandy.client import AsyncClient, AsyncJob
from gandy.config import Address
from gandy.core.model import JobState, TaskState
from gandy.core.policy import Policy
from gandy.doors.v1.opening import V1Opening
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.reach import Reach
from gandy.worker.main import make_about
from gandy.worker.service import WorkerService

DEADLINE = 30.0  # seconds; far more than anything here takes on a busy machine
MAGIC = 0xC047
OK, HELLO, JOB, UPDATE, CANCEL, STOP, ERROR = 1, 2, 3, 4, 5, 7, 8
NO_PROCS = 2
AT_ONCE = 0xFFFF_FFFF
WITH_DATA = (HELLO, JOB, UPDATE, CANCEL)


class Frame(NamedTuple):
    type: int
    subtype: int
    seq: int
    padding: int
    arg0: int
    data: Any = None  # the opened payload

    @property
    def pair(self) -> tuple[int, int]:
        """The two numbers of OK: free processors, running tasks."""
        return self.arg0 >> 16, self.arg0 & 0xFFFF


class Peer:
    """One end of a v2 link: frames and their numbers, as the original counts them."""

    header = struct.Struct("<HBBIII")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parity: int) -> None:
        self._reader = reader
        self._writer = writer
        self._parity = parity
        self._count = 0
        self._held: deque[Frame] = deque()
        self.heard: list[Frame] = []

    async def read(self) -> Frame:
        """The next frame, whatever it is."""
        magic, *numbers = self.header.unpack(await self._reader.readexactly(self.header.size))
        frame = Frame(*numbers)
        assert magic == MAGIC
        assert frame.type < 0x20, f"an extension that nobody agreed to: {frame}"
        assert frame.type != ERROR or self._parity, f"an original worker dies of {frame}"
        if frame.type in WITH_DATA and frame.arg0:
            frame = frame._replace(data=msgpack.decode(await self._reader.readexactly(frame.arg0)))
        self._count = max(self._count, (frame.seq >> 1) + 1)
        self.heard.append(frame)
        return frame

    async def next(self, kind: int) -> Frame:
        """The next request, which must be of this type."""
        frame = self._held.popleft() if self._held else await self.read()
        assert frame.type == kind, frame
        assert frame.seq % 2 != self._parity
        return frame

    async def ask(self, kind: int, data: object = None, arg0: int = 0) -> Frame:
        """Make a request and wait for its answer. What comes first is held, one request at most."""
        seq = self._count << 1 | self._parity
        self._count += 1
        self._write(kind, seq, arg0, data)
        while (frame := await self.read()).seq != seq:
            assert not self._held, "an original's one place to hold requests is taken"
            assert frame.seq > seq, "a lower request is to be answered at once"
            self._held.append(frame)
        return frame

    def say_ok(self, to: Frame, nproc: int, nrun: int = 0) -> None:
        self._write(OK, to.seq, nproc << 16 | nrun)

    def _write(self, kind: int, seq: int, arg0: int, data: object = None) -> None:
        self._writer.write(self._pack(kind, seq, arg0, data))

    def _pack(self, kind: int, seq: int, arg0: int, data: object = None, subtype: int = 0) -> bytes:
        payload = msgpack.encode(data) if data is not None else b""
        return self.header.pack(MAGIC, kind, subtype, seq, 0, len(payload) or arg0) + payload

    async def at_end(self) -> bool:
        """Whether the other side has hung up, and said nothing before."""
        return not await self._reader.read(1)

    async def close(self) -> None:
        await hang_up(self._writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


class PlainWorker(Peer):
    """A seed 001 worker with two processors. What it is told to run, it pretends to run."""

    slots = 2

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, parity=0)
        self.running: list[dict[str, Any]] = []

    async def greet(self) -> None:
        free = self.slots - len(self.running)
        answer = await self.ask(HELLO, {"NumProcs": free, "Running": self.running})
        assert (answer.type, answer.padding) == (OK, 0)
        assert answer.pair == (free, len(self.running))

    async def take(self) -> dict[str, Any]:
        """Start the next task."""
        job = await self.next(JOB)
        (task,) = job.data  # one per JOB: of more, the original would start some and refuse the rest
        assert list(task) == ["Task", "JobDescription"]
        assert len(self.running) < self.slots
        self.running.append(task)
        self.say_ok(job, self.slots - len(self.running), len(self.running))
        return dict(task)

    async def refuse(self) -> None:
        """Have no processor for the next task: the one whose task ended counts as taken for a moment longer."""
        job = await self.next(JOB)
        self._writer.write(self._pack(ERROR, job.seq, self.slots, subtype=NO_PROCS))

    async def refuse_and_end(self, task: dict[str, Any]) -> None:
        """Refuse the next task and tell how another one ended, so that both come in one read."""
        job = await self.next(JOB)
        seq = self._count << 1
        self._count += 1
        self.running.remove(task)
        refusal = self._pack(ERROR, job.seq, self.slots, subtype=NO_PROCS)
        self._writer.write(refusal + self._pack(UPDATE, seq, 0, make_result(task)))
        while (frame := await self.read()).seq != seq:
            self._held.append(frame)

    async def end(self, task: dict[str, Any], success: bool = True, status: str = "done") -> None:
        """Tell how a task ended."""
        self.running.remove(task)
        answer = await self.ask(UPDATE, make_result(task, success, status))
        assert (answer.type, answer.padding) == (OK, 0)

    async def end_and_rave(self, task: dict[str, Any]) -> None:
        """Tell how a task ended, and something that makes no sense before anybody can answer. Then it is cut."""
        first = self._count << 1
        self._write(UPDATE, first, 0, make_result(task))
        self._write(UPDATE, first + 2, 0)
        with suppress(asyncio.IncompleteReadError):
            while True:
                await self.read()


def make_result(task: dict[str, Any], success: bool = True, status: str = "done") -> dict[str, Any]:
    job = task["JobDescription"]["JobId"]
    return {"JobId": job, "Task": task["Task"], "Success": success, "Status": status, "NewJob": None}


class V1Worker:
    """A seed 000 worker with two processors."""

    header = struct.Struct("<HHII")
    ok, job, update, stop = 1, 2, 3, 4

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._jobs: deque[dict[str, Any]] = deque()

    async def read(self, kind: int) -> Any:
        """What a frame of this type carries: a number, or data."""
        magic, found, padding, arg0 = self.header.unpack(await self._reader.readexactly(self.header.size))
        assert (magic, padding) == (MAGIC, 0)
        if found == self.job:
            task = msgpack.decode(await self._reader.readexactly(arg0))
            if kind != self.job:  # v1 has no numbers: a JOB may come before the OK
                self._jobs.append(task)
                return await self.read(kind)
            return task
        assert found == kind
        return arg0

    def write(self, kind: int, arg0: int, payload: bytes = b"") -> None:
        self._writer.write(self.header.pack(MAGIC, kind, 0, arg0) + payload)

    async def greet(self) -> None:
        assert await self.read(self.ok) == 0
        self.write(self.ok, 2)
        assert await self.read(self.ok) == 2

    async def take(self) -> dict[str, Any]:
        task: dict[str, Any] = self._jobs.popleft() if self._jobs else await self.read(self.job)
        assert list(task) == ["Task", "JobDescription"]
        return task

    async def end(self, task: dict[str, Any]) -> None:
        payload = msgpack.encode(make_result(task))
        self.write(self.update, len(payload), payload)
        await self.read(self.ok)

    async def close(self) -> None:
        await hang_up(self._writer)


W = TypeVar("W", bound=PlainWorker | V1Worker)


class Place:
    """A real foreman with doors for plain peers, and a client of it."""

    def __init__(self, client: AsyncClient, port: int, v1_port: int) -> None:
        self.client = client
        self._port, self._v1_port = port, v1_port
        self._workers: list[PlainWorker | V1Worker] = []

    async def connect(self, kind: type[W]) -> W:
        port = self._v1_port if issubclass(kind, V1Worker) else self._port
        worker = kind(*await asyncio.open_connection("127.0.0.1", port))
        self._workers.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self._workers:
            await worker.close()


@asynccontextmanager
async def a_place(home: Path, grace: float = 10.0, store: str = "memory:") -> AsyncIterator[Place]:
    program = ForemanProgram(str(home), store, Policy(grace=grace), insecure=True)
    port, v1_port = find_ports(2)
    await program.start(Doors((f"plain://127.0.0.1:{port}",), (V1Opening(f"tcp://127.0.0.1:{v1_port}"),)))
    try:
        async with asyncio.timeout(DEADLINE), AsyncClient(f"unix:{home}/foreman.sock") as client:
            place = Place(client, port, v1_port)
            try:
                yield place
            finally:
                await place.close()
    finally:
        await program.stop()


def find_ports(count: int) -> list[int]:
    """Numbers of ports that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports


async def finish(job: AsyncJob) -> JobState:
    return (await job.wait(timeout=DEADLINE)).state


# A plain worker and gandy's foreman


def test_plain_worker_that_makes_no_sense_behind_a_result_is_cut_and_nobody_else(tmp_path: Path) -> None:
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
    """It has no name, but tells in HELLO what it runs: only tasks that nobody runs are handed out again."""

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


class PlainForeman(Peer):
    """A seed 001 foreman of one worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, folder: Path) -> None:
        super().__init__(reader, writer, parity=1)
        self._folder = folder

    async def greet(self) -> dict[str, Any]:
        """What HELLO tells."""
        hello = await self.next(HELLO)
        self.say_ok(hello, hello.data["NumProcs"], len(hello.data["Running"]))
        return dict(hello.data)

    async def give(self, script: str, *tasks: int, job: int = 7, log: str | None = None, name: str = "paint") -> Frame:
        """Have it run a program as the original does: with the task's number as its only argument."""
        command = self._folder / f"job{job}"
        if not command.exists():
            command.write_text(f"#!/bin/sh\n{script}\n")
            command.chmod(0o700)
        description = {"JobId": job, "Name": name, "NumTasks": 9, "WorkingDir": str(self._folder)}
        description |= {"LoggingDir": str(self._folder) if log is None else log, "Command": str(command), "Status": 1}
        return await self.ask(JOB, [{"Task": task, "JobDescription": description} for task in tasks])

    async def cancel(self, *pairs: tuple[int, int]) -> Frame:
        return await self.ask(CANCEL, [{"JobId": job, "Task": task} for job, task in pairs])

    async def record(self, nproc: int, nrun: int) -> tuple[int, bool]:
        """Take a result: which task, and whether it went well."""
        update = await self.next(UPDATE)
        self.say_ok(update, nproc, nrun)
        return update.data["Task"], update.data["Success"]


class Yard:
    """A place where a plain foreman waits for calls of gandy's worker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: asyncio.Queue[PlainForeman] = asyncio.Queue()
        self._answered: list[PlainForeman] = []
        self.work: asyncio.Task[None]  # of the worker

    def on_call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls.put_nowait(PlainForeman(reader, writer, self._folder))

    async def answer(self) -> PlainForeman:
        """A foreman for the next call."""
        self._answered.append(await self._calls.get())
        return self._answered[-1]

    async def close(self) -> None:
        for foreman in self._answered:
            await foreman.close()


@asynccontextmanager
async def a_yard(folder: Path) -> AsyncIterator[Yard]:
    """With a worker that has two slots."""
    yard = Yard(folder)
    server = await asyncio.start_server(yard.on_call, "127.0.0.1", 0)
    address = Address("plain", "127.0.0.1", server.sockets[0].getsockname()[1])
    yard.work = asyncio.create_task(WorkerService(Reach((address,)), make_about(2, (), "hut"), folder / "output").run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield yard
    finally:
        yard.work.cancel()
        await asyncio.gather(yard.work, return_exceptions=True)
        await yard.close()
        server.close()


def numbers(*frames: Frame) -> list[tuple[int, int, int]]:
    return [(frame.type, *frame.pair) for frame in frames]


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
