"""Slots that tasks and calls both want, seen by a worker that does nothing unless it is told to."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import until_async

from gandy import AsyncClient
from gandy.core.model import AttemptKey, Cause
from gandy.core.policy import Policy
from gandy.core.records import Record
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.store.memory import MemoryStore
from gandy.talk.events import Start
from gandy.talk.worker import WorkerSide
from gandy.wire.calls import ANNOUNCE, CALL, LAST, RESULT, WHOLE, Offer, encode, encode_announcement
from gandy.wire.messages import About, Extension, Report, TaskPair, TaskResult


class Turnstile(MemoryStore):
    """A disk that stops while its gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        self.reached.set()
        await self.gate.wait()
        return await super().commit(records)


class HandWorker:
    """One slot, and a command that is called hum. It notes what it is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        offers = Extension.ATOMIC | Extension.UPDATES | Extension.CALLS
        self._side = WorkerSide(1, About("hand-1", "hand", 1), offers=offers, on_call=self._on_call)
        self._side.connect()
        self._flush()
        self.heard: list[TaskPair | int] = []  # tasks, and numbers of calls

    def _on_call(self, kind: int, _subtype: int, seq: int, _padding: int, _payload: bytes) -> None:
        if kind == CALL:
            self.heard.append(seq)

    def _flush(self) -> None:
        self._writer.write(self._side.data_to_send())

    async def listen(self) -> None:
        """Until there was something to hear."""
        self._side.receive_data(await self._reader.read(65_536))
        while (event := self._side.next_event()) is not None:
            if isinstance(event, Start):
                self.heard += [task.pair for task in event.tasks]
        self._flush()

    async def hear(self, count: int) -> None:
        while len(self.heard) < count:
            await self.listen()

    def announce(self) -> None:
        self._writer.write(encode(ANNOUNCE, 0, 0, 0, encode_announcement(1, 0, [Offer("hum")])))

    def end(self, pair: TaskPair | int) -> None:
        assert isinstance(pair, TaskPair)
        report = Report(1, Cause.EXIT, 0)
        self._side.end(TaskResult(pair.job_id, pair.task, success=True, status="done", report=report))
        self._flush()

    def answer(self, call: TaskPair | int) -> None:
        assert isinstance(call, int)
        self._writer.write(encode(RESULT, LAST | WHOLE, call, 0, b"\x07"))

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def run(home: Path) -> None:
    program = ForemanProgram(str(home), "memory:", Policy(grace=0.2))
    await program.start()
    store = program.server.committer.store = Turnstile()
    await store.open()
    worker = HandWorker(*await asyncio.open_unix_connection(home / "foreman.sock"))
    try:
        async with AsyncClient(str(socket_address(str(home)))) as client:
            await worker.listen()
            worker.announce()
            await client.submit("true", tasks=2)
            await worker.hear(1)
            call = client.call("hum")
            await until_async(lambda: program.server.call_timers.switchboard.waiting.count == 1, period=0)
            store.gate.clear()
            store.reached.clear()
            beside = asyncio.create_task(client.submit("true", held=True))
            await store.reached.wait()
            worker.end(worker.heard[0])  # while something else is written
            known = program.server.foreman.reactor.workers.find("hand-1")
            await until_async(lambda: known is not None and known.slots.by_tasks == 0, period=0)
            store.gate.set()
            await beside
            await worker.hear(2)
            worker.end(worker.heard[1])  # the other task: the call has not asked for the slot for long enough
            await worker.hear(3)
            worker.answer(worker.heard[2])
            assert await call == 7
    finally:
        await worker.close()
        await program.stop()


def test_a_slot_is_not_taken_from_a_job_while_the_end_of_its_task_waits_for_the_disk(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(run(tmp_path), 30))
