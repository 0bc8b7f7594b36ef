"""Opens the door for first-generation workers: another conversation, the same foreman."""

from typing import NamedTuple

from gandy.config import parse_address
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.errors import ConfigError
from gandy.foreman.doors import NO_KEYS, OpenDoor
from gandy.foreman.server import Server
from gandy.net.exposure import describe_audience
from gandy.net.links import SocketLink


class V1Opening(NamedTuple):
    """Implements `foreman.doors.DoorOpening`."""

    url: str

    def check(self, insecure: bool) -> None:
        if parse_address(self.url).scheme != "unix" and not insecure:
            raise ConfigError(f"{self.url} {NO_KEYS}. The first generation has none: unix:PATH is for you alone")

    async def open(self, server: Server, home: str, insecure: bool) -> OpenDoor:  # noqa: ARG002 - as other doors
        address = parse_address(self.url)
        await server.listen(address, _V1Links(server))
        return OpenDoor(f"{address} (v1)", None if address.scheme == "unix" else describe_audience(address.host))


class _V1Links:
    """Implements `net.links.LinkOwner`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.on_data = server.on_data
        self.on_cut = server.on_cut

    def on_link(self, link: SocketLink) -> None:
        self._server.on_link(link, V1ForemanSide())
