"""How clients and workers reach their foreman: where it may be, in which order, and with which key.

Discovery and addresses show where a foreman is, never that it can be trusted. A peer recognises its foremen by the
identity of the crew over the network, and by the owner of the socket on a unix socket.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from gandy.config import SOCKET_NAME, Address, Addresses, find_home, parse_address, parse_addresses
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, GandyError, LinkError, NotAllowed, NothingListens
from gandy.keys.crew import CREW, CrewKeys
from gandy.keys.ensemble import OWN_FOLDER
from gandy.keys.files import lock_folder
from gandy.limits import MAX_FOREMAN_ADDRESSES
from gandy.moments import Wall
from gandy.net.links import is_foreign
from gandy.net.race import AllFailed, race
from gandy.net.tls import NotAdmitted, TlsEnd, TlsTransport
from gandy.wire import server_names
from gandy.wire.joining import ALPN_NATIVE

if TYPE_CHECKING:
    from gandy.bus import Ensemble

CONNECT_SECONDS: Final = 5.0
BACKLOG_PAUSE: Final = 0.01  # seconds

# Seconds after which the next place is tried, too: a machine that is gone may not even refuse.
STAGGER_SECONDS: Final = 0.3

# Seconds for which a peer relies on what it has learned about the foremen of its crew.
LEARN_SECONDS: Final = 86_400.0

TOO_LATE: Final = "another place was quicker"

P = TypeVar("P", bound=asyncio.Protocol)


class Reach:
    """Places where foremen of the crew may be, the most likely first, and our key."""

    def __init__(
        self,
        places: tuple[Address, ...],
        keys: CrewKeys | None = None,
        insecure: bool = False,
        is_chosen: bool = True,
    ) -> None:
        """`is_chosen`: the user said where to look."""
        self.places = places
        self.keys = keys
        self._insecure = insecure  # discovery may return foremen without TLS
        self._is_chosen = is_chosen
        self._first_places = places
        self._context: ssl.SSLContext | None = None
        self.ensemble: Ensemble | None = None  # if this process is in one already, the foreman is searched there

    def __str__(self) -> str:
        return " or ".join(map(str, self.places))

    async def dial(self, make: Callable[[Address], P]) -> P:
        """Connect to the first foreman that answers, with the protocol that `make` makes. It makes one only.

        Raises: LinkError: no foreman is there, or the wrong one. ConfigError: trying again does not help.
        """
        return await self._dial(self.places, _Maker(make))

    async def dial_greeted(
        self,
        make: Callable[[Address], P],
        greet: Callable[[P], Awaitable[None]],
        drop: Callable[[P], None],
    ) -> P:
        """Connect to the first foreman that `greet` has an answer from, and `drop` the others. Raises: as both do."""
        return await self._dial(self.places, _Maker(make, greet, drop))

    async def dial_shard(self, shard: int, places: tuple[Address, ...], make: Callable[[Address], P]) -> P:
        """Connect to the owner of a shard, at one of these places, which a foreman told. Raises: as `dial`."""
        fitting = tuple(place for place in places if place.scheme in ("unix", "tcp"))  # none without keys
        if not fitting:
            raise LinkError(f"no foreman owns shard {shard}")
        return await self._dial(fitting, _Maker(make), server_names.format_shard_name(shard))

    async def _dial(self, places: tuple[Address, ...], maker: "_Maker[P]", name: str = server_names.FOREMAN) -> P:
        """Places are tried together, ensembles one by one: a search asks the whole network."""
        problems: list[GandyError] = []
        for scheme, group in groupby(places, lambda place: place.scheme if place.scheme == "ensemble" else ""):
            tries = [partial(self._seek if scheme else self._try, place, maker, name) for place in group]
            try:
                return await race(tries, None if scheme else STAGGER_SECONDS, maker.drop)
            except AllFailed as failed:
                problems += failed.errors
        raise _choose_error(problems)

    def learn(self, places: Iterable[Address], source: Address, now: Wall) -> None:
        """Note where the foremen of the crew are, for later links, and for later programs of this home.

        `source`: the place of the foreman that says so. It sends us to no place without keys, and to unix sockets only
        if it is on this machine. If the link to it needs no key, it may be of another crew than the one we joined.
        """
        schemes = {"unix"} & {source.scheme} | ({"tcp"} if self.keys is not None else set())
        known = [place for place in dict.fromkeys(places) if place.scheme in schemes][:MAX_FOREMAN_ADDRESSES]
        searches = [place for place in self._first_places if place.scheme == "ensemble"]
        direct = [place for place in self._first_places if place.scheme != "ensemble"]
        self.places = tuple(dict.fromkeys((*direct, *known, *searches)))
        if self.keys is not None and self.keys.has_joined and source.scheme == "tcp":
            self.keys.learn(map(str, known), now)

    def needs_to_learn(self, now: Wall) -> bool:
        """True if what was saved about the foremen of the crew is old."""
        return (
            self.keys is not None
            and self.keys.has_joined
            and not 0 <= now - self.keys.about.learned < LEARN_SECONDS  # wall clocks are stepped
        )

    async def _seek(self, place: Address, maker: "_Maker[P]", _name: str) -> P:
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
                        made = await self._try_found(each, maker, place)
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

    async def _try_found(self, found: Address, maker: "_Maker[P]", place: Address) -> P:
        if found.scheme == "plain" and not self._insecure:
            raise LinkError(f"a foreman in {place.host} says it is at {found}, without keys; --insecure allows that")
        return await self._try(found, maker)

    def _remember(self, found: Address) -> None:
        """Save the address, so that the next connection needs no search, and does not try dead places first."""
        if self.keys is None or not self.keys.has_joined or str(found) == self.keys.about.addresses[0]:
            return
        self.keys.remember(str(found))
        if not self._is_chosen:
            ensembles = [place for place in self.places if place.scheme == "ensemble"]
            self.places = self._first_places = (*map(parse_address, self.keys.about.addresses), *ensembles)

    def add_places(self, places: Iterable[str]) -> "Reach":
        """A reach with these places, too, after our own."""
        found = Reach(tuple(dict.fromkeys((*self.places, *map(parse_address, places)))), self.keys, self._insecure)
        found.ensemble = self.ensemble
        return found

    def remember_foremen(self, foremen: Iterable[Iterable[str]], now: Wall) -> None:
        """Save the addresses of all foremen of a crew that this process has joined, for its next start."""
        if self.keys is not None and self.keys.has_joined:
            rows = zip_longest(*foremen)  # the first address of each foreman before the second of any
            addresses = [address for row in rows for address in row if address is not None]
            self.keys.learn((address for address in addresses if address.startswith("tcp://")), now)

    async def _try(self, place: Address, maker: "_Maker[P]", name: str = server_names.FOREMAN) -> P:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                made = await self._open(place, maker, name)
        except TimeoutError:
            raise LinkError(f"cannot reach a foreman at {place}: no answer in time") from None
        if maker.greet is not None:
            await maker.greet(made)
        if name == server_names.FOREMAN and place.scheme == "tcp" and not self._is_chosen:
            self._remember(place)
        return made

    async def _open(self, place: Address, maker: "_Maker[P]", name: str) -> P:
        loop = asyncio.get_running_loop()
        try:
            if place.scheme == "tcp":
                return await self._open_tls(place, maker, name)
            link = await (_connect_unix if place.scheme == "unix" else _connect_plain)(place)
            if maker.is_over:
                link.close()
                raise LinkError(TOO_LATE)
            connect = loop.create_unix_connection if place.scheme == "unix" else loop.create_connection
            return (await connect(lambda: maker.make(place), sock=link))[1]
        except (FileNotFoundError, ConnectionRefusedError):
            hint = (
                "start one with 'gandy up'"
                if place.scheme == "unix"
                else "there, 'gandy foreman run --listen' starts one"
            )
            raise NothingListens((str(place),), hint) from None
        except OSError as error:
            raise LinkError(f"cannot reach a foreman at {place}: {error.strerror or error}") from None
        except ValueError:  # from the codec for host names: a..b
            raise LinkError(f"cannot reach a foreman at {place}: that is not a host name") from None

    async def _open_tls(self, place: Address, maker: "_Maker[P]", name: str) -> P:
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
            if maker.is_over or not keys.is_foreman(transport.session):
                return None  # the link is closed, and nothing is sent over it
            if keys.learn_identity(transport.session):
                self._context = None
            made.append(maker.make(place))
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


class _Maker(Generic[P]):
    """Makes the protocol of a link: for the first place that answers; or, with `greet`, for each, until one is greeted.

    Without `greet`, a second protocol must not be made: a worker that says HELLO twice loses its first link.
    """

    def __init__(
        self,
        make: Callable[[Address], P],
        greet: Callable[[P], Awaitable[None]] | None = None,
        drop: Callable[[P], None] | None = None,
    ) -> None:
        self._make = make
        self._drop = drop
        self.greet = greet
        self.is_over = False

    def make(self, place: Address) -> P:
        self.is_over = self.greet is None
        return self._make(place)

    def drop(self, made: P) -> None:
        assert self._drop is not None, "without `greet`, only one is made"
        self._drop(made)


def _choose_error(problems: list[GandyError]) -> GandyError:
    """What to tell the user: an error that trying again does not mend, if there is one."""
    final = [error for error in problems if not isinstance(error, LinkError)]
    if final or len(problems) == 1:
        return (final or problems)[0]
    absent = [error for error in problems if isinstance(error, NothingListens)]
    if len(absent) == len(problems):
        return NothingListens(tuple(place for error in absent for place in error.places), absent[0].hint)
    return LinkError("; ".join(map(str, problems)))


def _explain(place: Address, error: Exception | None) -> GandyError:
    """Return the error for a TLS link that failed: a LinkError, since our foreman may be there later."""
    if isinstance(error, NotAdmitted | ssl.SSLCertVerificationError):
        return LinkError(f"what listens at {place} is not our foreman: its certificate is another one")
    if isinstance(error, ssl.SSLError):
        return LinkError(f"what listens at {place} does not speak as a gandy foreman: {error.reason or error}")
    return LinkError(f"cannot reach a foreman at {place}: {error}")


async def _connect_plain(place: Address) -> socket.socket:
    """Connect to the first address of a host that accepts. Raises: OSError, ValueError."""
    loop = asyncio.get_running_loop()
    problem = OSError("the host has no address")
    for family, kind, protocol, _, where in await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM):
        link = socket.socket(family, kind, protocol)
        link.setblocking(False)
        try:
            await loop.sock_connect(link, where)
        except OSError as error:
            link.close()
            problem = error
        except BaseException:
            link.close()
            raise
        else:
            return link
    raise problem


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
    addresses: Addresses | None,
    environ: Mapping[str, str],
    platform: str,
    role: CrewRole = CrewRole.CLIENT,
    insecure: bool = False,
) -> Reach:
    """Choose the places to try: the addresses, else GANDY_FOREMAN; else those that `gandy join` saved, or the unix
    socket, and then the ensembles.

    Raises: ConfigError; LinkError and NotAllowed, if joining with GANDY_TOKEN fails.
    """
    home = find_home(environ, platform)
    keys = find_keys(home, environ, role)
    if chosen := parse_addresses(addresses or ()) or parse_addresses(environ.get("GANDY_FOREMAN", "")):
        return Reach(chosen, keys, insecure)
    ensembles = [environ.get("GANDY_ENSEMBLE", "")]
    places: list[str] = []
    if keys is not None and keys.has_joined:
        places += keys.about.addresses
        ensembles.append(keys.about.ensemble)
    else:
        places.append(f"unix:{Path(home) / SOCKET_NAME}")
    places += [f"ensemble:{name}" for name in dict.fromkeys(ensembles) if name]
    return Reach(tuple(map(parse_address, places)), keys, insecure, is_chosen=False)


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
