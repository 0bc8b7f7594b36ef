"""Errors of the driver in the words of gandy, with what a user can do about each. Passwords are not in them."""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import psycopg

from gandy.errors import StoreError, StoreFull
from gandy.store.postgres.url import DatabaseUrl
from gandy.store.submissions import KeyTaken

# Errors that may pass, by SQLSTATE or its first two characters, and what a user can do about each.
TEMPORARY: Final[Mapping[str, str]] = {
    "08": "the connection broke",
    "25006": "it accepts no writes, as a standby does: it may be failing over; name the primary",
    "40001": "another transaction was in the way: it is tried again",
    "40P01": "another transaction was in the way: it is tried again",
    "53100": "its disk is full: make room",
    "53200": "it has not enough memory",
    "53300": "it has too many connections already: raise max_connections, or put PgBouncer before it",
    "53": "it has not enough of something",
    "55P03": "another transaction holds a lock: look at pg_stat_activity",
    "57014": "the statement was cancelled, by a user or by a timeout",
    "57P01": "it is shutting down",
    "57P02": "it stops because one of its processes crashed",
    "57P03": "it is starting, or stopping",
    "57P05": "it closed an idle connection",
    "57": "it was interrupted",
    "58": "it has a problem with its disk: look at its log",
    "23514": "a part of a table is gone: the foreman looks for the next one",
    "F0": "it has a problem with its files: look at its log",
}

# Errors that stay until a user does something.
LASTING: Final[Mapping[str, str]] = {
    "28": "it does not let us in: check the user, the password and pg_hba.conf",
    "3D000": "there is no such database: make it first, with createdb",
    "42501": "the user of the database may not do this: grant it CREATE on the database, or make its schema",
    "XX001": "damaged: restore a backup",
    "XX002": "an index is damaged: REINDEX it",
}

DISK_FULL: Final = "53100"
UNIQUE_VIOLATION: Final = "23505"
LOCK_NOT_AVAILABLE: Final = "55P03"
NO_ROOM: Final = os.strerror(errno.ENOSPC)  # all that a server says that has no room to let us in
ENDS_SESSION: Final = ("FATAL", "PANIC")  # severities of errors
SUBMISSION: Final = "jobs_submission"  # the index that lets no two jobs have the same key


class Locked(StoreError):
    """Another transaction held a lock for longer than we wait."""


class Disconnected(StoreError):
    """The connection broke while a statement was under way: whether it was done is not known."""


@contextmanager
def explained(url: DatabaseUrl) -> Iterator[None]:
    """Raises: StoreError: in place of an error of the driver or the system."""
    try:
        yield
    except psycopg.Error as error:
        raise explain(error, url) from None
    except (OSError, TimeoutError) as error:
        raise Disconnected(f"{url}: the database cannot be reached: {_clean(error, url)}", retryable=True) from None


def explain(error: psycopg.Error, url: DatabaseUrl) -> StoreError:
    code = error.sqlstate
    if code is None:
        is_lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        text = f"{url}: there is no connection to the database: {_clean(error, url)}"
        return Disconnected(text, retryable=True) if is_lost else StoreError(f"{url}: {_clean(error, url)}")
    if code == UNIQUE_VIOLATION and error.diag.constraint_name == SUBMISSION:
        return KeyTaken(str(url))
    text = _find(TEMPORARY, code)
    # A server that shuts down, or crashes, may have done the commit before.
    if code.startswith(("08", "57P")) or error.diag.severity_nonlocalized in ENDS_SESSION:
        return Disconnected(f"{url}: {text or 'it crashed'} ({_clean(error, url)})", retryable=True)
    if code == DISK_FULL:
        return StoreFull(f"{url}: {text} ({_clean(error, url)})")
    if text:
        kind = Locked if code == LOCK_NOT_AVAILABLE else StoreError
        return kind(f"{url}: {text} ({_clean(error, url)})", retryable=True)
    text = _find(LASTING, code)
    return StoreError(f"{url}: {text} ({_clean(error, url)})" if text else f"{url}: {_clean(error, url)}")


def explain_no_connection(error: Disconnected) -> StoreError:
    """What a failure to connect means: nothing was sent. A server without room has no code for it here."""
    return StoreFull(f"{error}: make room") if NO_ROOM in str(error) else StoreError(str(error), retryable=True)


def _find(texts: Mapping[str, str], code: str) -> str:
    return texts.get(code) or texts.get(code[:2]) or ""


def _clean(error: BaseException, url: DatabaseUrl) -> str:
    """The first line of its text. libpq never prints a password, unless it is part of a URL that it cannot read."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    for secret in _find_secrets(url.conninfo):
        text = text.replace(secret, "***")
    return text


def _find_secrets(conninfo: str) -> list[str]:
    """Passwords in a URL, long ones first: `user:password@` and `password=`."""
    place = conninfo.partition("://")[2].partition("?")[0].rpartition("@")[0]
    found = [place.partition(":")[2], *re.findall(r"(?:ssl)?password=([^&]*)", conninfo)]
    return sorted((secret for secret in found if secret), key=len, reverse=True)
