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

from msgspec import msgpack

from gandy.client import AsyncClient, AsyncJob
from gandy.config import Address
from gandy.core.model import JobState
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
        assert frame.type < 0x20, f"an extension that was not agreed on: {frame}"
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
        try:
            return not await self._reader.read(1)
        except ConnectionResetError:  # it had not read all that we had said
            return True

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

    def report(self, task: dict[str, Any]) -> None:
        """Tell how a task ended, and do not wait for the answer."""
        self.running.remove(task)
        seq = self._count << 1
        self._count += 1
        self._write(UPDATE, seq, 0, make_result(task))

    async def end(self, task: dict[str, Any], success: bool = True, status: str = "done") -> None:
        """Tell how a task ended."""
        self.running.remove(task)
        answer = await self.ask(UPDATE, make_result(task, success, status))
        assert (answer.type, answer.padding) == (OK, 0)

    async def end_and_rave(self, task: dict[str, Any]) -> None:
        """Report how a task ended, and something that makes no sense before the foreman can answer. Then it is cut."""
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
    """Numbers of ports that no program uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(found.getsockname()[1]) for found in sockets]
    for found in sockets:
        found.close()
    return ports


async def finish(job: AsyncJob) -> JobState:
    return (await job.wait(timeout=DEADLINE)).state


# A plain worker and gandy's foreman


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
