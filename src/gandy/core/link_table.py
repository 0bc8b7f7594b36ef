"""The links of a foreman: by worker, by key, and those that have something to write."""

from gandy.core.links import Link


class LinkTable:
    """What is sent to a link is written by `flush`, with everything else that is sent in the same step."""

    def __init__(self) -> None:
        self.by_name: dict[str, Link] = {}
        self._by_worker: dict[str, Link] = {}
        self._unwritten: set[Link] = set()

    def set_worker(self, link: Link) -> Link | None:
        """The peer has said which worker it is. Returns the link that this worker had before, if any."""
        before = self._by_worker.get(link.worker)
        self._by_worker[link.worker] = link
        return None if before is link else before

    def remove(self, link: Link) -> bool:
        """Remove a link. False if its worker has a newer one."""
        del self.by_name[link.name]
        self._unwritten.discard(link)
        self._by_worker.pop(link.nameless, None)
        if self._by_worker.get(link.worker, link) is not link:
            return False
        self._by_worker.pop(link.worker, None)
        return True

    def find(self, worker: str) -> Link | None:
        """The link of a worker that is here."""
        return self._by_worker.get(worker)

    def find_to_send(self, worker: str) -> Link | None:
        """The same; `flush` writes what the caller sends to it."""
        link = self._by_worker.get(worker)
        if link is not None:
            self._unwritten.add(link)
        return link

    def list_by_key(self, key: str) -> list[Link]:
        """The links of peers that connected with this key."""
        return [link for link in self.by_name.values() if link.credentials.key == key]

    def send(self, link: Link, kind: int, payload: bytes, seq: int) -> bool:
        """Send a message of an agreed extension. False: the link is not there any more."""
        if link.name not in self.by_name:
            return False
        link.send(kind, payload, seq)
        self._unwritten.add(link)
        return True

    def greet(self, link: Link) -> None:
        """Send a first message to a worker that waits for one."""
        if link.name in self.by_name:
            link.side.greet()
            link.flush()

    def flush(self) -> None:
        for link in self._unwritten:
            link.flush()
        self._unwritten.clear()

    def check(self) -> None:
        """What must hold after every step; for tests."""
        known = set(self.by_name.values())
        assert known.issuperset(self._by_worker.values())
        assert known >= self._unwritten
