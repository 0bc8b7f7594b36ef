"""What a foreman notes of its peers, for the log and the audit."""

from gandy.core.links import Link
from gandy.core.workers import WorkerInfo
from gandy.errors import RemoteProtocolError


class PeerLog:
    """Notes nothing. Programs override what they note."""

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        """A worker said HELLO on this link for the first time."""

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        """A peer broke the rules, and is cut."""

    def on_expired(self, link: Link) -> None:
        """A peer's key has expired, and the peer is cut."""

    def on_silent(self, worker: WorkerInfo) -> None:
        """A worker was silent for too long, and its link is cut."""
