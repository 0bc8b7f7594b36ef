"""A foreman whose links are played by hand."""

from tests.ports import PlayedPort

from gandy.core.extensions import FOREMAN_OFFERS
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.peer_log import PeerLog
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.roles import Credentials, CrewRole
from gandy.core.workers import WorkerInfo
from gandy.errors import RemoteProtocolError
from gandy.wire import calls, v2
from gandy.wire.calls import Offer
from gandy.wire.messages import About, Extension, Hello, Message

WORKING = FOREMAN_OFFERS & ~Extension.CLIENT
ASKING = Extension.ATOMIC | Extension.CLIENT | Extension.CALLS


class Watcher(PeerLog):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        self.notes.append(f"{worker.id} on {link.name}")

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        self.notes.append(f"{link.name} refused: {error.code.name}")

    def on_expired(self, link: Link) -> None:
        self.notes.append(f"{link.name} expired")

    def on_silent(self, worker: WorkerInfo) -> None:
        self.notes.append(f"{worker.id} silent")


class Crew:
    def __init__(self, max_silent: int = 10) -> None:
        self.watcher = Watcher()
        self.foreman = Foreman(Reactor(Policy(grace=10.0)), 0.0, self.watcher, max_silent)
        self.ports: dict[str, PlayedPort] = {}

    def connect(self, name: str, role: CrewRole = CrewRole.OWNER, expires: float | None = None) -> Link:
        port = self.ports[name] = PlayedPort(name)
        return self.foreman.on_link(port, Credentials(role, f"key of {name}", expires), 0.0)

    def send(self, link: Link, message: Message, seq: int = 0, now: float = 1.0) -> None:
        self.foreman.on_data(link, v2.encode(seq, message), now)
        self.foreman.check()

    def worker(self, name: str, link: str = "", slots: int = 2, offers: tuple[str, ...] = ("ping",)) -> Link:
        port = self.ports[link or name] = PlayedPort(link or name)
        found = self.foreman.on_link(port, Credentials(key=f"key of {name}"), 0.0)
        self.send(found, Hello(slots, (), WORKING, About(name, name, slots)))
        announcement = calls.encode_announcement(slots, 0, [Offer(offer) for offer in offers])
        self.foreman.on_data(found, calls.encode(calls.ANNOUNCE, 0, 0, 0, announcement), 1.0)
        self.ports[found.name].take()
        return found

    def client(self, name: str, role: CrewRole = CrewRole.CLIENT) -> Link:
        found = self.connect(name, role)
        self.send(found, Hello(0, (), ASKING))
        self.ports[name].take()
        return found
