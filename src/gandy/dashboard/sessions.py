"""Tokens, and the sessions of browsers and programs that have used them.

A token that was printed is for one browser or one program: it works once, and then the next one is printed. The user's
own token, from a file or the environment, is for any number of programs. Only hashes of secrets are kept.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from gandy.dashboard.limits import (
    MAX_PROGRAMS,
    MAX_SESSION_BURST,
    MAX_SESSION_RATE,
    MAX_SESSIONS,
    MAX_WRONG_TOKENS,
)
from gandy.moments import LONG_AGO, Monotonic

SECRET_BYTES: Final = 32
SHORTEST_WAIT: Final = 0.001  # seconds; a shorter one costs more than it saves


def hash_secret(secret: str) -> bytes:
    """Secrets are compared by their hashes, so that the time it takes says nothing about them."""
    return sha256(secret.encode(errors="surrogateescape")).digest()


class Session:
    """A browser, or the programs that have one token, with what it does now."""

    def __init__(self) -> None:
        self.requests = 0  # that are handled
        self.streams = 0
        self._paced = LONG_AGO  # when its requests so far would have come at the greatest rate

    def take_turn(self, now: Monotonic) -> float:
        """Seconds that the next request of this session must wait."""
        burst = MAX_SESSION_BURST / MAX_SESSION_RATE
        self._paced = max(self._paced, now - burst) + 1 / MAX_SESSION_RATE
        wait = self._paced - now
        return wait if wait > SHORTEST_WAIT else 0.0


class Sessions:
    """`print_token` is called with each new token that the next browser may use."""

    def __init__(self, own_token: str | None, print_token: Callable[[str], None]) -> None:
        self._print_token = print_token
        self._programs: OrderedDict[bytes, Session] = OrderedDict()
        self._browsers: OrderedDict[bytes, Session] = OrderedDict()
        self._own = None if own_token is None else hash_secret(own_token)
        self._own_session = Session()
        self._printed = b""  # the hash of the token that was printed last
        self._wrong = 0.0  # wrong tokens, less those that are forgiven
        self._wrong_at = LONG_AGO

    def print_next(self) -> None:
        token = secrets.token_urlsafe(SECRET_BYTES)
        self._printed = hash_secret(token)
        self._print_token(token)

    def open_browser(self, token: str) -> str | None:
        """Use a token. Returns the secret for the browser's cookie; None: the token is wrong, or was used before."""
        if not secrets.compare_digest(hash_secret(token), self._printed):
            return None
        secret = secrets.token_urlsafe(SECRET_BYTES)
        _keep(self._browsers, hash_secret(secret), Session(), MAX_SESSIONS)
        self.print_next()
        return secret

    def find_browser(self, secret: str) -> Session | None:
        hashed = hash_secret(secret)
        session = self._browsers.get(hashed)
        if session is not None:
            self._browsers.move_to_end(hashed)
        return session

    def find_program(self, token: str) -> Session | None:
        """The session of a program with this token. A token that was printed for the next browser becomes its own."""
        hashed = hash_secret(token)
        if self._own is not None and secrets.compare_digest(hashed, self._own):
            return self._own_session
        if secrets.compare_digest(hashed, self._printed):
            _keep(self._programs, hashed, Session(), MAX_PROGRAMS)
            self.print_next()
        session = self._programs.get(hashed)
        if session is not None:
            self._programs.move_to_end(hashed)
        return session

    def note_wrong(self, now: Monotonic) -> bool:
        """Count a wrong token. True: there were too many lately. A right one is accepted all the same."""
        self._wrong = max(0.0, self._wrong - (now - self._wrong_at) * MAX_WRONG_TOKENS) + 1
        self._wrong_at = now
        is_flood = self._wrong > MAX_WRONG_TOKENS
        self._wrong = min(self._wrong, 2 * MAX_WRONG_TOKENS)
        return is_flood


def _keep(table: OrderedDict[bytes, Session], key: bytes, session: Session, most: int) -> None:
    """Add a session, and drop the one that was used longest ago if there are too many."""
    table[key] = session
    if len(table) > most:
        table.popitem(last=False)
