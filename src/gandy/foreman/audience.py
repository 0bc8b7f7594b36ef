"""The viewers of one thing: of a shard, or of the tasks of a job. Each update is encoded once, and sent to all of them.

A viewer that does not read fast enough misses updates. When it has read what waits for it, it gets everything anew.
"""

import asyncio
from collections.abc import Callable

from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.core.requests import REPLY, Answer, Done, encode
from gandy.foreman.messenger import Messenger
from gandy.foreman.request_queue import OpenRequest
from gandy.foreman.subscriptions import Token
from gandy.limits import MAX_VIEWER_BYTES
from gandy.net.links import get_port


class Viewer:
    """A client's request for updates. The first one is its answer, the others are events."""

    def __init__(self, request: OpenRequest, messenger: Messenger) -> None:
        self.link = request.link
        self.has_all = False  # it needs only what changes
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._request = request
        self._messenger = messenger

    @property
    def is_behind(self) -> bool:
        """True if much of what was sent to it waits in our memory."""
        return get_port(self.link).unsent_bytes > MAX_VIEWER_BYTES

    def send(self, update: bytes) -> None:
        """Write it at once: `is_behind` sees only what is written."""
        if self.answered.done():
            self._messenger.send_encoded(self.link, self._request.message.seq, update)
        else:
            self._request.send(REPLY, update)
            self.answered.set_result(True)
        self.link.flush()


class Audience:
    """Viewers by link and number of the request."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._viewers: dict[Token, Viewer] = {}

    def __len__(self) -> int:
        return len(self._viewers)

    def __contains__(self, token: Token) -> bool:
        return token in self._viewers

    def add(self, request: OpenRequest) -> asyncio.Future[bool]:
        """The result is True when the client has its answer, and False if it must get it elsewhere. Raises: Refusal."""
        token = request.link, request.message.seq
        if token in self._viewers:
            raise Refusal("bad_request", "a request with this number has no answer yet, or gets events")
        viewer = self._viewers[token] = Viewer(request, self._messenger)
        return viewer.answered

    def discard(self, token: Token) -> None:
        """Send nothing more to this viewer, except an answer if it has none."""
        viewer = self._viewers.pop(token, None)
        if viewer is not None and not viewer.answered.done():
            viewer.send(encode(Done()))

    def list_of(self, link: Link) -> list[Token]:
        """The viewers on one link."""
        return [token for token in self._viewers if token[0] is link]

    def send(self, update: Answer | None, make_whole: Callable[[], Answer]) -> None:
        """Send what has changed, and everything to those that lack something and can take it."""
        lacking = [viewer for viewer in self._viewers.values() if not viewer.has_all]
        if update is not None:
            self._send_changes(encode(update))
        ready = [viewer for viewer in lacking if not viewer.is_behind]
        if ready:
            payload = encode(make_whole())
            for viewer in ready:
                viewer.has_all = True
                viewer.send(payload)

    def _send_changes(self, update: bytes) -> None:
        for viewer in self._viewers.values():
            if viewer.has_all:
                viewer.has_all = not viewer.is_behind
                if viewer.has_all:
                    viewer.send(update)

    def send_once(self, make_whole: Callable[[], Answer]) -> None:
        """The same for viewers that get nothing after that."""
        self.send(None, make_whole)
        self._viewers = {token: viewer for token, viewer in self._viewers.items() if not viewer.has_all}

    def end(self, last: Answer) -> list[Token]:
        """Send this to all viewers, also to those that missed some updates. Returns them: nothing follows."""
        payload, tokens = encode(last), list(self._viewers)
        for viewer in self._viewers.values():
            viewer.send(payload)
        self._viewers.clear()
        return tokens

    def dismiss(self) -> None:
        """Let those that have no answer get it elsewhere."""
        for viewer in self._viewers.values():
            viewer.answered.set_result(False)
        self._viewers.clear()
