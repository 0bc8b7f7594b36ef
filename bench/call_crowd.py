"""Many workers in one process: each has a link to the foreman, and answers every call at once.

python -m bench.call_crowd ADDRESS WORKERS
"""

import asyncio
import resource
import sys

import uvloop

from gandy.config import parse_address
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.talk.worker import WorkerSide
from gandy.wire.calls import ANNOUNCE, CALL, LAST, RESULT, WHOLE, Offer, encode, encode_announcement
from gandy.wire.messages import About, Extension

SLOTS = 4


class AnsweringWorker:
    """A worker that answers every call at once."""

    def __init__(self, number: int) -> None:
        about = About(f"crowd-{number}", f"crowd{number}", SLOTS)
        self._side = WorkerSide(SLOTS, about, offers=Extension.ATOMIC | Extension.CALLS, on_call=self._on_call)
        self._out: list[bytes] = []
        self._is_welcome = False

    def _on_call(self, kind: int, _subtype: int, seq: int, _padding: int, _payload: bytes) -> None:
        if kind == CALL:
            self._out.append(encode(RESULT, LAST | WHOLE, seq, 0, b"\xc0"))

    def on_link(self, link: SocketLink) -> None:
        self._side.connect()
        link.write(self._side.data_to_send())

    def on_data(self, link: SocketLink, data: bytes) -> None:
        self._side.receive_data(data)
        while self._side.next_event() is not None:
            if not self._is_welcome:
                self._is_welcome = True
                self._out.append(encode(ANNOUNCE, 0, 0, 0, encode_announcement(SLOTS, 0, [Offer("crowd")])))
        link.write(self._side.data_to_send() + b"".join(self._out))
        self._out.clear()

    def on_cut(self, _link: SocketLink) -> None:
        asyncio.get_running_loop().stop()


async def main(address: str, count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 100)), hard))
    for number in range(count):
        worker = AnsweringWorker(number)
        await Reach((parse_address(address),)).dial(lambda _address, worker=worker: SocketLink(worker))  # type: ignore[misc]
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
