"""Other ways to ask a process through a third one: NATS with nats-py, and a pyzmq ROUTER/ROUTER broker.

python -m bench.brokers nats-worker URL
python -m bench.brokers zmq-broker FRONT BACK
python -m bench.brokers zmq-worker BACK
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SUBJECT = "echo"


def find_missing(name: str) -> str:
    """Why a peer cannot be measured, if so."""
    if name == "nats":
        missing = [] if shutil.which("nats-server") else ["nats-server"]
        missing += [] if find_spec("nats") else ["nats-py"]
    else:
        missing = [] if find_spec("zmq") else ["pyzmq"]
    return " and ".join(missing)


@contextmanager
def programs(*commands: list[str]) -> Iterator[None]:
    running = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(0.5)  # nobody tells when it listens
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


@contextmanager
def nats() -> Iterator[str]:
    port = _find_port()
    url = f"nats://127.0.0.1:{port}"
    server = ["nats-server", "-a", "127.0.0.1", "-p", str(port)]
    with programs(server, [sys.executable, "-m", "bench.brokers", "nats-worker", url]):
        yield url


@contextmanager
def zmq_broker(folder: Path) -> Iterator[str]:
    front, back = f"ipc://{folder}/front", f"ipc://{folder}/back"
    module = [sys.executable, "-m", "bench.brokers"]
    with programs([*module, "zmq-broker", front, back], [*module, "zmq-worker", back]):
        yield front


async def connect_nats(url: str, body: bytes) -> tuple[Callable[[], Awaitable[Any]], Callable[[], Awaitable[None]]]:
    """How to ask once, and how to end."""
    link = await import_module("nats").connect(url)
    return (lambda: link.request(SUBJECT, body, timeout=30)), link.close


async def connect_zmq(url: str, body: bytes) -> tuple[Callable[[], Awaitable[Any]], Callable[[], Awaitable[None]]]:
    """The same. Answers are matched by a number, as any program with many questions must do."""
    zmq, aio = import_module("zmq"), import_module("zmq.asyncio")
    link = aio.Context.instance().socket(zmq.DEALER)
    link.connect(url)
    waiting: dict[bytes, asyncio.Future[bytes]] = {}
    count = 0

    async def read() -> None:
        while True:
            number, answer = await link.recv_multipart()
            waiting.pop(number).set_result(answer)

    reader = asyncio.create_task(read())

    async def ask() -> bytes:
        nonlocal count
        count += 1
        number = count.to_bytes(8, "big")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        waiting[number] = answer
        await link.send_multipart((number, body))
        return await answer

    async def end() -> None:
        reader.cancel()
        link.close(0)

    return ask, end


async def _nats_worker(url: str) -> None:
    link = await import_module("nats").connect(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await link.subscribe(SUBJECT, cb=answer)
    await asyncio.Event().wait()


def _zmq_broker(front_url: str, back_url: str) -> None:
    """As in the guide: ROUTER on both sides, and the worker has said that it is there."""
    zmq = import_module("zmq")
    context = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
    front.bind(front_url)
    back.bind(back_url)
    worker, _ = back.recv_multipart()
    poller = zmq.Poller()
    poller.register(front, zmq.POLLIN)
    poller.register(back, zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if front in ready:
            _pass_on(zmq, front, back, lambda parts: (worker, *parts))
        if back in ready:
            _pass_on(zmq, back, front, lambda parts: parts[1:])


def _pass_on(zmq: Any, source: Any, sink: Any, change: Callable[[Any], Any]) -> None:
    while True:
        try:
            parts = source.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        sink.send_multipart(change(parts))


def _zmq_worker(url: str) -> None:
    zmq = import_module("zmq")
    link = zmq.Context().socket(zmq.DEALER)
    link.connect(url)
    link.send(b"ready")
    while True:
        link.send_multipart(link.recv_multipart())


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["nats-worker", url]:
            import_module("uvloop").run(_nats_worker(url))
        case ["zmq-broker", front, back]:
            _zmq_broker(front, back)
        case ["zmq-worker", back]:
            _zmq_worker(back)
        case _:
            sys.exit(__doc__)
