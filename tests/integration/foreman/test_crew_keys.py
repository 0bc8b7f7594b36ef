"""One crew, one identity: keys, invitations and revocations are the same at every foreman."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.e2e.forts import CLIENT_OFFERS
from tests.free_ports import find_port
from tests.rings import SharedRing

from gandy.config import parse_address
from gandy.core import requests as ask
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, ErrorCode, LinkError, NotAllowed
from gandy.foreman.crew_link import connect
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.foreman.ring_table import OtherIdentity, RingTable
from gandy.foreman.server import Server
from gandy.keys.crew import CrewKeys
from gandy.keys.foreman import ForemanKeys
from gandy.moments import LONG_AGO
from gandy.net import join as joining
from gandy.net.join import join
from gandy.reach import Reach
from gandy.wire import v2
from gandy.wire.joining import JoinAnswer, Joined, decode_answer, format_token, parse_token
from gandy.wire.messages import Error, Hello, Ok


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


class Peer(asyncio.Protocol):
    """Says HELLO as a client, and keeps what it hears."""

    def __init__(self) -> None:
        self._decoder = v2.V2Decoder()
        self.heard: asyncio.Queue[object] = asyncio.Queue()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(v2.encode(0, Hello(0, (), CLIENT_OFFERS)))

    def data_received(self, data: bytes) -> None:
        self._decoder.receive_data(data)
        while (found := self._decoder.next_message()) is not None:
            self.heard.put_nowait(found[1])

    def connection_lost(self, _exc: Exception | None) -> None:
        self.heard.put_nowait(None)

    def close(self) -> None:
        assert self.transport is not None
        self.transport.abort()


class Post:
    """A foreman of the crew, on a home of its own."""

    def __init__(self, home: Path, ring: SharedRing) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.home = home
        self.address = f"tcp://127.0.0.1:{find_port()}"
        self.program = ForemanProgram(str(home), "memory:", Policy())
        self.keys: ForemanKeys = self.program.keys
        self._ring = ring

    async def start(self, lists_shards: Callable[[int | None], Server | None] | None = None) -> None:
        await self.keys.share_ring(RingTable(self._ring.as_store(), self.keys.fingerprint))
        if lists_shards is not None:
            self.program._source.find_server = lists_shards  # type: ignore[method-assign,assignment]
        self.program.store_name = "postgresql:pretended"  # a joined home has no other
        await self.program.start(Doors(listen=(self.address,)))

    async def invite(self, role: CrewRole, uses: int = 1) -> str:
        return (await self.keys.invite(role, 60.0, uses, (self.address,)))[0]

    async def admit(self, role: CrewRole, home: Path, uses: int = 1) -> CrewKeys:
        return await self.take(await self.invite(role, uses), home)

    async def take(self, token: str, home: Path) -> CrewKeys:
        home.mkdir(mode=0o700, exist_ok=True)
        return await asyncio.to_thread(join, token, str(home), home.name)

    async def dial(self, keys: CrewKeys, shard: int = 0) -> Peer:
        reach, place = Reach((), keys), parse_address(self.address)
        if shard:
            return await reach.dial_shard(shard, (place,), lambda _place: Peer())
        reach.places = (place,)
        return await reach.dial(lambda _place: Peer())

    async def ask(self, keys: CrewKeys) -> object:
        """The first word of this foreman to a peer with these keys."""
        peer = await self.dial(keys)
        try:
            return await peer.heard.get()
        finally:
            peer.close()

    async def read_certificate(self, server_name: str | None) -> bytes:
        """What is shown to a peer that asks for this name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["gandy"])
        place = parse_address(self.address)
        reader, writer = await asyncio.open_connection(place.host, place.port)
        try:
            await writer.start_tls(context, server_hostname=server_name)
            found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        assert isinstance(found, bytes)
        assert reader is not None
        return found


@asynccontextmanager
async def two_posts(folder: Path) -> AsyncIterator[tuple[Post, Post, SharedRing]]:
    """The first foreman of a crew, and one that joined it."""
    folder.chmod(0o700)
    ring = SharedRing()
    first = Post(folder / "first", ring)
    await first.start()
    try:
        await first.admit(CrewRole.FOREMAN, folder / "second")
        second = Post(folder / "second", ring)
        await second.start()
        try:
            yield first, second, ring
        finally:
            await second.program.stop()
    finally:
        await first.program.stop()


def forget_looks(*posts: Post) -> None:
    """As if the last look was long ago."""
    for post in posts:
        post.keys.kept._looked = LONG_AGO


# One identity


def test_a_foreman_that_joined_has_the_identity_and_a_key_of_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            assert second.keys.identity == first.keys.identity
            assert second.keys.own is not None
            assert first.keys.own is not None
            assert second.keys.own.fingerprint != first.keys.own.fingerprint
            assert second.keys.ring.get(second.keys.own.fingerprint).role is CrewRole.FOREMAN
            assert {path.stat().st_mode & 0o077 for path in (tmp_path / "second" / "keys").rglob("*")} == {0}

    run(test())


def test_a_peer_of_one_foreman_knows_the_others_and_is_known_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            for here, there in ((first, second), (second, first)):
                keys = await here.admit(CrewRole.CLIENT, tmp_path / f"of-{here.home.name}")
                assert isinstance(await there.ask(keys), Ok)  # at once: no copy of the ring is that old

    run(test())


@pytest.mark.parametrize("role", [CrewRole.CLIENT, CrewRole.OBSERVER])
def test_programs_of_a_foremans_home_are_known_everywhere(tmp_path: Path, role: CrewRole) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            keys = CrewKeys.find(second.home / "keys" / role)
            assert keys is not None
            assert isinstance(await first.ask(keys), Ok)

    run(test())


def test_foremen_know_each_other_by_their_own_keys(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            for here, there in ((first, second), (second, first)):
                assert here.keys.own is not None
                assert isinstance(await there.ask(here.keys.own), Ok)

    run(test())


def test_a_foreman_may_ask_for_all_that_the_owner_may(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            anna = await second.admit(CrewRole.CLIENT, tmp_path / "anna")
            assert second.keys.own is not None
            for keys, expected in ((second.keys.own, ask.KeyList), (anna, ask.RequestFailure)):
                link = await connect(Reach((parse_address(first.address),), keys))
                assert isinstance(await link.request(ask.ListKeys()), expected)
                link.close()

    run(test())


def test_what_a_foreman_shows(tmp_path: Path) -> None:
    """The identity to peers that join or are old, and its own certificate to all that can verify it."""

    async def test() -> None:
        async with two_posts(tmp_path) as (_, second, _ring):
            assert second.keys.own is not None
            own = ssl.PEM_cert_to_DER_cert(second.keys.own.certificate_path.read_text())
            for name in ("foreman", "shard-7"):
                assert await second.read_certificate(name) == own
            for name in ("join", "example.org", "shard-x"):
                assert await second.read_certificate(name) == second.keys.identity

    run(test())


def test_a_folder_that_has_only_the_fingerprint_works_at_every_foreman(tmp_path: Path) -> None:
    """As old versions made them: such a peer asks for no name."""

    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            keys = await first.admit(CrewRole.CLIENT, tmp_path / "old")
            (keys.folder / "foreman.pem").unlink()
            assert isinstance(await second.ask(keys), Ok)
            assert (keys.folder / "foreman.pem").read_text() == ssl.DER_cert_to_PEM_cert(first.keys.identity)
            for each in (first, second):  # now it can verify what the identity signed
                assert isinstance(await each.ask(keys), Ok)

    run(test())


def test_a_home_of_another_identity_does_not_get_the_crews_ring(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (_, _second, ring):
            other = ForemanKeys(tmp_path / "other" / "keys")
            before = ring.ring
            with pytest.raises(OtherIdentity, match="run 'gandy invite --foreman' there and 'gandy join' here"):
                await other.share_ring(RingTable(ring.as_store(), other.fingerprint))
            assert ring.ring == before

    (tmp_path / "other").mkdir(mode=0o700)
    run(test())


def test_two_homes_that_find_an_empty_database_agree_on_one_identity(tmp_path: Path) -> None:
    async def test() -> None:
        ring = SharedRing()
        homes = [ForemanKeys(make_home(tmp_path, name) / "keys") for name in "ab"]

        async def be_quicker() -> None:
            await homes[1].share_ring(RingTable(ring.as_store(), homes[1].fingerprint))

        ring.before_save = be_quicker
        with pytest.raises(OtherIdentity):
            await homes[0].share_ring(RingTable(ring.as_store(), homes[0].fingerprint))

    run(test())


def make_home(folder: Path, name: str) -> Path:
    folder.chmod(0o700)
    home = folder / name
    home.mkdir(mode=0o700)
    return home


def test_a_joined_home_listens_only_with_the_crews_database(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, _second, _ring):
            await first.admit(CrewRole.FOREMAN, tmp_path / "third")
            program = ForemanProgram(str(tmp_path / "third"), "memory:", Policy())
            with pytest.raises(ConfigError, match="name its database, --store postgresql"):
                await program.start(Doors(listen=("tcp://127.0.0.1:1",)))

    run(test())


def test_joining_as_a_foreman_keeps_the_keys_that_were_there(tmp_path: Path) -> None:
    async def test() -> None:
        before = ForemanKeys(make_home(tmp_path, "third") / "keys").fingerprint
        async with two_posts(tmp_path) as (first, _second, _ring):
            await first.admit(CrewRole.FOREMAN, tmp_path / "third")
            assert ForemanKeys(tmp_path / "third" / "keys").fingerprint == first.keys.fingerprint
            assert ForemanKeys(tmp_path / "third" / "keys.old-1").fingerprint == before

    run(test())


# Only a foreman passes for one


def test_only_a_foremans_invitation_gives_the_identitys_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def decode(data: bytes) -> JoinAnswer:
        answers.append(decode_answer(data))
        return answers[-1]

    monkeypatch.setattr(joining, "decode_answer", decode)

    async def test() -> None:
        async with two_posts(tmp_path) as (first, _second, _ring):
            for role in (CrewRole.CLIENT, CrewRole.WORKER, CrewRole.OBSERVER):
                await first.admit(role, tmp_path / f"a-{role}")

    run(test())
    foreman, *others = [each for each in answers if isinstance(each, Joined)]
    assert foreman.identity_secret.startswith(b"-----BEGIN PRIVATE KEY")
    assert [each.identity_secret for each in others] == [b"", b"", b""]
    assert "PRIVATE" not in repr(foreman)


# One keyring


def test_one_use_is_one_use_in_the_whole_crew(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            token, invitation = await first.keys.invite(CrewRole.CLIENT, 60.0, 3, (first.address,))
            elsewhere = change_addresses(token, second.address)
            tries = [first.take([token, elsewhere][number % 2], tmp_path / f"try{number}") for number in range(12)]
            done = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(isinstance(each, CrewKeys) for each in done) == 3
            assert all(isinstance(each, CrewKeys | NotAllowed) for each in done)
            await asyncio.gather(first.keys.kept.look(), second.keys.kept.look())
            assert first.keys.ring.state == second.keys.ring.state
            made = [key for key in first.keys.ring.list_keys() if invitation.id in key.origin]
            assert len(made) == 3

    run(test())


def change_addresses(token: str, *addresses: str) -> str:
    return format_token(replace(parse_token(token), addresses=addresses))


def test_a_key_that_another_foreman_revoked_is_refused_without_any_notice(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            keys = await first.admit(CrewRole.CLIENT, tmp_path / "anna")
            assert isinstance(await second.ask(keys), Ok)
            await first.keys.kept.change(lambda ring: ring.revoke("anna", 1.0))
            forget_looks(second)
            assert await second.ask(keys) == Error(ErrorCode.REVOKED_KEY)
            assert "refused" in read_verbs(second)

    run(test())


def test_a_notice_cuts_the_links_of_a_revoked_key(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, ring):
            keys = await first.admit(CrewRole.CLIENT, tmp_path / "anna")
            peer = await second.dial(keys)
            assert isinstance(await peer.heard.get(), Ok)
            await first.keys.kept.change(lambda held: held.revoke("anna", 1.0))
            second.keys.kept.on_version(ring.ring.version)
            while (word := await peer.heard.get()) != Error(ErrorCode.REVOKED_KEY):
                assert word is not None
            assert await peer.heard.get() is None

    run(test())


def test_a_change_is_spread_and_no_other_look_is_made_for_the_same_version(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, _second, ring):
            spread: list[int] = []
            first.keys.kept.on_change = lambda: spread.append(ring.ring.version)
            await first.invite(CrewRole.CLIENT)
            assert spread == [ring.ring.version]
            looks = ring.looks
            first.keys.kept.on_version(ring.ring.version)
            await asyncio.sleep(0)
            assert ring.looks == looks

    run(test())


def test_while_the_database_is_away_known_keys_are_admitted_and_nothing_changes(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, ring):
            keys = await first.admit(CrewRole.CLIENT, tmp_path / "anna")
            token = await first.invite(CrewRole.CLIENT)
            assert isinstance(await second.ask(keys), Ok)
            ring.is_away = True
            forget_looks(first, second)
            assert isinstance(await second.ask(keys), Ok)
            with pytest.raises(NotAllowed, match="cannot save keys now"):
                await first.take(token, tmp_path / "ben")
            ring.is_away = False
            await first.take(token, tmp_path / "ben")  # no use was lost

    run(test())


def test_a_foreman_whose_key_is_revoked_is_refused_and_does_not_start_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, ring):
            own = second.keys.own
            assert own is not None
            await first.keys.kept.change(lambda held: held.revoke(own.about.name, 1.0))
            assert await first.ask(own) == Error(ErrorCode.REVOKED_KEY)
            again = ForemanKeys(second.keys.folder)
            with pytest.raises(ConfigError, match="the key of this foreman was revoked"):
                await again.share_ring(RingTable(ring.as_store(), again.fingerprint))

    run(test())


def test_a_home_has_a_copy_of_the_ring(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_posts(tmp_path) as (first, second, _):
            await first.admit(CrewRole.CLIENT, tmp_path / "anna")
            await second.keys.kept.look()
            assert ForemanKeys(second.keys.folder).ring.state == first.keys.ring.state

    run(test())


# Shards


def test_a_link_for_a_shard_reaches_its_server_and_an_unknown_shard_is_no_failure(tmp_path: Path) -> None:
    async def test() -> None:
        ring = SharedRing()
        post = Post(make_home(tmp_path, "first"), ring)
        asked: list[int | None] = []

        def find(shard: int | None) -> Server | None:
            asked.append(shard)
            return post.program.server if shard in (None, 3) else None

        await post.start(find)
        try:
            keys = CrewKeys.find(post.home / "keys" / "client")
            assert keys is not None
            peer = await post.dial(keys, 3)
            assert isinstance(await peer.heard.get(), Ok)
            peer.close()
            for _ in range(300):  # more than the failures of one address that are forgiven
                gone = await post.dial(keys, 4)
                assert await gone.heard.get() is None
            assert isinstance(await post.ask(keys), Ok)
            assert asked == [3, *[4] * 300, None]
            assert "refused" not in read_verbs(post)
        finally:
            await post.program.stop()

    run(test())


def test_no_shard_is_dialled_at_a_place_without_keys() -> None:
    async def test() -> None:
        reach = Reach(())
        for place in ("plain://127.0.0.1:1", "ensemble:band"):
            with pytest.raises(LinkError, match="no foreman owns shard 1"):
                await reach.dial_shard(1, (parse_address(place),), lambda _place: Peer())
        with pytest.raises(LinkError, match="no foreman owns shard 1"):
            await reach.dial_shard(1, (), lambda _place: Peer())

    run(test())


def read_verbs(post: Post) -> set[str]:
    return {json.loads(line)["what"] for line in (post.home / "audit.jsonl").read_text().splitlines()}
