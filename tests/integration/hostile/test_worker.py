"""Hostile values in every field of what a foreman sends: a worker answers, or hangs up, and goes on working."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.integration.hostile.peers import COUNT, PATIENCE, SHORT_STEP, Peer, run
from tests.integration.hostile.values import list_hostile

from gandy.config import parse_address
from gandy.core.extensions import ARGUMENTS, PIECE, READ, RETRACT, WORKER_OFFERS, Piece, Read, Retraction, encode
from gandy.ids import JobId, TaskNumber
from gandy.reach import Reach
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    About,
    Cancel,
    Extended,
    Hello,
    JobDescription,
    Message,
    Ok,
    Orders,
    Status,
    Task,
    TaskPair,
    TaskResult,
)
from gandy.wire.stream import MAGIC
from gandy.worker import foreman_link
from gandy.worker.service import WorkerService

PROBE = 9  # the number of a question that every worker can answer
HOSTILE = 5

# What a foreman says: the type of the frame, and what its payload should be.
MESSAGES: dict[str, tuple[int, Any]] = {
    "JOB": (v2.Type.JOB, payloads.Tasks),
    "CANCEL": (v2.Type.CANCEL, payloads.Pairs),
    "RECALL": (v2.RECALL, payloads.Pairs),
    "READ": (READ, Read),
    "ARGUMENTS": (ARGUMENTS, Piece),
    "RETRACT": (RETRACT, Retraction),
}


class HostileForeman:
    """One link to a worker after the other."""

    def __init__(self) -> None:
        self._links: asyncio.Queue[Peer] = asyncio.Queue()
        self.peer: Peer | None = None
        self._number = 1
        self.results: list[TaskResult] = []
        self.pieces: list[int] = []

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.put_nowait(Peer(reader, writer))

    async def say(self, kind: int, payload: bytes) -> None:
        """And wait until the worker has done with it, whatever it thinks of it."""
        peer = await self._get_peer()
        is_request = kind < v2.FIRST_EXTENDED
        seq = self._next() if is_request else HOSTILE
        peer.send_bytes(v2.HEADER.pack(MAGIC, kind, 0, seq, 0, len(payload)) + payload)
        if kind == v2.Type.JOB:
            peer.send(Cancel((TaskPair(JobId(1), TaskNumber(1)),)), self._next())
        self.pieces.clear()
        await self.hear_until(lambda: PROBE in self.pieces, is_asking=True)

    async def hear_until(self, is_done: Any, is_asking: bool = False) -> None:
        """Until then, or until the worker hangs up."""
        peer = await self._get_peer()
        if is_asking:
            peer.send(Extended(READ, encode(Read(JobId(7), TaskNumber(7), 1, "out", 0, 1))), PROBE)
        async with asyncio.timeout(PATIENCE):
            while not is_done() and (heard := await peer.hear_or_cut()) is not None:
                self._take(peer, *heard)

    async def close(self) -> None:
        if self.peer is not None:
            await self.peer.close()

    def _next(self) -> int:
        self._number += 2
        return self._number - 2

    def _take(self, peer: Peer, seq: int, message: Message) -> None:
        if isinstance(message, Extended) and message.type == v2.RESULTS:
            self.results += payloads.decode_results(message.payload)
            peer.send(Extended(v2.RECORDED, b""), seq)
        elif isinstance(message, Extended) and message.type == PIECE:
            self.pieces.append(seq)

    async def _get_peer(self) -> Peer:
        while self.peer is None or self.peer.is_cut:
            await self.close()
            async with asyncio.timeout(PATIENCE):
                self.peer = await self._links.get()
            self._number = 1
            hello = await self.peer.hear()
            assert isinstance(hello, Hello)
            self.peer.send(Ok(hello.nproc, len(hello.running), WORKER_OFFERS))
        return self.peer


def list_payloads(name: str) -> Iterator[bytes]:
    step = 1 if COUNT or name != "JOB" else SHORT_STEP
    yield from islice(list_hostile(MESSAGES[name][1], heavy=False), 0, None, step)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_worker_outlives_a_hostile_foreman(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreman_link, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(foreman_link, "LONGEST_PAUSE", 0.001)

    async def test() -> None:
        foreman = HostileForeman()
        reach = Reach((parse_address(f"unix:{tmp_path / 's'}"),))
        async with await asyncio.start_unix_server(foreman.take, tmp_path / "s"):
            worker = WorkerService(reach, About("w-1", "w", 2), tmp_path / "out")
            working = asyncio.create_task(worker.run())
            for payload in list_payloads(name):
                await foreman.say(MESSAGES[name][0], payload)
                assert name != "READ" or foreman.peer is None or foreman.pieces.count(HOSTILE) == 1
            job = JobDescription(JobId(99), "n", 1, "", "", "", Status.RUNNING)
            task = Task(TaskNumber(1), job, Orders(1, "exit 3"))
            async with asyncio.timeout(PATIENCE):
                while not (reports := [result.report for result in foreman.results if result.job_id == 99]):
                    await foreman.say(v2.Type.JOB, payloads.encode((task,)))
            assert getattr(reports[0], "exit_code", None) == 3
            await worker.stop()
            await working
            await foreman.close()

    run(test())
