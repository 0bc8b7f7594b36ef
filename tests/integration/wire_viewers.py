"""Viewers on real sockets that read when a test says so, and a job whose states change in large updates."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

import pytest
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.client.conversation import Conversation, ForemanReady, Happened, Replied
from gandy.core import task_view
from gandy.core.model import TaskState
from gandy.core.requests import Answer, CancelJob, JobFound, Request, RequestFailure, Unwatch
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.foreman.server import Server
from gandy.ids import JobId, TaskNumber
from gandy.net.links import SocketLink
from gandy.viewer.picture import Picture
from gandy.viewer.states import TaskStates

TASKS: Final = 200_000  # and as many bytes in one update


def send_large_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers of a job get all its states at each change, and uncompressed: so a few changes fill all buffers."""
    monkeypatch.setattr(task_view, "MAX_RUNS", 0)
    monkeypatch.setattr(task_view, "LEVEL", 0)


class WireViewer(asyncio.Protocol):
    """One link of a client. It keeps what comes, by the number of the request, and shows it as other viewers do."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.answers: dict[int, Answer] = {}
        self.events: dict[int, int] = {}  # how many came
        self.order: list[tuple[int, bool]] = []  # of everything that came: the number, and whether it is an event
        self.wholes: dict[int, int] = {}  # updates with everything that came
        self.failures: dict[int, RequestFailure] = {}
        self.states: dict[int, TaskStates] = {}
        self.picture = Picture()
        self._transport: asyncio.Transport
        self._conversation = Conversation()

    @classmethod
    async def connect(cls, path: str) -> "WireViewer":
        _, viewer = await asyncio.get_running_loop().create_unix_connection(cls, path)
        await viewer.ready
        return viewer

    def send(self, request: Request) -> int:
        number = self._conversation.ask(request)
        self._flush()
        return number

    async def ask(self, request: Request) -> Answer:
        number = self.send(request)
        await until_async(lambda: number in self.answers or self.lost.done(), period=0)
        return self.answers[number]

    async def watch(self, request: Request) -> int:
        """Returns the number of the request when all that there is to see has come."""
        number = self.send(request)
        await until_async(lambda: number in self.wholes, period=0)
        return number

    async def unwatch(self, number: int) -> None:
        await self.ask(Unwatch(number))

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    def read_again(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._conversation.receive_data(data)
        while (event := self._conversation.next_event()) is not None:
            match event:
                case ForemanReady():
                    self.ready.set_result(None)
                case Replied(number, answer):
                    assert number not in self.answers, "a request was answered twice"
                    self.answers[number] = answer
                    self._take(number, answer, False)
                case Happened(number, answer):
                    self.events[number] = self.events.get(number, 0) + 1
                    self._take(number, answer, True)
        self._flush()

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost.set_result(None)

    def _take(self, number: int, answer: Answer, is_event: bool) -> None:
        self.order.append((number, is_event))
        match answer:
            case RequestFailure():
                self.failures[number] = answer
            case CrewUpdate():
                self._note_whole(number, answer)
                self.picture.apply(answer, 0.0)
            case TaskUpdate():
                self._note_whole(number, answer)
                self.states.setdefault(number, TaskStates()).apply(answer)
            case _:
                pass

    def _note_whole(self, number: int, update: CrewUpdate | TaskUpdate) -> None:
        if update.is_whole:
            self.wholes[number] = self.wholes.get(number, 0) + 1
        else:
            assert number in self.wholes, "a change came before all that there is to see"

    def _flush(self) -> None:
        if data := self._conversation.data_to_send():
            self._transport.write(data)


class ChangingJob:
    """A held job. Each `change` cancels one of its tasks, so that its viewers, and those of the crew, get an update."""

    def __init__(self, client: AsyncClient, job: JobId) -> None:
        self.id = job
        self._client = client
        self._cancelled = 0

    @classmethod
    async def submit(cls, client: AsyncClient) -> "ChangingJob":
        return cls(client, JobId((await client.submit("true", tasks=TASKS, held=True)).id))

    async def change(self) -> None:
        self._cancelled += 1
        await self._client.connection.ask(CancelJob(self.id, (TaskNumber(self._cancelled),)), JobFound)

    async def change_seen(self, near: WireViewer, number: int) -> None:
        """Wait until a viewer that reads everything has seen the change."""
        await self.change()
        await until_async(lambda: near.states[number].packed[self._cancelled - 1] == TaskState.CANCELLED)

    async def change_until(self, near: WireViewer, number: int, is_so: Callable[[], bool]) -> None:
        """Change the job until something is so; after a hundred large updates, it should be."""
        for _ in range(100):
            if is_so():
                return
            await self.change_seen(near, number)
        raise AssertionError("it did not become true")


def list_ports(server: Server) -> list[SocketLink]:
    """The sockets of everything that is connected to a foreman."""
    return [cast("SocketLink", link.port) for link in server.foreman.links.by_name.values()]


def count_unsent(server: Server) -> int:
    """Bytes that wait in the foreman's memory until peers read."""
    return sum(port.unsent_bytes for port in list_ports(server))
