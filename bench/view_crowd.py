"""Many viewers in one process: each has a link to the foreman, watches the crew, and reads all that comes.

What they read is not decoded, because viewers elsewhere would do that. Prints a line when all of them see the crew,
and then, for each line that it reads, how many bytes have come since.

python -m bench.view_crowd ADDRESS VIEWERS
"""

import asyncio
import sys
from functools import partial
from typing import Final

from gandy.client.conversation import Conversation, ForemanReady, Replied
from gandy.config import parse_address
from gandy.core.requests import WatchCrew
from gandy.core.shards import NO_SHARD
from gandy.net import loop
from gandy.net.links import SocketLink
from gandy.net.open_files import allow_many_files
from gandy.reach import Reach

FIRST_SECONDS: Final = 60.0  # until all viewers see the crew


class ViewingClient:
    """A viewer that reads everything and shows nothing."""

    def __init__(self) -> None:
        self.is_shown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.bytes_read = 0
        self._conversation = Conversation()

    def on_link(self, link: SocketLink) -> None:
        link.write(self._conversation.data_to_send())

    def on_data(self, link: SocketLink, data: bytes) -> None:
        self.bytes_read += len(data)
        if self.is_shown.done():
            return
        self._conversation.receive_data(data)
        while (event := self._conversation.next_event()) is not None:
            if isinstance(event, ForemanReady):
                self._conversation.ask(WatchCrew(NO_SHARD))
            elif isinstance(event, Replied):
                self.is_shown.set_result(None)
                return
        link.write(self._conversation.data_to_send())

    def on_cut(self, _link: SocketLink) -> None:
        asyncio.get_running_loop().stop()


async def main(address: str, count: int) -> None:
    allow_many_files()
    reach = Reach((parse_address(address),))
    viewers = [ViewingClient() for _ in range(count)]
    for viewer in viewers:
        await reach.dial(partial(_make_link, viewer))
    async with asyncio.timeout(FIRST_SECONDS):
        await asyncio.gather(*(viewer.is_shown for viewer in viewers))
    print("shown", flush=True)
    before = 0
    while await asyncio.to_thread(sys.stdin.readline):
        read = sum(viewer.bytes_read for viewer in viewers)
        print(read - before, flush=True)
        before = read


def _make_link(viewer: ViewingClient, _address: object) -> SocketLink:
    return SocketLink(viewer)


if __name__ == "__main__":
    loop.run(main(sys.argv[1], int(sys.argv[2])))
