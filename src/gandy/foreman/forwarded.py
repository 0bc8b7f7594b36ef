"""A client's request that the owner of another shard answers, and the events that follow its answer."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.core import requests as ask
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.refusal import Refusal
from gandy.core.views import TaskUpdate
from gandy.foreman.crew_link import CrewLink
from gandy.foreman.subscriptions import Token

MOVED: Final = "moved"  # the kind of a failure: the owner of a shard is changing, so the client should ask again

# Requests whose answer is followed by events.
FOLLOWED: Final = ask.WatchJob | ask.WatchResults | ask.WatchCrew | ask.WatchTasks


class ForwardedRequest:
    """`send` it, wait for `answered`, and `end` it when nothing more is wanted or will come."""

    def __init__(self, token: Token, shard: int, on_event: Callable[["ForwardedRequest", ask.Answer], None]) -> None:
        """`token`: of the client's request. `on_event`: sends the client an event."""
        self.answered: asyncio.Future[ask.Answer] = asyncio.get_running_loop().create_future()
        self.peer: CrewLink | None = None  # once it is sent
        self.is_over = False
        self.token = token
        self._shard = shard
        self._on_event = on_event
        self._number = 0  # on the link to the other foreman
        self._early: list[ask.Answer] | None = []  # events, while the client has no answer

    def send(self, peer: CrewLink, request: ask.Request) -> None:
        """Raises: LinkError."""
        self._number = peer.ask(request, self._on_answer)
        self.peer = peer

    def follow(self) -> None:
        """The client gets its answer in this turn of the loop. From the next one on, it gets events."""
        assert self.peer is not None
        self.peer.lost.add_done_callback(self._on_lost)
        asyncio.get_running_loop().call_soon(self._send_early)

    def end(self, must_unwatch: bool = False) -> None:
        """Send the client no more events. `must_unwatch`: the other foreman would go on with them."""
        if self.is_over:
            return
        self.is_over = True
        if not self.answered.done():
            self.answered.set_result(ask.Done())
        if self.peer is not None:
            self.peer.lost.remove_done_callback(self._on_lost)
            if must_unwatch:
                self.peer.unwatch(self._number)
            else:
                self.peer.forget(self._number)

    def _on_answer(self, answer: ask.Answer, is_event: bool) -> None:
        if not is_event:
            if not self.answered.done():
                self.answered.set_result(answer)
        elif self._early is not None:
            self._early.append(answer)
        else:
            self._on_event(self, answer)

    def _send_early(self) -> None:
        early, self._early = self._early or [], None
        for event in early:
            self._on_event(self, event)

    def _on_lost(self, _lost: "asyncio.Future[None]") -> None:
        """No more events come over this connection: the client must ask again."""
        refusal = make_refusal(self._shard)
        self._on_event(self, ask.make_failure(refusal.kind, str(refusal), retryable=True))


def is_last(answer: ask.Answer) -> bool:
    """True if no events follow this answer, or event."""
    match answer:
        case ask.JobFound(row):
            return row.state in FINAL_JOB_STATES or bool(row.problem)
        case ask.Results():
            return answer.is_last
        case TaskUpdate():
            return answer.is_final
        case ask.RequestFailure() | ask.Done():
            return True
        case _:
            return False


def make_refusal(shard: int) -> Refusal:
    return Refusal(MOVED, f"the owner of shard {shard}, which has this job, is changing: try again", retryable=True)
