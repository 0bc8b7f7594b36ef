"""Asks a foreman where the shards of the crew are, over a link of its own that is closed again at once.

It says nothing of what the worker holds: over a link that names no shard, any shard may answer, and a foreman that is
told that a worker has none of its tasks takes them for lost.
"""

import asyncio
from typing import Final

from gandy.core.extensions import DIRECTORY, decode_directory
from gandy.core.shards import Directory
from gandy.errors import REFUSALS, LinkError, NotAllowed, RemoteProtocolError
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.talk.events import ExtensionReceived, HelloRefused, Welcomed
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import Extension

ANSWER_SECONDS: Final = 5.0


async def look(reach: Reach) -> Directory | None:
    """Ask the first foreman that answers. None: the crew has a single foreman.

    Raises: LinkError: none answers. ConfigError, NotAllowed: trying again does not help.
    """
    lookout = Lookout()
    link = await reach.dial(lambda _address: SocketLink(lookout))
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await lookout.found
    except TimeoutError:
        raise LinkError("the foreman does not say where the shards are") from None
    finally:
        link.abort()


class Lookout:
    """One link, as a worker without slots and without a name."""

    def __init__(self) -> None:
        self.found: asyncio.Future[Directory | None] = asyncio.get_running_loop().create_future()
        self._side = WorkerSide(1, offers=Extension.ATOMIC | Extension.SHARDS)
        self._side.slots.limit = 0

    def on_link(self, link: SocketLink) -> None:
        self._side.connect()
        link.write(self._side.data_to_send())

    def on_data(self, link: SocketLink, data: bytes) -> None:
        self._side.receive_data(data)
        try:
            while not self.found.done() and (event := self._side.next_event()) is not None:
                match event:
                    case Welcomed(extensions) if Extension.SHARDS not in extensions:
                        self.found.set_result(None)
                    case ExtensionReceived(_, kind, payload) if kind == DIRECTORY:
                        directory = decode_directory(payload)
                        if directory.shards:  # else the foreman starts just now, and says more in a moment
                            self.found.set_result(directory)
                    case HelloRefused():
                        self._fail("the foreman refuses this worker")
                    case _:
                        pass
        except RemoteProtocolError as error:
            if error.code in REFUSALS:
                self.found.set_exception(NotAllowed(str(error)))
            self._fail(str(error))
        link.write(self._side.data_to_send())

    def on_cut(self, _link: SocketLink) -> None:
        self._side.disconnect()
        self._fail("the link was cut")

    def _fail(self, why: str) -> None:
        if not self.found.done():
            self.found.set_exception(LinkError(f"cannot learn where the shards are: {why}"))
