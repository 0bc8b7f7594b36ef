"""Requests of clients for events about jobs. It sends nothing."""

from collections import Counter

from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.ids import JobId
from gandy.limits import MAX_WATCHED

Token = tuple[Link, int]  # a client's link, and the number of its request


class Subscriptions:
    """Requests for events, by job."""

    def __init__(self) -> None:
        self._tokens: dict[JobId, set[Token]] = {}
        self._counts: Counter[Link] = Counter()  # of these, by link

    def __contains__(self, job: JobId | None) -> bool:
        return job in self._tokens

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def __getitem__(self, job: JobId) -> tuple[Token, ...]:
        return tuple(self._tokens.get(job, ()))

    def add(self, job: JobId, token: Token) -> None:
        """Raises: Refusal."""
        if token in self._tokens.get(job, ()):
            return
        if self._counts[token[0]] >= MAX_WATCHED:
            raise Refusal("refused", f"one link watches at most {MAX_WATCHED:,} jobs")
        self._counts[token[0]] += 1
        self._tokens.setdefault(job, set()).add(token)

    def discard(self, job: JobId, token: Token) -> None:
        tokens = self._tokens.get(job, set())
        if token in tokens:
            tokens.remove(token)
            self._counts[token[0]] -= 1
        if not tokens:
            self._tokens.pop(job, None)

    def forget_token(self, token: Token) -> None:
        for job in [job for job, tokens in self._tokens.items() if token in tokens]:
            self.discard(job, token)

    def forget_job(self, job: JobId) -> None:
        for token in self[job]:
            self.discard(job, token)

    def forget_link(self, link: Link) -> None:
        for tokens in self._tokens.values():
            tokens.difference_update([token for token in tokens if token[0] is link])
        self._tokens = {job: tokens for job, tokens in self._tokens.items() if tokens}
        self._counts.pop(link, None)
