"""CURVE keys: how they are made and kept, and who gets through a door that has them."""

import asyncio
import multiprocessing
import os
import socket
import stat
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
import zmq
from zmq import auth
from zmq.utils import z85

from gandy.doors.sockets.curve import ClientKeys, Pair, ServerKeys
from gandy.doors.sockets.router import Router
from gandy.doors.sockets.zap import Authenticator
from gandy.errors import ConfigError

DEADLINE = 30.0  # seconds; far more than anything here takes on a busy machine


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, DEADLINE))


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def add_client(folder: Path, name: str) -> Pair:
    """As a user does with pyzmq's own tool, on another machine: only the public key comes here."""
    public, secret = zmq.curve_keypair()
    (folder / "clients" / f"{name}.key").write_text(f'metadata\ncurve\n    public-key = "{public.decode()}"\n')
    return Pair(public, secret)


# Files


def test_the_first_use_makes_everything_for_this_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "keys"
    before = os.umask(0o000)
    try:
        keys = ServerKeys.open(folder)
    finally:
        os.umask(before)
    assert get_mode(folder) == 0o700
    assert get_mode(folder / "clients") == 0o700
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {"server.key", "server.key_secret", "clients/crew.key", "clients/crew.key_secret"}
    for name in names:
        assert get_mode(folder / name) == 0o600
    assert auth.load_certificate(folder / "server.key") == (keys.public, None)
    public, secret = auth.load_certificate(folder / "server.key_secret")
    assert public == keys.public
    assert secret is not None
    assert zmq.curve_public(secret) == public
    assert list(auth.load_certificates(folder / "clients")) == [auth.load_certificate(folder / "clients/crew.key")[0]]


def test_the_second_use_changes_nothing(tmp_path: Path) -> None:
    first = ServerKeys.open(tmp_path)
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*.key*")}
    assert ServerKeys.open(str(tmp_path)).public == first.public
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == texts


def test_keys_of_pyzmq_and_of_gandy_are_the_same(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    auth.create_certificates(tmp_path, "server")
    (tmp_path / "server.key_secret").chmod(0o600)
    assert ServerKeys.open(tmp_path).public == auth.load_certificate(tmp_path / "server.key")[0]


def open_at_once(folder: Path, start: Any, found: Any) -> None:
    start.wait()
    keys = ServerKeys.open(folder)
    found.put((keys.public, ClientKeys.open(folder).public))


def test_processes_that_start_at_once_get_the_same_keys(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, found = spawn.Barrier(6), spawn.Queue()
    processes = [spawn.Process(target=open_at_once, args=(tmp_path / "keys", start, found)) for _ in range(6)]
    for process in processes:
        process.start()
    results = {found.get(timeout=DEADLINE) for _ in processes}
    for process in processes:
        process.join()
    found.close()
    found.join_thread()
    assert len(results) == 1
    assert {path.name for path in (tmp_path / "keys").iterdir()} == {"server.key", "server.key_secret", "clients"}


def test_a_start_that_was_cut_short_is_made_good(tmp_path: Path) -> None:
    first = ServerKeys.open(tmp_path)
    (tmp_path / "server.key").unlink()
    assert ServerKeys.open(tmp_path).public == first.public
    assert auth.load_certificate(tmp_path / "server.key") == (first.public, None)


def test_a_client_key_that_was_taken_out_stays_out(tmp_path: Path) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / "clients/crew.key").unlink()
    keys = ServerKeys.open(tmp_path)
    assert not (tmp_path / "clients/crew.key").exists()
    assert keys.find_name(ClientKeys.open(tmp_path).public) is None


@pytest.mark.parametrize("name", ["server.key_secret", "clients/crew.key_secret"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / name).chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {tmp_path / name}"):
        ServerKeys.open(tmp_path)


def test_a_peer_refuses_a_secret_that_others_can_read(tmp_path: Path) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / "clients/crew.key_secret").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        ClientKeys.open(tmp_path)


@pytest.mark.parametrize("name", [".", "clients"])
def test_a_folder_that_others_can_fill_is_refused(tmp_path: Path, name: str) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / name).chmod(0o777)
    with pytest.raises(ConfigError, match="chmod 700"):
        ServerKeys.open(tmp_path)


def test_a_peers_folder_is_no_folder_for_a_door(tmp_path: Path) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / "server.key_secret").unlink()
    public = (tmp_path / "server.key").read_bytes()
    with pytest.raises(ConfigError, match=r"server\.key_secret"):
        ServerKeys.open(tmp_path)
    assert (tmp_path / "server.key").read_bytes() == public


def test_a_peer_needs_two_files_only(tmp_path: Path) -> None:
    keys = ServerKeys.open(tmp_path / "door")
    (tmp_path / "peer/clients").mkdir(parents=True)
    for name in ("server.key", "clients/crew.key_secret"):
        with pytest.raises(ConfigError, match="copy"):
            ClientKeys.open(tmp_path / "peer")
        (tmp_path / "peer" / name).touch(0o600)
        (tmp_path / "peer" / name).write_bytes((tmp_path / "door" / name).read_bytes())
    peer = ClientKeys.open(tmp_path / "peer")
    assert peer.server == keys.public
    assert keys.find_name(peer.public) == "crew"


BAD_TEXTS = [b"", b"\xff\x00", b'public-key = "short"', b'public-key = "' + b'"' * 40 + b'"', b"public-key"]


@pytest.mark.parametrize("text", [*BAD_TEXTS, b'public-key = "' + b"a" * 40 + b'"\nsecret-key = "' + b"b" * 40 + b'"'])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, text: bytes) -> None:
    ServerKeys.open(tmp_path)
    (tmp_path / "server.key_secret").write_bytes(text)
    with pytest.raises(ConfigError, match=r"server\.key_secret"):
        ServerKeys.open(tmp_path)


def test_a_public_key_of_another_pair_is_refused(tmp_path: Path) -> None:
    ServerKeys.open(tmp_path / "one")
    ServerKeys.open(tmp_path / "two")
    (tmp_path / "one/server.key").write_bytes((tmp_path / "two/server.key").read_bytes())
    with pytest.raises(ConfigError, match="does not belong"):
        ServerKeys.open(tmp_path / "one")


def test_a_bad_file_among_the_clients_keeps_no_other_peer_out(tmp_path: Path) -> None:
    keys = ServerKeys.open(tmp_path)
    for number, text in enumerate(BAD_TEXTS):
        (tmp_path / f"clients/bad{number}.key").write_bytes(text)
    (tmp_path / "clients/folder.key").mkdir()
    (tmp_path / "clients/nowhere.key").symlink_to("/no/such/file")
    os.mkfifo(tmp_path / "clients/pipe.key")
    assert keys.find_name(ClientKeys.open(tmp_path).public) == "crew"


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot save keys"):
        ServerKeys.open(tmp_path / "file" / "keys")


def test_a_secret_is_not_shown() -> None:
    pair = Pair(*zmq.curve_keypair())
    assert pair.secret.decode() not in repr(pair)


# Answers


def ask(keys: ServerKeys, *, version: bytes = b"1.0", domain: bytes = b"gandy", mechanism: bytes = b"CURVE") -> bytes:
    public = z85.decode((keys._clients / "crew.key").read_text().split('"')[1].encode())
    answer = Authenticator(keys, print).answer(
        [b"who", b"", version, b"7", domain, b"127.0.0.1", b"anna", mechanism, public]
    )
    assert answer is not None
    assert answer[:4] == [b"who", b"", b"1.0", b"7"]
    assert len(answer) == 8
    return answer[4]


def test_answers_to_what_libzmq_asks(tmp_path: Path) -> None:
    keys = ServerKeys.open(tmp_path)
    assert ask(keys) == b"200"
    assert ask(keys, version=b"2.0") == b"400"
    assert ask(keys, domain=b"") == b"400"
    assert ask(keys, mechanism=b"NULL") == b"400"
    authenticator = Authenticator(keys, print)
    head = [b"who", b"", b"1.0", b"7"]
    for rest in ([], [b"gandy"], [b"gandy", b"", b"", b"CURVE"], [b"gandy", b"", b"", b"CURVE", b"short"], [b""] * 50):
        answer = authenticator.answer([*head, *rest])
        assert answer is not None
        assert answer[4] == b"400"
    assert authenticator.refused == 5
    for frames in ([], [b"who"], [b"who", b"", b"1.0"], [b"who", b"x", b"1.0", b"7"]):
        assert authenticator.answer(frames) is None
    (tmp_path / "clients").rename(tmp_path / "moved")
    answer = authenticator.answer([*head, b"gandy", b"", b"", b"CURVE", bytes(32)])
    assert answer is not None
    assert answer[4] == b"500"


# Through the door


@pytest.fixture
def _short_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer with an unknown key hears nothing until its time for a handshake is over, and then tries again."""
    monkeypatch.setattr("gandy.doors.sockets.binding.HANDSHAKE_MS", 300)


class Peer:
    """A DEALER that says its name when it can, and what happened to its handshakes."""

    FAILED = (
        zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    )

    def __init__(self, router: Router, name: bytes, server: bytes | None = None, pair: Pair | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.ROUTING_ID, name)
        self.socket.setsockopt(zmq.RECONNECT_IVL, 10)
        self.socket.setsockopt(zmq.RCVTIMEO, int(DEADLINE * 1000))
        if server is not None and pair is not None:
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, server)
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
        # Where the other side closes without a word, all that it can see is that it is disconnected.
        self._followers = self._context.socket(zmq.PAIR)
        self._followers.setsockopt(zmq.RCVHWM, 0)  # libzmq would wait for us to read, for ever
        self.socket.monitor("inproc://news", self.FAILED | zmq.EVENT_DISCONNECTED)
        self._followers.connect("inproc://news")
        self.socket.connect(str(router.address))
        self.socket.send(b"it is " + name)

    def close(self) -> None:
        self.socket.disable_monitor()
        self._followers.close(0)
        self.socket.close(0)
        self._context.term()

    async def until_refused(self) -> None:
        assert await asyncio.to_thread(self._followers.poll, int(DEADLINE * 1000))


@contextmanager
def dealing(router: Router, name: bytes, server: bytes | None = None, pair: Pair | None = None) -> Iterator[Peer]:
    peer = Peer(router, name, server, pair)
    try:
        yield peer
    finally:
        peer.close()


class Door:
    """A router with keys, and who came through."""

    def __init__(self, folder: Path) -> None:
        self.keys = ServerKeys.open(folder)
        self.router = Router("tcp://127.0.0.1:0", curve=self.keys)
        self.heard: set[bytes] = set()
        self._changed = asyncio.Event()
        self.router.on_message = self._on_message

    def _on_message(self, frames: list[bytes]) -> None:
        self.heard.add(frames[0])
        self._changed.set()

    async def until_heard(self, name: bytes) -> None:
        while name not in self.heard:
            self._changed.clear()
            await self._changed.wait()


@contextmanager
def opened(folder: Path) -> Iterator[Door]:
    door = Door(folder)
    try:
        yield door
    finally:
        door.router.close()


def test_the_right_key_comes_in(tmp_path: Path) -> None:
    async def main() -> None:
        with opened(tmp_path) as door:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            with context, context.socket(zmq.DEALER) as peer:
                peer.setsockopt(zmq.ROUTING_ID, b"crew")
                peer.setsockopt(zmq.LINGER, 0)
                ClientKeys.open(tmp_path).apply(peer)
                peer.connect(str(door.router.address))
                peer.send(b"hello")
                await door.until_heard(b"crew")
                assert door.router.send([b"crew", b"hello"])
                assert await asyncio.to_thread(peer.recv) == b"hello"
            assert door.router.refused == 0

    run(main())


@pytest.mark.usefixtures("_short_handshakes")
def test_wrong_keys_and_no_keys_stay_out(tmp_path: Path) -> None:
    async def main() -> None:
        with opened(tmp_path / "keys") as door:
            other = ServerKeys.open(tmp_path / "other")
            known = add_client(tmp_path / "keys", "known")
            unknown = Pair(*zmq.curve_keypair())
            thief = Pair(known.public, unknown.secret)  # who knows a public key only
            with (
                dealing(door.router, b"wrong server", other.public, known) as a,
                dealing(door.router, b"unknown", door.keys.public, unknown) as b,
                dealing(door.router, b"thief", door.keys.public, thief) as c,
                dealing(door.router, b"plain") as d,
                dealing(door.router, b"known", door.keys.public, known),
            ):
                await asyncio.gather(*(peer.until_refused() for peer in (a, b, c, d)))
                await door.until_heard(b"known")
                assert door.heard == {b"known"}
                for name in (b"wrong server", b"unknown", b"thief", b"plain"):
                    assert not door.router.send([name, b"", b"secret"])
                assert door.router.refused > 0

    run(main())


@pytest.mark.usefixtures("_short_handshakes")
def test_a_key_added_later_comes_in_and_one_taken_out_does_not(tmp_path: Path) -> None:
    async def main() -> None:
        with opened(tmp_path) as door:
            pair = Pair(*zmq.curve_keypair())
            with dealing(door.router, b"late", door.keys.public, pair) as peer:
                await peer.until_refused()
                text = f'metadata\ncurve\n    public-key = "{pair.public.decode()}"\n'
                (tmp_path / "clients/late.key").write_text(text)
                await door.until_heard(b"late")  # the same socket, which tries again by itself
            (tmp_path / "clients/late.key").unlink()
            with dealing(door.router, b"too late", door.keys.public, pair) as peer:
                await peer.until_refused()
            assert b"too late" not in door.heard

    run(main())


def test_a_key_that_changes_in_its_file_is_read_again(tmp_path: Path) -> None:
    keys = ServerKeys.open(tmp_path)
    first = add_client(tmp_path, "x")
    assert keys.find_name(first.public) == "x"
    second = add_client(tmp_path, "x")
    os.utime(tmp_path / "clients/x.key", ns=(1, 1))  # a clock that stands still would hide the change
    assert keys.find_name(first.public) is None
    assert keys.find_name(second.public) == "x"


def test_old_versions_of_the_protocol_are_no_way_around_the_keys(tmp_path: Path) -> None:
    """ZMTP 1.0 has no keys: a length, flags and bytes for each frame, from the start."""
    hello = b"\x05\x00anna" + b"\x06\x00hello"
    zmtp_2 = b"\xff" + bytes(8) + b"\x7f\x01\x05" + b"\x00\x04anna" + b"\x00\x05hello"

    async def main() -> None:
        with opened(tmp_path) as door:
            for text in (hello, zmtp_2):
                with socket.create_connection((door.router.address.host, door.router.address.port)) as stranger:
                    stranger.settimeout(DEADLINE)
                    stranger.sendall(text)
                    await asyncio.to_thread(read_to_end, stranger)
            known = add_client(tmp_path, "known")
            with dealing(door.router, b"known", door.keys.public, known):
                await door.until_heard(b"known")
            assert door.heard == {b"known"}

    run(main())


def read_to_end(stranger: socket.socket) -> None:
    try:
        while stranger.recv(4096):
            pass
    except ConnectionResetError:
        pass


def test_many_come_in_at_once(tmp_path: Path) -> None:
    count = 50

    async def main() -> None:
        with opened(tmp_path) as door:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            sockets = [context.socket(zmq.DEALER) for _ in range(count)]
            for number, peer in enumerate(sockets):
                peer.setsockopt(zmq.ROUTING_ID, b"%d" % number)
                ClientKeys.open(tmp_path).apply(peer)
                peer.connect(str(door.router.address))
                peer.send(b"hello")
            for number in range(count):
                await door.until_heard(b"%d" % number)
            for peer in sockets:
                peer.close(0)
            context.term()

    run(main())
