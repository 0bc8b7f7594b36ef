"""Opens the ping-pong door of a foreman."""

from typing import Final, NamedTuple

from gandy.doors.door_socket import DoorSocket, ForemanRegistry, open_router
from gandy.doors.pingpong.door import PingPongDoor
from gandy.errors import ConfigError
from gandy.foreman.doors import OpenDoor
from gandy.foreman.server import Server
from gandy.net.exposure import check_bind, describe_audience
from gandy.wire.calls import encode_target

NAME: Final = "ping-pong"


class PingPongOpening(NamedTuple):
    """Implements `foreman.doors.DoorOpening`."""

    url: str
    curve: str | None  # the folder of keys for ZeroMQ
    command: str
    expiry: float  # seconds

    def check(self, insecure: bool) -> None:
        check_bind(self.url, curve=self.curve is not None, insecure=insecure)

    async def open(self, server: Server, home: str, insecure: bool) -> OpenDoor:  # noqa: ARG002 - as other doors
        try:
            encode_target(self.command)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        address = check_bind(self.url, curve=self.curve is not None, insecure=insecure)
        router = open_router(server, NAME, address, self.curve)
        door = PingPongDoor(server.call_timers.switchboard, ForemanRegistry(server), self.command, self.expiry)
        server.call_timers.add_door(DoorSocket(NAME, door, router, server.call_timers))
        audience = describe_audience(address.host) if self.curve is None else None
        return OpenDoor(f"{router.address} ({NAME}: {self.command})", audience)
