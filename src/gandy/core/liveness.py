"""Cuts links: of peers that never say HELLO, of workers that fall silent, and of keys that are revoked or expired."""

from typing import Final

from gandy.core.link_table import LinkTable
from gandy.core.links import Port
from gandy.core.peer_log import PeerLog
from gandy.core.roles import make_refusal
from gandy.core.unknown_peers import UnknownPeers
from gandy.core.workers import WorkerTable
from gandy.errors import ErrorCode
from gandy.limits import HELLO_SECONDS
from gandy.moments import LONG_AGO, Monotonic, Wall
from gandy.wire.messages import Extension

HEARTBEAT_EXPIRY: Final = 15.0  # seconds of silence after which a worker's link is cut


class Liveness:
    """Keeps the peers that have not said HELLO, and looks at the others from time to time."""

    def __init__(self, links: LinkTable, workers: WorkerTable, peer_log: PeerLog, max_silent: int) -> None:
        self.silent: UnknownPeers[Port] = UnknownPeers(max_silent, HELLO_SECONDS)  # before their HELLO
        self._links = links
        self._workers = workers
        self._peer_log = peer_log
        self._next_silence = LONG_AGO  # when the first worker may have been silent for too long

    def on_time(self, now: Monotonic) -> None:
        self.silent.expire(now)
        self._cut_silent(now)

    def _cut_silent(self, now: Monotonic) -> None:
        if now < self._next_silence:  # a look at a thousand workers takes milliseconds
            return
        self._next_silence = now + HEARTBEAT_EXPIRY
        for link in list(self._links.by_name.values()):
            worker = self._workers.find(link.worker)
            if worker is None or Extension.HEARTBEAT not in link.agreed:
                continue
            if now - worker.last_heard > HEARTBEAT_EXPIRY:
                self._peer_log.on_silent(worker.info)
                link.port.abort()
            else:
                self._next_silence = min(self._next_silence, worker.last_heard + HEARTBEAT_EXPIRY)

    def cut_key(self, key: str) -> None:
        """Cut the links of a revoked key."""
        for link in self._links.list_by_key(key):
            link.port.dismiss(make_refusal(ErrorCode.REVOKED_KEY))

    def cut_expired(self, wall: Wall) -> None:
        """Cut the links of keys that have expired by this time of day."""
        for link in list(self._links.by_name.values()):
            if link.credentials.expires is not None and wall >= link.credentials.expires:
                self._peer_log.on_expired(link)
                link.port.dismiss(make_refusal(ErrorCode.EXPIRED_KEY))
