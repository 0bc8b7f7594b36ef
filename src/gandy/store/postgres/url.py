"""URLs of databases: what is ours in them, and what libpq gets. It knows no driver, and shows no password."""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from gandy.errors import StoreError

KINDS: Final = ("postgresql", "postgres")  # libpq knows both
DEFAULT_SCHEMA: Final = "gandy"
SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,47}")  # PostgreSQL cuts names of tables at 63 bytes


class DatabaseUrl(NamedTuple):
    """What a URL says. Its text has no password."""

    conninfo: str  # for libpq; it may have a password
    schema: str

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self})"

    def __str__(self) -> str:
        """Where the database is, for people."""
        return f"{hide_password(self.conninfo)}, schema {self.schema}"


def parse_url(url: str) -> DatabaseUrl:
    """Raises: StoreError: its schema has no usable name."""
    base, _, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    schema = DEFAULT_SCHEMA
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name == "schema":
            schema = unquote(value)
    if SCHEMA.fullmatch(schema) is None:
        raise StoreError(
            f"{schema!r:.80} is no name for a schema: use up to 48 small letters, digits and _, no digit first"
        )
    rest = [pair for pair in pairs if not pair.startswith("schema=")]
    return DatabaseUrl(base + ("?" + "&".join(rest) if rest else ""), schema)


def hide_password(conninfo: str) -> str:
    """The host and the name of the database, without the user's name, passwords and settings."""
    base, _, query = conninfo.partition("?")
    place = base.partition("://")[2].rpartition("@")[2]
    host, _, database = place.partition("/")
    if not host:
        found = re.search(r"(?:^|&)host=([^&]*)", query)
        host = unquote(found[1]) if found else "localhost"
    return f"{host}/{database}" if database else host
