"""Damage inside msgpack that leaves it msgpack: one value is replaced, taken out or put somewhere else.

Byte by byte a fuzzer hardly finds such input, because the msgpack library is compiled and tells it nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

Pick: TypeAlias = Callable[[int], int]  # a number from 0 up to, but not including, the one given

STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 65535, 2**32, 2**63, 2**64 - 1, -(2**63)),
    *(0.0, 1.5, -1.5, float("inf"), float("nan")),
    *("", "x", "\0", "ü" * 40, b"", b"\xff", [], [1], {}, {"": 1}, {1: {2: [3]}}),
    msgspec.msgpack.Ext(5, b"?"),
)


def mutate(payload: bytes, pick: Pick) -> bytes:
    """The payload with one thing in it changed, or as it is where it is not msgpack."""
    try:
        root = [msgspec.msgpack.decode(payload)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload
    places = list(_walk(root))
    container, key = places[pick(len(places))]
    match pick(4):
        case 0:
            del container[key]
        case 1:
            other, other_key = places[pick(len(places))]
            container[key] = _copy(other[other_key])  # a value inside itself would have no end
        case _:
            container[key] = STRANGE[pick(len(STRANGE))]
    return _encode(root)


def replace_each(payload: bytes) -> Iterator[bytes]:
    """The payload with each value in it taken out, and replaced by each of the strange ones."""
    good = [msgspec.msgpack.decode(payload)]
    for number in range(len(list(_walk(good)))):
        root = _copy(good)
        container, key = list(_walk(root))[number]
        for container[key] in STRANGE:
            yield _encode(root)
        del container[key]
        yield _encode(root)


def _walk(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value: the container and the key in it."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _walk(value[key])


def _copy(value: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


def _encode(root: list[Any]) -> bytes:
    return b"".join(map(msgspec.msgpack.encode, root))
