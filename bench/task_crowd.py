"""Many workers in one process: each has a link to the foreman, and ends every task at once.

python -m bench.task_crowd ADDRESS WORKERS
"""

import asyncio
import sys
from typing import Final

from msgspec import UNSET

from gandy.clocks import read_wall
from gandy.config import parse_address
from gandy.core.extensions import PING
from gandy.core.model import Cause
from gandy.functions.tag import PYTHON_TAG
from gandy.functions.tasks import pack_value
from gandy.moments import Wall
from gandy.net import loop
from gandy.net.links import SocketLink
from gandy.net.open_files import allow_many_files
from gandy.reach import Reach
from gandy.talk.events import Start
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import About, Extended, Extension, Report, Task, TaskResult
from gandy.worker.foreman_link import HEARTBEAT_PERIOD
from gandy.worker.main import AHEAD_PER_SLOT

SLOTS: Final = 2
OFFERS: Final = Extension.ATOMIC | Extension.HEARTBEAT | Extension.UPDATES
NOTHING: Final = pack_value(None)


class InstantWorker:
    """A worker whose tasks end at once."""

    def __init__(self, number: int) -> None:
        about = About(f"crowd-{number}", f"crowd{number}", SLOTS, (PYTHON_TAG,), ahead=SLOTS * AHEAD_PER_SLOT)
        self._side = WorkerSide(SLOTS, about, offers=OFFERS)

    def on_link(self, link: SocketLink) -> None:
        self._side.connect()
        self._flush(link)
        asyncio.get_running_loop().call_later(HEARTBEAT_PERIOD, self._beat, link)

    def on_data(self, link: SocketLink, data: bytes) -> None:
        self._side.receive_data(data)
        while (event := self._side.next_event()) is not None:
            if isinstance(event, Start):
                now = read_wall()
                for task in event.tasks:
                    self._side.end(end_at_once(task, now))
        self._flush(link)

    def on_cut(self, _link: SocketLink) -> None:
        asyncio.get_running_loop().stop()

    def _beat(self, link: SocketLink) -> None:
        self._side.framing.send_extended(Extended(PING, b""), 0)
        self._flush(link)
        asyncio.get_running_loop().call_later(HEARTBEAT_PERIOD, self._beat, link)

    def _flush(self, link: SocketLink) -> None:
        link.write(self._side.data_to_send())


def end_at_once(task: Task, now: Wall) -> TaskResult:
    orders = task.orders
    assert orders is not UNSET, "the foreman is gandy's"
    value = NOTHING if orders.python is not None else b""
    report = Report(orders.attempt, Cause.EXIT, 0, started=now, ended=now, result=value)
    return TaskResult(task.job.job_id, task.number, success=True, status="done", report=report)


async def main(address: str, count: int) -> None:
    allow_many_files()
    reach = Reach((parse_address(address),))
    for number in range(count):
        worker = InstantWorker(number)
        await reach.dial(lambda _address, worker=worker: SocketLink(worker))  # type: ignore[misc]
    await asyncio.Event().wait()


if __name__ == "__main__":
    loop.run(main(sys.argv[1], int(sys.argv[2])))
