"""A ping-pong worker at a broker, which is a plain ROUTER here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import zmq
import zmq.asyncio
from tests.free_ports import find_port

from gandy.doors.pingpong.worker import PingPongService
from gandy.worker.commands import Commands

PATIENCE = 20.0  # seconds; far more than anything here takes on a busy machine


def make_commands() -> Commands:
    """`list_values`: after its bad value, the job `bad` goes on until the next job runs."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def list_values(data: bytes) -> AsyncIterator[object]:
        if data == b"good":
            begun.set()
            await ended.wait()
            yield b"good"
            return
        try:
            yield {}  # cannot be written as bytes
            await begun.wait()
            yield b"late"
        finally:
            ended.set()

    commands = Commands()
    commands.add(list_values)
    return commands


async def take_result(broker: zmq.asyncio.Socket) -> bytes:
    while True:
        frames = await asyncio.wait_for(broker.recv_multipart(), PATIENCE)
        if frames[2] not in (b"READY", b"PING"):
            return frames[2]


async def talk(folder: Path) -> list[bytes]:
    context = zmq.asyncio.Context()
    broker = context.socket(zmq.ROUTER)
    url = f"tcp://127.0.0.1:{find_port()}"
    broker.bind(url)
    service = PingPongService(url, "list_values", make_commands(), folder)
    running = asyncio.create_task(service.run())
    try:
        worker, *_ = await asyncio.wait_for(broker.recv_multipart(), PATIENCE)
        results = []
        for job in (b"bad", b"good", b"good"):
            await broker.send_multipart([worker, b"", job])
            results.append(await take_result(broker))
        return results
    finally:
        await service.stop()
        await running
        broker.close(0)
        context.term()


def test_what_follows_a_bad_value_is_not_the_result_of_the_next_job(tmp_path: Path) -> None:
    bad, *rest = asyncio.run(talk(tmp_path))
    assert bad.startswith(b"ERROR the value cannot be written as bytes")
    assert rest == [b"good", b"good"]
