"""Writes what peers do into the audit and the log."""

import logging

from gandy.core import liveness
from gandy.core.links import Link
from gandy.core.peer_log import PeerLog
from gandy.core.workers import WorkerInfo
from gandy.errors import REFUSALS, RemoteProtocolError
from gandy.foreman.audit import Audit
from gandy.net.links import STRANGER, Visitor, get_port

log = logging.getLogger("gandy.foreman")


class AuditedPeers(PeerLog):
    """The `PeerLog` of a foreman with sockets."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        self._audit.note("came to work", get_port(link).peer, worker=worker.name, id=worker.id)

    def on_worker_left(self, who: Visitor, worker: WorkerInfo) -> None:
        self._audit.note("left work", who, worker=worker.name, id=worker.id)

    def on_foreign_user(self, who: Visitor) -> None:
        log.warning("another user tried to connect to the unix socket")
        self._audit.note("refused", who, why="another user")

    def on_stranger(self, place: str, why: str) -> None:
        """A peer that showed no key was refused."""
        self._audit.note("refused", Visitor(STRANGER, place), why=why)

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        log.warning("%s is cut: %s", link.name, error)
        if error.code in REFUSALS:
            self._audit.note("refused", get_port(link).peer, why=str(error))

    def on_expired(self, link: Link) -> None:
        self._audit.note("refused", get_port(link).peer, why="its key has expired")

    def on_silent(self, worker: WorkerInfo) -> None:
        log.warning("worker %s has been silent for %.0f s; its link is cut", worker.name, liveness.HEARTBEAT_EXPIRY)
