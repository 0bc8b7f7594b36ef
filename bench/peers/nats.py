"""NATS with nats-py on uvloop: by its request API, and by one shared inbox with futures kept by hand, its fastest way.

python -m bench.peers.nats URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from bench import servers
from bench.asking import BODY, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import Contestant, Place, Work
from bench.processes import running

SUBJECT = "echo"
PENDING_BYTES = 64 * 1024 * 1024  # nats-py drops what comes beyond this


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Ask]:
    import nats

    link = await nats.connect(url)
    yield lambda: link.request(SUBJECT, BODY, timeout=30)
    await link.close()


@asynccontextmanager
async def connect_by_hand(url: str) -> AsyncIterator[Ask]:
    """Each answer comes to a subject below our inbox, whose last word is the number of its request."""
    import nats

    link = await nats.connect(url)
    inbox, loop = link.new_inbox(), asyncio.get_running_loop()
    waiting: dict[str, asyncio.Future[bytes]] = {}
    count = 0

    async def on_answer(message: Any) -> None:
        waiting.pop(message.subject.rpartition(".")[2]).set_result(message.data)

    await link.subscribe(f"{inbox}.*", cb=on_answer, pending_bytes_limit=PENDING_BYTES)

    async def ask() -> bytes:
        nonlocal count
        count += 1
        answer: asyncio.Future[bytes] = loop.create_future()
        waiting[str(count)] = answer
        await link.publish(SUBJECT, BODY, reply=f"{inbox}.{count}")
        return await answer

    yield ask
    await link.close()


Connect = Callable[[str], AbstractAsyncContextManager[Ask]]


@contextmanager
def calls(place: Place, way: Way, connect: Connect) -> Iterator[Work]:
    with ExitStack() as held:
        url = held.enter_context(servers.nats(place))
        held.enter_context(running(sys.executable, "-m", "bench.peers.nats", url))
        yield held.enter_context(asking(wait_for_worker(connect(url)), way))


@asynccontextmanager
async def wait_for_worker(connected: AbstractAsyncContextManager[Ask]) -> AsyncIterator[Ask]:
    from nats.errors import NoRespondersError

    async with connected as ask:
        while True:
            try:
                await asyncio.wait_for(ask(), 1)
            except (NoRespondersError, TimeoutError):
                await asyncio.sleep(0.05)
            else:
                break
        yield ask


async def serve(url: str) -> None:
    import nats

    link = await nats.connect(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data)

    await link.subscribe(SUBJECT, cb=answer)
    await asyncio.Event().wait()


make = partial(
    Contestant, environment="peers", packages=("nats-py", "uvloop"), programs=("nats-server",), durability="none"
)
request, by_hand = "NATS, request API", "NATS, shared inbox by hand"

CONTESTANTS = (
    make("call_latency", request, partial(calls, way=one_by_one, connect=connect)),
    make("call_latency", by_hand, partial(calls, way=one_by_one, connect=connect_by_hand)),
    make("calls_in_flight", request, partial(calls, way=many_in_flight, connect=connect)),
    make("calls_in_flight", by_hand, partial(calls, way=many_in_flight, connect=connect_by_hand)),
)

if __name__ == "__main__":
    import_module("uvloop").run(serve(sys.argv[1]))
