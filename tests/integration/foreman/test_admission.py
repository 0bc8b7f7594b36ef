"""How many strangers a foreman has at its doors, and what they cost. Where time is not the matter, it cuts no link."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.forts import CLIENT_OFFERS
from tests.free_ports import find_port

from gandy.core import liveness, unknown_peers
from gandy.core.keyring import hash_secret, make_proof
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.doors.v1.opening import V1Opening
from gandy.errors import GandyError
from gandy.foreman import admission, server
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.keys.certificates import make_secret
from gandy.keys.crew import CrewKeys, make_client_context
from gandy.keys.foreman import ForemanKeys
from gandy.net import tls
from gandy.net.join import join
from gandy.wire import joining, v2
from gandy.wire.joining import ALPN_JOIN, ALPN_NATIVE
from gandy.wire.messages import Hello, Ok

MOST, COUNT = 20, 60
EACH = MOST // 2  # of one address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_STRANGERS", MOST)
    monkeypatch.setattr(server, "MAX_SILENT_LINKS", MOST)
    monkeypatch.setattr(liveness, "HELLO_SECONDS", 600.0)
    monkeypatch.setattr(admission, "JOIN_SECONDS", 600.0)
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 600.0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


class Site:
    """A foreman with a door of every kind."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.tcp, self.plain, self.v1 = find_port(), find_port(), find_port()
        self.program = ForemanProgram(str(home), "memory:", Policy(), insecure=True)
        self.keys: ForemanKeys = self.program.keys

    async def open_unix(self) -> Streams:
        return await asyncio.open_unix_connection(str(self.home / "foreman.sock"))

    async def open_with_key(self) -> Streams:
        keys = CrewKeys.find(self.home / "keys" / "client")
        assert keys is not None
        context = keys.make_context()
        context.set_alpn_protocols([ALPN_NATIVE])
        return await asyncio.open_connection("127.0.0.1", self.tcp, ssl=context)

    async def open_joining(self, source: str = "127.0.0.1") -> Streams:
        context = make_client_context()
        context.set_alpn_protocols([ALPN_JOIN])
        return await asyncio.open_connection("127.0.0.1", self.tcp, ssl=context, local_addr=(source, 0))

    async def ask_to_join(self, source: str = "127.0.0.1", **changes: Any) -> joining.JoinAnswer:
        told = {"invitation": "00000000", "proof": bytes(32), "public_key": make_secret().public, "name": "hut"}
        reader, writer = await self.open_joining(source)
        writer.write(joining.encode_join(joining.Join(**told | changes)))
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        answer = joining.decode_answer(await reader.readexactly(length))
        await hear_end(reader)
        writer.close()
        return answer


@asynccontextmanager
async def a_site(home: Path) -> AsyncIterator[Site]:
    home.chmod(0o700)
    site = Site(home)
    listen = (f"tcp://127.0.0.1:{site.tcp}", f"plain://127.0.0.1:{site.plain}")
    await site.program.start(Doors(listen=listen, others=(V1Opening(f"127.0.0.1:{site.v1}"),)))
    try:
        yield site
    finally:
        await site.program.stop()


async def hear_end(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


async def until_cut(links: list[Streams], count: int) -> None:
    """Until so many were cut. The oldest, and those alone."""
    await asyncio.gather(*(hear_end(reader) for reader, _ in links[:count]))
    assert not any(reader.at_eof() for reader, _ in links[count:])
    for _, writer in links:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_of_a_burst_only_the_newest_stay(tmp_path: Path) -> None:
    """All of them are there before the foreman takes the first."""

    async def test() -> None:
        async with a_site(tmp_path) as site:
            links = [socket.create_connection(("127.0.0.1", site.tcp)) for _ in range(COUNT)]
            await until_cut([await asyncio.open_connection(sock=link) for link in links], COUNT - EACH)

    run(test())


def test_one_address_takes_no_place_from_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            other = await asyncio.open_connection("127.0.0.1", site.tcp, local_addr=("127.0.0.2", 0))
            links = [await asyncio.open_connection("127.0.0.1", site.tcp) for _ in range(COUNT)]
            await until_cut(links, COUNT - EACH)
            assert not other[0].at_eof()
            other[1].close()

    run(test())


def test_of_those_who_join_and_ask_nothing_only_the_newest_stay(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            await until_cut([await site.open_joining() for _ in range(COUNT)], COUNT - EACH)

    run(test())


@pytest.mark.parametrize("door", ["unix", "plain", "v1", "tcp"])
def test_of_those_who_say_no_hello_only_the_newest_stay(tmp_path: Path, door: str) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            await until_cut([await open_at(site, door) for _ in range(COUNT)], COUNT - EACH)

    run(test())


async def open_at(site: Site, door: str) -> Streams:
    match door:
        case "unix":
            return await site.open_unix()
        case "tcp":
            return await site.open_with_key()
        case _:
            return await asyncio.open_connection("127.0.0.1", site.v1 if door == "v1" else site.plain)


@pytest.mark.parametrize("door", ["unix", "plain", "v1", "tcp"])
def test_the_clock_cuts_only_peers_that_say_no_hello(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.setattr(liveness, "HELLO_SECONDS", 0.5)

    async def test() -> None:
        async with a_site(tmp_path) as site:
            reader, writer = await site.open_unix()
            writer.write(v2.encode(0, Hello(0, (), CLIENT_OFFERS)))
            decoder = v2.V2Decoder()
            decoder.receive_data(await reader.read(1000))
            heard = decoder.next_message()
            assert heard is not None
            assert isinstance(heard[1], Ok)
            silent = await open_at(site, door)
            slow = await open_at(site, door)
            slow[1].write(b"\x47")  # a part of some message, and no more
            await until_cut([silent, slow], 2)
            assert not reader.at_eof()
            writer.close()

    run(test())


def test_a_wrong_proof_has_nothing_read_or_written(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            before = list_times(tmp_path / "keys")
            answer = await site.ask_to_join()
            assert isinstance(answer, joining.JoinRefused)
            assert list_times(tmp_path / "keys") == before

    run(test())


def list_times(folder: Path) -> dict[str, int]:
    """When anything in there was changed, made or removed."""
    return {str(path): path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def test_an_address_that_proves_nothing_is_not_heard_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_peers, "MAX_FAILURES", 5)
    monkeypatch.setattr(unknown_peers, "FORGIVEN", 0.0)

    async def test() -> None:
        async with a_site(tmp_path) as site:
            for _ in range(5):
                assert isinstance(await site.ask_to_join("127.0.0.2"), joining.JoinRefused)
            with pytest.raises(OSError):  # cut before a byte of TLS
                await site.ask_to_join("127.0.0.2")
            token, _ = await site.keys.invite(CrewRole.WORKER, 60.0, 1, (f"tcp://127.0.0.1:{site.tcp}",))
            await asyncio.to_thread(join, token, str(tmp_path / "there"), "other")

    run(test())


@pytest.mark.parametrize("changes", [{"public_key": b"no key"}, {"name": "owner"}, {"name": "Worker "}], ids=str)
def test_a_newcomer_that_cannot_be_taken_costs_no_use(tmp_path: Path, changes: dict[str, Any]) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            token, invitation = await site.keys.invite(CrewRole.WORKER, 60.0, 1, (f"tcp://127.0.0.1:{site.tcp}",))
            opened = joining.parse_token(token)
            public = changes.get("public_key", make_secret().public)
            proof = make_proof(hash_secret(opened.secret), joining.bind(opened.fingerprint, public))
            told = {"public_key": public, **changes}
            answer = await site.ask_to_join(invitation=invitation.id, proof=proof, **told)
            assert isinstance(answer, joining.JoinRefused)
            assert answer.is_name_taken == (changes.get("name") == "Worker ")
            await asyncio.to_thread(join, token, str(tmp_path / "there"), "new")

    run(test())


def test_two_machines_of_one_name_can_join_but_not_by_a_name_that_was_chosen(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            token, _ = await site.keys.invite(CrewRole.WORKER, 60.0, 4, (f"tcp://127.0.0.1:{site.tcp}",))
            names = [(await asyncio.to_thread(join, token, str(tmp_path / str(n)))).about.name for n in range(2)]
            assert names[0] == socket.gethostname()[:64]
            assert names[1].startswith(names[0][:57] + "-")
            await asyncio.to_thread(join, token, str(tmp_path / "2"), "anna")
            with pytest.raises(GandyError, match=r"the name anna is taken, by key [0-9a-f]{12}"):
                await asyncio.to_thread(join, token, str(tmp_path / "3"), "anna")

    run(test())
