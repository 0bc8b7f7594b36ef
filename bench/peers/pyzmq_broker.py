"""A broker of two ROUTER sockets with pyzmq, as the ZeroMQ guide has it, and a worker behind it.

python -m bench.peers.pyzmq_broker broker FRONT BACK
python -m bench.peers.pyzmq_broker worker BACK
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from bench.asking import BODY, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import Contestant, Place, Work
from bench.processes import running


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Ask]:
    """Answers are matched by a number, as any program with many requests must do."""
    import zmq
    import zmq.asyncio

    link = zmq.asyncio.Context.instance().socket(zmq.DEALER)
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
        await link.send_multipart((number, BODY))
        return await answer

    await ask()  # all are there
    yield ask
    reader.cancel()
    link.close(0)


@contextmanager
def calls(place: Place, way: Way) -> Iterator[Work]:
    front, back = f"ipc://{place.folder}/front", f"ipc://{place.folder}/back"
    program = (sys.executable, "-m", "bench.peers.pyzmq_broker")
    broker, worker = (*program, "broker", front, back), (*program, "worker", back)
    with running(*broker), running(*worker), asking(connect(front), way) as work:
        yield work


def relay(front_url: str, back_url: str) -> None:
    """The worker must have registered before anything is forwarded."""
    import zmq

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
            _pass_on(front, back, lambda parts: (worker, *parts))
        if back in ready:
            _pass_on(back, front, lambda parts: parts[1:])


def _pass_on(source: Any, sink: Any, change: Callable[[Any], Any]) -> None:
    import zmq

    while True:
        try:
            parts = source.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        sink.send_multipart(change(parts))


def serve(url: str) -> None:
    import zmq

    link = zmq.Context().socket(zmq.DEALER)
    link.connect(url)
    link.send(b"ready")
    while True:
        link.send_multipart(link.recv_multipart())


make = partial(Contestant, environment="peers", packages=("pyzmq", "uvloop"))

CONTESTANTS = (
    make("call_latency", "pyzmq broker", partial(calls, way=one_by_one)),
    make("calls_in_flight", "pyzmq broker", partial(calls, way=many_in_flight), count=20_000),
)

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["broker", front, back]:
            relay(front, back)
        case ["worker", back]:
            serve(back)
        case _:
            sys.exit(__doc__)
