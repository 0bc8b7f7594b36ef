"""How clients and workers reach their foreman: where it may be, in which order, and with which key.

Discovery and addresses tell where, never whom to trust: over the network a foreman is known by its fingerprint, and on
a unix socket by its user.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.config import SOCKET_NAME, Address, parse_address, tell_home
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, GandyError, LinkError, NotAllowed
from gandy.keys.crew import CREW, CrewKeys, is_pinned
from gandy.net.links import is_foreign
from gandy.net.tls import NotAdmitted, TlsEnd, TlsTransport
from gandy.wire.joining import ALPN_NATIVE

if TYPE_CHECKING:
    from gandy.bus import Ensemble

CONNECT_SECONDS: Final = 5.0

P = TypeVar("P", bound=asyncio.Protocol)


class Reach:
    """Places where the foreman may be, the likeliest first, and our key."""

    def __init__(self, places: tuple[Address, ...], keys: CrewKeys | None = None, insecure: bool = False) -> None:
        self.places = places
        self.keys = keys
        self._insecure = insecure  # whether what discovery finds may be without TLS
        self._context: ssl.SSLContext | None = None
        self.band: Ensemble | None = None  # of who is in the ensemble anyway: there the foreman is looked for

    def __str__(self) -> str:
        return " or ".join(map(str, self.places))

    async def dial(self, make: Callable[[Address], P]) -> P:
        """A link to the foreman.

        Raises: LinkError: nobody is there. NotAllowed, ConfigError: trying again does not help.
        """
        problems: list[GandyError] = []
        for place in self.places:
            try:
                found = await self._locate(place)
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._open(found, make)
            except TimeoutError:
                problems.append(LinkError(f"cannot reach a foreman at {place}: no answer in time"))
            except LinkError as error:
                problems.append(error)
            except NotAllowed as error:
                if place.scheme != "ensemble":
                    raise
                problems.append(LinkError(str(error)))  # somebody else poses as the foreman there; ours may come yet
        raise problems[0] if len(problems) == 1 else LinkError("; ".join(map(str, problems)))

    async def _locate(self, place: Address) -> Address:
        """One that is looked for in an ensemble may be elsewhere each time."""
        if place.scheme != "ensemble":
            return place
        from gandy.bus.crew import ask_foreman, find_foreman  # only for those who need it

        if self.band is not None and self.band.name == place.host:
            found = parse_address(await asyncio.to_thread(ask_foreman, self.band))
        else:
            found = parse_address(await asyncio.to_thread(find_foreman, place.host, insecure=self._insecure))
        if found.scheme == "plain" and not self._insecure:
            raise LinkError(f"a foreman in {place.host} says that it is at {found}, without keys; is that --insecure?")
        return found

    async def _open(self, place: Address, make: Callable[[Address], P]) -> P:
        loop = asyncio.get_running_loop()
        try:
            if place.scheme == "unix":
                transport, made = await loop.create_unix_connection(lambda: make(place), place.host)
                _check_user(place, transport)
                return made
            if place.scheme == "plain":
                return (await loop.create_connection(lambda: make(place), place.host, place.port))[1]
            return await self._open_tls(place, make)
        except (FileNotFoundError, ConnectionRefusedError):
            hint = (
                "start one with 'gandy up'"
                if place.scheme == "unix"
                else "there, 'gandy foreman run --listen' starts one"
            )
            raise LinkError(f"no foreman is running at {place}; {hint}") from None
        except OSError as error:
            raise LinkError(f"cannot reach a foreman at {place}: {error.strerror or error}") from None

    async def _open_tls(self, place: Address, make: Callable[[Address], P]) -> P:
        if self.keys is None:
            raise ConfigError(
                f"there is no key for {place}: on the foreman's machine 'gandy invite' prints a line that makes one. "
                f"For a foreman that was started without keys, write plain://{str(place).removeprefix('tcp://')}"
            )
        if self._context is None:
            self._context = self.keys.make_context()
            self._context.set_alpn_protocols([ALPN_NATIVE])
        made: list[P] = []
        pin = self.keys.about.foreman

        def admit(transport: TlsTransport) -> P | None:
            certificate = transport.tls.getpeercert(binary_form=True)
            if certificate is None or not is_pinned(certificate, pin):
                return None  # and nothing is said to it
            made.append(make(place))
            return made[0]

        context = self._context
        loop = asyncio.get_running_loop()
        transport, end = await loop.create_connection(
            lambda: TlsEnd(context, admit, is_server=False), place.host, place.port
        )
        try:
            error = await end.done
        except BaseException:
            transport.abort()
            raise
        if made:
            return made[0]
        raise _explain(place, error)


def _explain(place: Address, error: Exception | None) -> GandyError:
    if isinstance(error, NotAdmitted):
        return NotAllowed(f"what listens at {place} is not our foreman: its certificate is another one")
    if isinstance(error, ssl.SSLError):
        return LinkError(f"what listens at {place} does not speak as a gandy foreman: {error.reason or error}")
    return LinkError(f"cannot reach a foreman at {place}: {error}")


def _check_user(place: Address, transport: asyncio.BaseTransport) -> None:
    """Raises: NotAllowed. Anybody can make a socket somewhere, and tell us that it is our foreman's."""
    if is_foreign(transport.get_extra_info("socket")):
        transport.close()
        raise NotAllowed(f"what listens at {place} belongs to another user")


def find_reach(
    told: str | None,
    environ: Mapping[str, str],
    platform: str,
    role: CrewRole = CrewRole.CLIENT,
    insecure: bool = False,
) -> Reach:
    """In this order: what somebody told, GANDY_FOREMAN, what `gandy join` kept, the unix socket, the ensemble.

    Raises: ConfigError; LinkError and NotAllowed, where GANDY_TOKEN does not let us join.
    """
    home = tell_home(environ, platform)
    keys = find_keys(home, environ, role)
    if where := told or environ.get("GANDY_FOREMAN"):
        return Reach((parse_address(where),), keys, insecure)
    ensemble = environ.get("GANDY_ENSEMBLE", "")
    places: list[Address] = []
    if keys is not None and keys.about.addresses:
        places += map(parse_address, keys.about.addresses)
        ensemble = keys.about.ensemble or ensemble
    else:
        places.append(parse_address(f"unix:{Path(home) / SOCKET_NAME}"))
    if ensemble:
        places.append(parse_address(f"ensemble:{ensemble}"))
    return Reach(tuple(places), keys, insecure)


def find_keys(home: str, environ: Mapping[str, str], role: CrewRole) -> CrewKeys | None:
    """What `gandy join` kept, or GANDY_TOKEN gives; else those that the foreman of this home made for the role.

    Raises: ConfigError, LinkError, NotAllowed.
    """
    joined = CrewKeys.find(Path(home) / CREW)
    if token := environ.get("GANDY_TOKEN"):
        joined = _join_once(token, home, joined)
    return joined if joined is not None else CrewKeys.find(Path(home) / "keys" / role)


def _join_once(token: str, home: str, joined: CrewKeys | None) -> CrewKeys:
    from gandy.net.join import join
    from gandy.wire.joining import parse_token

    invitation = parse_token(token).invitation
    if joined is not None and joined.about.invitation == invitation:
        return joined
    try:
        return join(token, home)
    except NotAllowed:
        again = CrewKeys.find(Path(home) / CREW)  # another process of this home may have been quicker
        if again is not None and again.about.invitation == invitation:
            return again
        raise
