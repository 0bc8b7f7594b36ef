"""Opens the round-robin door of a foreman."""

import logging
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from gandy.doors.door_socket import DoorSocket, ForemanRegistry, open_router
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.door import RoundRobinDoor
from gandy.doors.roundrobin.message_ids import LAST_NUMBER, MessageIds
from gandy.doors.roundrobin.worker_calls import Times
from gandy.doors.roundrobin.worker_file import FILE_NAME, WorkerFile
from gandy.foreman.doors import OpenDoor
from gandy.foreman.server import Server
from gandy.interfaces import ANY, ANY_IPV4
from gandy.net.exposure import check_bind, describe_audience

NAME: Final = "round-robin"
ANYWHERE: Final = (ANY_IPV4, ANY, "*")

log = logging.getLogger("gandy.foreman")


class RoundRobinOpening(NamedTuple):
    """Implements `foreman.doors.DoorOpening`."""

    url: str
    curve: str | None  # the folder of keys for ZeroMQ
    commands: tuple[str, ...]  # CODE=NAME
    expiry: float  # seconds
    limit: float  # seconds

    def check(self, insecure: bool) -> None:
        check_bind(self.url, curve=self.curve is not None, insecure=insecure)

    async def open(self, server: Server, home: str, insecure: bool) -> OpenDoor:
        address = check_bind(self.url, curve=self.curve is not None, insecure=insecure)
        router = open_router(server, NAME, address, self.curve)
        times = Times(expiry=self.expiry, call_limit=self.limit)
        codes, ids = CommandCodes(self.commands), MessageIds(secrets.randbelow(LAST_NUMBER))
        door = RoundRobinDoor(server.foreman.switchboard, ForemanRegistry(server), codes, times, ids)
        file = WorkerFile(Path(home) / FILE_NAME, door.workers)
        file.open(server.call_timers.begin())
        server.on_stop.append(file.save)
        if address.host in ANYWHERE:
            log.warning(
                "original peers of the round-robin queue call their server by the address that they connect to: "
                "let it listen at that one, not at %s",
                address.host,
            )
        server.call_timers.add_door(DoorSocket(NAME, door, router, server.call_timers))
        audience = describe_audience(address.host) if self.curve is None else None
        return OpenDoor(f"{router.address} ({NAME})", audience)
