"""Foremen of a crew with shards that do nothing unless a test says so, and a real worker with links to them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import UNSET
from tests.waiting import until_async

from gandy.config import parse_address
from gandy.core.extensions import (
    BEGUN,
    CAPACITY,
    DIRECTORY,
    FOREMAN_OFFERS,
    PING,
    PONG,
    WANT,
    Capacity,
    decode_begun,
    decode_capacity,
    encode,
)
from gandy.core.model import AttemptKey
from gandy.core.shards import Directory, ShardPlace, Want
from gandy.ids import JobId, TaskNumber
from gandy.net.links import SocketLink, listen
from gandy.reach import Reach
from gandy.talk.events import Accepted, ExtensionReceived, Greeted, Refused, Reported
from gandy.talk.foreman import ForemanSide
from gandy.wire import calls
from gandy.wire.messages import (
    About,
    Extended,
    Extension,
    JobDescription,
    Orders,
    Status,
    Task,
    TaskPair,
    TaskResult,
)
from gandy.worker.service import WorkerService

SLOTS = 2
SHARD_OFFERS = FOREMAN_OFFERS | Extension.SHARDS


def a_task(job: int, number: int, command: str, slots: int = 1, priority: int = 0) -> Task:
    about = JobDescription(JobId(job), f"job{job}", 100, "", "", "", Status.RUNNING)
    return Task(TaskNumber(number), about, Orders(1, command, slots=slots, priority=priority))


class HandForeman:
    """One shard, at one place. It notes what its worker says over the last link."""

    def __init__(self, folder: Path, shard: int, process: str) -> None:
        self.shard = shard
        self.path = folder / process / f"shard-{shard}.sock"
        self.path.parent.mkdir(exist_ok=True)
        self.directory: Directory | None = None  # None: it knows no shards
        self.is_recording = True  # results are acknowledged
        self.hellos: list[Greeted] = []
        self.reports: list[TaskResult] = []
        self.capacities: list[Capacity] = []
        self.begun: list[AttemptKey] = []
        self.accepted: list[Task] = []
        self.refused: list[Task] = []
        self.announced: list[calls.Announcement] = []
        self.answers: list[bytes] = []
        self.link: SocketLink | None = None
        self.all_links: list[SocketLink] = []
        self.side: ForemanSide
        self._server: asyncio.Server | None = None

    async def open(self, *paths: Path) -> None:
        """Listen, at other paths too."""
        self._server = await listen(parse_address(f"unix:{self.path}"), lambda: SocketLink(self))
        for path in paths:
            path.symlink_to(self.path)

    def die(self) -> None:
        """As a process that is killed: its place refuses connections."""
        assert self._server is not None
        self._server.close()
        self._server = None
        self.path.unlink()
        for link in self.all_links:
            link.abort()

    @property
    def is_open(self) -> bool:
        return self._server is not None

    @property
    def hello(self) -> Greeted:
        return self.hellos[-1]

    @property
    def held(self) -> set[TaskPair]:
        """The tasks that the worker said it has."""
        return {task.pair for task in self.hello.running}

    @property
    def ended(self) -> list[tuple[int, int]]:
        """Jobs and tasks of all results, in order."""
        return [(result.job_id, result.task) for result in self.reports]

    @property
    def causes(self) -> list[int]:
        return [-1 if result.report is UNSET else result.report.cause for result in self.reports]

    # What it sends

    def give(self, *tasks: Task) -> None:
        self.side.give(tasks)
        self._flush()

    def want(self, slots: int, job: int = 1, priority: int = 0) -> None:
        self._send(WANT, encode(Want(slots, priority, JobId(job))))

    def tell(self, directory: Directory) -> None:
        self.directory = directory
        if self.link is not None:
            self._send(DIRECTORY, encode(directory))

    def call(self, name: str, number: int = 1) -> None:
        assert self.link is not None
        self.link.write(calls.encode(calls.CALL, 0, number, 0, calls.encode_target(name) + b"\x90"))

    def stop(self, immediate: bool = False) -> None:
        if immediate:
            self.side.stop_immediately()
        else:
            self.side.stop_all()
        self._flush()

    def _send(self, kind: int, payload: bytes, seq: int = 0) -> None:
        self.side.framing.send_extended(Extended(kind, payload), seq)
        self._flush()

    def _flush(self) -> None:
        assert self.link is not None
        self.link.write(self.side.data_to_send())

    # What its link reports

    def on_link(self, link: SocketLink) -> None:
        self.link = link
        self.all_links.append(link)
        offers = FOREMAN_OFFERS if self.directory is None else SHARD_OFFERS
        self.side = ForemanSide(offers=offers, on_call=self._on_call)

    def on_data(self, link: SocketLink, data: bytes) -> None:
        if link is not self.link:
            return
        self.side.receive_data(data)
        while (event := self.side.next_event()) is not None:
            match event:
                case Greeted():
                    self.hellos.append(event)
                    if self.directory is not None:
                        self.side.framing.send_extended(Extended(DIRECTORY, encode(self.directory)))
                case Reported(results):
                    self.reports += results
                    if self.is_recording:
                        self.side.acknowledge(event)
                case Accepted(tasks):
                    self.accepted += tasks
                case Refused(tasks):
                    self.refused += tasks
                case ExtensionReceived(seq, kind, payload):
                    self._on_extension(seq, kind, payload)
                case _:
                    pass
        self._flush()

    def on_cut(self, link: SocketLink) -> None:
        self.all_links.remove(link)
        if link is self.link:
            self.link = None

    def _on_extension(self, seq: int, kind: int, payload: bytes) -> None:
        if kind == CAPACITY:
            self.capacities.append(decode_capacity(payload))
        elif kind == BEGUN:
            self.begun += decode_begun(payload).attempts
        elif kind == PING:
            self.side.framing.send_extended(Extended(PONG, b""), seq)

    def _on_call(self, kind: int, _subtype: int, _number: int, _argument: int, payload: bytes) -> None:
        if kind == calls.ANNOUNCE:
            self.announced.append(calls.decode_announcement(payload))
        elif kind == calls.RESULT:
            self.answers.append(payload)


class HandCrew:
    """Hand-made foremen, and a worker that was given the place of one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.foremen: list[HandForeman] = []
        self.gate = folder / "gate"
        self.workers: list[WorkerService] = []

    async def add(self, shard: int, process: str = "") -> HandForeman:
        """A foreman that runs this shard."""
        made = HandForeman(self.folder, shard, process or f"p{shard}")
        self.foremen.append(made)
        own = made.path.with_name("foreman.sock")  # of the process, for its first shard
        await made.open(*(() if own.is_symlink() else (own,)))
        return made

    def describe(self, here: int, *places: tuple[HandForeman, int]) -> Directory:
        """What the foreman of shard `here` says: foremen of shards, with their epochs."""
        shards = tuple(ShardPlace(each.shard, epoch, (f"unix:{each.path}",)) for each, epoch in places)
        own = tuple(dict.fromkeys((f"unix:{each.path.with_name('foreman.sock')}",) for each, _ in places))
        return Directory(here, shards, own)

    def tell_all(self, *places: tuple[HandForeman, int]) -> None:
        for each, _ in places:
            each.tell(self.describe(each.shard, *places))

    def wait_line(self, name: str) -> str:
        """A command that says that it began, and waits for the gate."""
        return f"echo $$ >> {self.folder}/began-{name}; while [ ! -e {self.gate} ]; do sleep 0.01; done"

    def count_began(self, name: str) -> int:
        path = self.folder / f"began-{name}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @asynccontextmanager
    async def worker(self, *places: HandForeman, life: int = 1, **more: Any) -> AsyncIterator[WorkerService]:
        """A worker that was given these places, or that of the first foreman."""
        paths = [each.path.with_name("foreman.sock") for each in places or self.foremen[:1]]
        about = About(f"hut-{life}", "hut", SLOTS, ahead=50)
        reach = Reach(tuple(parse_address(f"unix:{path}") for path in paths))
        worker = WorkerService(reach, about, self.folder / "out", **more)
        self.workers.append(worker)
        working = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            await worker.stop()
            await working

    async def close(self) -> None:
        for each in self.foremen:
            if each.is_open:
                each.die()
        await asyncio.sleep(0)


@asynccontextmanager
async def two_shards(folder: Path, **more: Any) -> AsyncIterator[tuple[HandCrew, HandForeman, HandForeman]]:
    """A crew of two foremen, both of which the worker has greeted."""
    crew = HandCrew(folder)
    one, two = await crew.add(1), await crew.add(2)
    crew.tell_all((one, 1), (two, 1))
    try:
        async with crew.worker(**more):
            await until_async(lambda: bool(one.hellos and two.hellos))
            yield crew, one, two
    finally:
        await crew.close()


def pairs(tasks: Iterable[Task]) -> set[TaskPair]:
    return {task.pair for task in tasks}
