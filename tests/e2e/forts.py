"""A foreman that listens on TCP, and peers of every kind with sockets of their own: no client or worker of gandy."""

import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.kitchens import SOON, Kitchen
from tests.free_ports import find_port
from tests.processes import read_memory

import gandy
from gandy.core import requests as ask
from gandy.core.extensions import WORKER_OFFERS
from gandy.core.keyring import hash_secret, make_proof
from gandy.core.roles import CrewRole
from gandy.errors import ErrorCode
from gandy.keys.certificates import Secret, make_secret
from gandy.keys.crew import CrewKeys, Membership, make_client_context
from gandy.wire import joining, v2
from gandy.wire.joining import ALPN_JOIN, ALPN_NATIVE
from gandy.wire.messages import About, Error, Extended, Extension, Hello, Message, Ok

CLIENT_OFFERS = Extension.ATOMIC | Extension.CLIENT | Extension.CALLS


class Fort(Kitchen):
    """A kitchen that takes those who have a key from the network."""

    def __init__(self, home: Path, *words: str) -> None:
        self.port = find_port()
        super().__init__(home, "--listen", f"tcp://127.0.0.1:{self.port}", *words)
        self.tcp = f"tcp://127.0.0.1:{self.port}"

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), SOON, (source, 0))

    def find_keys(self, role: str) -> CrewKeys:
        found = CrewKeys.find(self.home / "keys" / role)
        assert found is not None
        return found

    def make_keys(self, folder: Path, role: CrewRole, name: str, seconds: float | None = None) -> CrewKeys:
        secret = make_secret()
        with gandy.Client(self.address) as owner:
            made = owner.make_key(secret.public, name, role, seconds)
        return CrewKeys.save(folder, Membership(made.foreman, name, role), secret.pem, made.certificate)

    def open(self, keys: CrewKeys | None, alpn: str = ALPN_NATIVE, source: str = "127.0.0.1") -> "Peer":
        context = make_client_context() if keys is None else keys.make_context()
        context.set_alpn_protocols([alpn])
        return Peer(context.wrap_socket(self.connect(source)))

    def open_client(self, role: str) -> "Peer":
        peer = self.open(self.find_keys(role))
        peer.say(Hello(0, (), CLIENT_OFFERS))
        assert isinstance(peer.hear(), Ok)
        return peer

    def open_worker(self, worker: str, keys: CrewKeys | None = None, slots: int = 1) -> "Peer":
        peer = self.open(keys or self.find_keys("worker"))
        peer.say(Hello(slots, (), WORKER_OFFERS, About(worker, worker, slots)))
        return peer

    def invite(self, role: str = "worker", seconds: float = 600.0, uses: int = 1) -> str:
        with gandy.Client(self.address) as owner:
            return owner.invite(role, seconds, uses).token

    def join(self, text: str, secret: Secret | None = None, **changes: Any) -> joining.JoinAnswer:
        """Ask as `gandy join` does, but for what is changed."""
        token, secret = joining.parse_token(text), secret or make_secret()
        public = changes.get("public_key", secret.public)
        proof = make_proof(hash_secret(token.secret), joining.bind(token.fingerprint, public))
        told = {
            "invitation": token.invitation,
            "proof": proof,
            "public_key": public,
            "name": f"hut-{secrets.token_hex(4)}",
            **changes,
        }
        with closing(self.open(None, ALPN_JOIN)) as peer:
            peer.send(joining.encode_join(joining.Join(**told)))
            return peer.hear_answer()

    def is_well(self) -> bool:
        """True if a peer with a key is answered over the network."""
        with closing(self.open_client("client")) as peer:
            return isinstance(peer.ask(ask.GetStatus()), ask.ForemanStatus)

    def read_log(self) -> str:
        return self.foreman.log.read_text()

    def read_audit(self) -> str:
        return (self.home / "audit.jsonl").read_text()

    def read_memory(self) -> int:
        """Bytes."""
        return read_memory(self.foreman.process.pid, "VmRSS")

    def count_files(self) -> int:
        return len(list(Path(f"/proc/{self.foreman.process.pid}/fd").iterdir()))


class Peer:
    """One end of a link, inside TLS."""

    def __init__(self, link: ssl.SSLSocket) -> None:
        self.link = link
        link.settimeout(SOON)
        self._decoder = v2.V2Decoder()
        self._decoder.allow(v2.KNOWN_EXTENSIONS)

    def send(self, data: bytes) -> None:
        self.link.sendall(data)

    def say(self, message: Message, seq: int = 0) -> None:
        self.send(v2.encode(seq, message))

    def ask(self, request: ask.Request, seq: int = 1) -> ask.Answer:
        """The answer, when what else comes is left out."""
        self.say(Extended(ask.REQUEST, ask.encode(request)), seq)
        while True:
            heard = self.hear()
            if isinstance(heard, Extended) and heard.type == ask.REPLY:
                return ask.decode_answer(heard.payload)
            assert isinstance(heard, Extended), heard

    def hear(self) -> Message | None:
        """The next message; None at the end."""
        while (numbered := self._decoder.next_message()) is None:
            try:
                data = self.link.recv(65_536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._decoder.receive_data(data)
        return numbered[1]

    def hear_end(self) -> ErrorCode | None:
        """The last error that it was told before the link ended, as it must."""
        code = None
        while (heard := self.hear()) is not None:
            code = ErrorCode(heard.code) if isinstance(heard, Error) else code
        return code

    def hear_answer(self) -> joining.JoinAnswer:
        reader = joining.JoinReader()
        while data := self.link.recv(65_536):
            if (found := reader.receive(data)) is not None:
                return joining.decode_answer(found)
        raise ConnectionError("cut without an answer")

    def close(self) -> None:
        self.link.close()


@contextmanager
def a_fort(home: Path, *words: str) -> Iterator[Fort]:
    fort = Fort(home, *words)
    try:
        yield fort
    finally:
        fort.end()


def is_cut(link: socket.socket) -> bool:
    """Whether the other end hangs up, within the time of the socket. What it says first is dropped."""
    try:
        while link.recv(65_536):
            pass
    except TimeoutError:
        return False
    except (ConnectionError, ssl.SSLError):
        return True
    return True


def drip(links: Sequence[socket.socket], data: bytes, patience: float) -> float:
    """One byte every 100 ms to each, until all are cut. Gives the seconds that it took."""
    begun = time.monotonic()
    is_open = dict.fromkeys(links, 0)
    for link in links:
        link.setblocking(False)
    while is_open and time.monotonic() < begun + patience:
        for link, at in list(is_open.items()):
            try:
                is_open[link] += link.send(data[at : at + 1])
                with suppress(BlockingIOError):
                    if not link.recv(100):
                        del is_open[link]
            except OSError:
                del is_open[link]
        time.sleep(0.1)  # the pace of the attack
    assert not is_open, f"{len(is_open)} links were not cut"
    return time.monotonic() - begun
