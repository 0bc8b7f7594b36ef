"""Sends messages of gandy's extensions to clients and workers: answers, events, questions."""

import asyncio
import logging

from gandy.core.link_table import LinkTable
from gandy.core.links import Link
from gandy.core.requests import EVENT, REPLY, Answer, encode, hide_values, make_failure
from gandy.limits import MAX_PAYLOAD_BYTES

log = logging.getLogger("gandy.foreman")


class Messenger:
    """Everything that is sent to a link in one turn of the loop is written at once."""

    def __init__(self, links: LinkTable) -> None:
        self._links = links
        self._will_flush = False

    def send(self, link: Link, kind: int, payload: bytes, seq: int) -> bool:
        """Send a message of an agreed extension. False: the link is not there any more."""
        if not self._links.send(link, kind, payload, seq):
            return False
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self.flush)
        return True

    def send_answer(self, link: Link, seq: int, answer: Answer) -> bool:
        payload = encode(hide_values(answer))
        if len(payload) > MAX_PAYLOAD_BYTES:
            log.error("an answer of %d bytes does not fit a frame: %s", len(payload), type(answer).__name__)
            payload = encode(make_failure("internal", f"the answer has {len(payload):,} bytes, which fit no frame"))
        return self.send(link, REPLY, payload, seq)

    def send_event(self, link: Link, seq: int, event: Answer) -> None:
        """`seq`: of the request that asked for events."""
        self.send(link, EVENT, encode(hide_values(event)), seq)

    def send_encoded(self, link: Link, seq: int, event: bytes) -> None:
        """The same for an event that was encoded once, for many clients."""
        self.send(link, EVENT, event, seq)

    def flush(self) -> None:
        self._will_flush = False
        self._links.flush()
