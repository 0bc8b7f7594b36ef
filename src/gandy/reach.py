"""How clients and workers reach their foreman: where it may be, in which order, and with which key.

Discovery and addresses show where a foreman is, never that it can be trusted. A peer recognises its foremen by the
identity of the crew over the network, and by the owner of the socket on a unix socket.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.config import SOCKET_NAME, Address, find_home, parse_address
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, GandyError, LinkError, NotAllowed, NothingListens
from gandy.keys.crew import CREW, CrewKeys
from gandy.keys.ensemble import OWN_FOLDER
from gandy.keys.files import lock_folder
from gandy.net.links import is_foreign
from gandy.net.tls import NotAdmitted, TlsEnd, TlsTransport
from gandy.wire import server_names
from gandy.wire.joining import ALPN_NATIVE

if TYPE_CHECKING:
    from gandy.bus import Ensemble

CONNECT_SECONDS: Final = 5.0
BACKLOG_PAUSE: Final = 0.01  # seconds

P = TypeVar("P", bound=asyncio.Protocol)


class Reach:
    """Places where the foreman may be, the most likely first, and our key."""

    def __init__(self, places: tuple[Address, ...], keys: CrewKeys | None = None, insecure: bool = False) -> None:
        self.places = places
        self.keys = keys
        self._insecure = insecure  # discovery may return foremen without TLS
        self._context: ssl.SSLContext | None = None
        self.ensemble: Ensemble | None = None  # if this process is in one already, the foreman is searched there

    def __str__(self) -> str:
        return " or ".join(map(str, self.places))

    async def dial(self, make: Callable[[Address], P]) -> P:
        """Connect to the foreman, with the protocol that `make` makes.

        Raises: LinkError: no foreman is there, or the wrong one. ConfigError: trying again does not help.
        """
        problems: list[LinkError] = []
        for place in self.places:
            try:
                return await (self._seek(place, make) if place.scheme == "ensemble" else self._try(place, make))
            except LinkError as error:
                problems.append(error)
        raise _join(problems)

    async def dial_shard(self, shard: int, places: tuple[Address, ...], make: Callable[[Address], P]) -> P:
        """Connect to the owner of a shard, at one of these places, which a foreman told. Raises: as `dial`."""
        problems: list[LinkError] = []
        for place in places:
            try:
                if place.scheme not in ("unix", "tcp"):  # a foreman sends us to no place without keys
                    raise LinkError(f"no shard is at {place}")
                return await self._try(place, make, server_names.format_shard_name(shard))
            except LinkError as error:
                problems.append(error)
        raise _join(problems) if problems else LinkError(f"no foreman owns shard {shard}")

    async def _seek(self, place: Address, make: Callable[[Address], P]) -> P:
        """Find the foreman of an ensemble. It may have moved, and other processes may pose as it.

        A peer that has joined a crew also searches the network, and trusts nothing but the certificate.
        """
        from gandy.bus.crew import Search  # slow to import, and seldom needed

        pin = self.keys.about.foreman if self.keys is not None and self.keys.has_joined else ""
        problems: list[GandyError] = []
        try:
            ensemble = self.ensemble if self.ensemble is not None and self.ensemble.name == place.host else None
            search = await asyncio.to_thread(Search, place.host, pin, insecure=self._insecure, ensemble=ensemble)
        except ConfigError as error:  # too many processes of the bus are on this machine
            raise LinkError(f"cannot look for the foreman in {place.host}: {error}") from None
        try:
            while found := await asyncio.to_thread(search.find_more):
                for each in found:
                    try:
                        made = await self._try_found(each, make, place)
                    except (LinkError, ConfigError) as error:
                        problems.append(error)
                    else:
                        self._remember(each)
                        return made
        finally:
            await asyncio.to_thread(search.close)
        if not problems:
            hint = "" if pin or self._insecure else ", or join the crew of one on another machine with 'gandy join'"
            raise LinkError(f"{search.explain()}; start one with 'gandy foreman run --ensemble'{hint}")
        if all(isinstance(error, ConfigError) for error in problems):
            raise problems[0]
        raise LinkError("; ".join(map(str, problems)))

    async def _try_found(self, found: Address, make: Callable[[Address], P], place: Address) -> P:
        if found.scheme == "plain" and not self._insecure:
            raise LinkError(f"a foreman in {place.host} says it is at {found}, without keys; --insecure allows that")
        return await self._try(found, make)

    def _remember(self, found: Address) -> None:
        """Save the address, so that the next connection needs no search."""
        if self.keys is None or not self.keys.has_joined:
            return
        self.keys.remember(str(found))
        if len(self.places) > 1:  # unless the user said where to look
            ensembles = [place for place in self.places if place.scheme == "ensemble"]
            self.places = (*map(parse_address, self.keys.about.addresses), *ensembles)

    def add_places(self, places: Iterable[str]) -> "Reach":
        """A reach with these places, too, after our own."""
        found = Reach(tuple(dict.fromkeys((*self.places, *map(parse_address, places)))), self.keys, self._insecure)
        found.ensemble = self.ensemble
        return found

    def remember_foremen(self, foremen: Iterable[Iterable[str]]) -> None:
        """Save the addresses of all foremen of a crew that this process has joined, for its next start."""
        if self.keys is not None and self.keys.has_joined:
            rows = zip_longest(*foremen)  # the first address of each foreman before the second of any
            addresses = [address for row in rows for address in row if address is not None]
            self.keys.remember_all(address for address in addresses if address.startswith("tcp://"))

    async def _try(self, place: Address, make: Callable[[Address], P], name: str = server_names.FOREMAN) -> P:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._open(place, make, name)
        except TimeoutError:
            raise LinkError(f"cannot reach a foreman at {place}: no answer in time") from None

    async def _open(self, place: Address, make: Callable[[Address], P], name: str) -> P:
        loop = asyncio.get_running_loop()
        try:
            if place.scheme == "unix":
                link = await _connect_unix(place)
                return (await loop.create_unix_connection(lambda: make(place), sock=link))[1]
            if place.scheme == "plain":
                return (await loop.create_connection(lambda: make(place), place.host, place.port))[1]
            return await self._open_tls(place, make, name)
        except (FileNotFoundError, ConnectionRefusedError):
            hint = (
                "start one with 'gandy up'"
                if place.scheme == "unix"
                else "there, 'gandy foreman run --listen' starts one"
            )
            raise NothingListens(f"no foreman is running at {place}; {hint}") from None
        except OSError as error:
            raise LinkError(f"cannot reach a foreman at {place}: {error.strerror or error}") from None
        except ValueError:  # from the codec for host names: a..b
            raise LinkError(f"cannot reach a foreman at {place}: that is not a host name") from None

    async def _open_tls(self, place: Address, make: Callable[[Address], P], name: str) -> P:
        keys = self.keys
        if keys is None:
            raise ConfigError(
                f"there is no key for {place}: on the foreman's machine 'gandy invite' prints a line that makes one. "
                f"For a foreman that was started without keys, write plain://{str(place).removeprefix('tcp://')}"
            )
        if self._context is None:
            self._context = keys.make_context()
            self._context.set_alpn_protocols([ALPN_NATIVE])
        made: list[P] = []

        def admit(transport: TlsTransport) -> P | None:
            if not keys.is_foreman(transport.session):
                return None  # the link is closed, and nothing is sent over it
            made.append(make(place))
            return made[0]

        context = self._context
        loop = asyncio.get_running_loop()
        transport, end = await loop.create_connection(
            lambda: TlsEnd(context, admit, is_server=False, server_name=keys.choose_server_name(name)),
            place.host,
            place.port,
        )
        try:
            error = await end.done
        except BaseException:
            transport.abort()
            raise
        if made:
            return made[0]
        raise _explain(place, error)


def _join(problems: list[LinkError]) -> LinkError:
    """One error for all places that were tried."""
    kind = NothingListens if all(isinstance(each, NothingListens) for each in problems) else LinkError
    return problems[0] if len(problems) == 1 else kind("; ".join(map(str, problems)))


def _explain(place: Address, error: Exception | None) -> GandyError:
    """Return the error for a TLS link that failed: a LinkError, since our foreman may be there later."""
    if isinstance(error, NotAdmitted | ssl.SSLCertVerificationError):
        return LinkError(f"what listens at {place} is not our foreman: its certificate is another one")
    if isinstance(error, ssl.SSLError):
        return LinkError(f"what listens at {place} does not speak as a gandy foreman: {error.reason or error}")
    return LinkError(f"cannot reach a foreman at {place}: {error}")


async def _connect_unix(place: Address) -> socket.socket:
    """Connect to a socket of our own user: another user may have made one to pose as our foreman.

    Raises: LinkError, OSError.
    """
    link = socket.socket(socket.AF_UNIX)
    link.setblocking(False)
    try:
        while True:
            try:
                link.connect(place.host)
                break
            except BlockingIOError:  # too many connections wait to be accepted
                await asyncio.sleep(BACKLOG_PAUSE)
        if is_foreign(link):  # before anything is sent
            raise LinkError(f"what listens at {place} belongs to another user")
    except BaseException:
        link.close()
        raise
    return link


def find_reach(
    address: str | None,
    environ: Mapping[str, str],
    platform: str,
    role: CrewRole = CrewRole.CLIENT,
    insecure: bool = False,
) -> Reach:
    """Choose the places to try: the address, else GANDY_FOREMAN; else those that `gandy join` saved, or the unix
    socket, and then the ensembles.

    Raises: ConfigError; LinkError and NotAllowed, if joining with GANDY_TOKEN fails.
    """
    home = find_home(environ, platform)
    keys = find_keys(home, environ, role)
    if where := address or environ.get("GANDY_FOREMAN"):
        return Reach((parse_address(where),), keys, insecure)
    ensembles = [environ.get("GANDY_ENSEMBLE", "")]
    places: list[str] = []
    if keys is not None and keys.has_joined:
        places += keys.about.addresses
        ensembles.append(keys.about.ensemble)
    else:
        places.append(f"unix:{Path(home) / SOCKET_NAME}")
    places += [f"ensemble:{name}" for name in dict.fromkeys(ensembles) if name]
    return Reach(tuple(map(parse_address, places)), keys, insecure)


def find_keys(home: str, environ: Mapping[str, str], role: CrewRole) -> CrewKeys | None:
    """Return the keys that `gandy join` saved or GANDY_TOKEN gives; else those that this home's foreman made.

    Raises: ConfigError, LinkError, NotAllowed.
    """
    joined = CrewKeys.find(Path(home) / CREW)
    if token := environ.get("GANDY_TOKEN"):
        joined = _join_once(token, home, joined)
    return joined if joined is not None else CrewKeys.find(Path(home) / OWN_FOLDER / role)


def _join_once(token: str, home: str, joined: CrewKeys | None) -> CrewKeys:
    from gandy.wire.joining import parse_token

    try:
        opened = parse_token(token)
        if opened.role == CrewRole.FOREMAN:
            raise ConfigError("the token is for a foreman: use it with 'gandy join'")
        return _join_by(token, opened.invitation, home, joined)
    except (ConfigError, NotAllowed) as error:
        raise type(error)(f"GANDY_TOKEN: {error}") from None


def _join_by(token: str, invitation: str, home: str, joined: CrewKeys | None) -> CrewKeys:
    from gandy.net.join import join

    if joined is not None and joined.about.invitation == invitation:
        return joined
    folder = Path(home) / CREW
    with lock_folder(folder):
        joined = CrewKeys.find(folder)  # another process of this home may have joined first
        if joined is not None and joined.about.invitation == invitation:
            return joined
        return join(token, home)
