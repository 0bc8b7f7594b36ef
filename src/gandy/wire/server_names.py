"""Whom a peer asks for when it connects with TLS (SNI), and how a foreman's own certificate names it.

A peer that asks for nothing reaches the foreman's own shard, and is shown the identity of the crew.
"""

import re
from typing import Final

FOREMAN: Final = "foreman"  # also the DNS name in the certificate of a foreman, and in no other
JOIN: Final = "join"  # for a peer that knows only the fingerprint of the crew's identity

_SHARD: Final = re.compile(r"shard-([1-9][0-9]{0,8})")


def format_shard_name(shard: int) -> str:
    return f"shard-{shard}"


def parse_shard_name(name: str | None) -> int | None:
    """The shard that a peer asked for; None if it asked for none."""
    found = _SHARD.fullmatch(name or "")
    return None if found is None else int(found[1])
