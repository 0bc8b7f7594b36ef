"""Hostile values for any type that is decoded, made from the type itself: out of bounds, of another type, missing."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw
from msgspec import inspect as look

MANY = 100_000
LONG = "x" * 70_000

# What no field should take for granted, whatever it is. Raw bytes are msgpack that no Python value makes.
ATOMS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    1.5,
    1e300,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "a\nb",
    "\x1b[2J",
    "\x00",
    "\u202e",
    b"",
    b"\x00" * 300,
    [],
    [None],
    {},
    {"": None},
    {"type": "Submit"},
    Raw(b"\xa3\xed\xa0\x80"),  # a surrogate
    Raw(b"\xa2\xff\xfe"),  # not UTF-8
    Raw(b"\x91" * 5_000 + b"\xc0"),  # nested too deep
    Raw(b"\xd6\xff\x00\x00\x00\x00"),  # a time
    Raw(b"\xc7\x01\x05\x00"),  # of an unknown type
    Raw(b"\xdf\xff\xff\xff\xff"),  # a map that claims to be endless
)
HEAVY: tuple[Any, ...] = (LONG, LONG.encode(), [0] * MANY, dict.fromkeys(map(str, range(MANY))))


def list_hostile(kind: Any, heavy: bool = True) -> Iterator[bytes]:
    """Payloads that are meant to be of this type: every field in turn is made hostile."""
    described = look.type_info(kind)
    atoms = tuple(map(_encode, ATOMS + (HEAVY if heavy else ())))
    yield from map(_encode, _list_hostile(described, [Raw(atom) for atom in atoms]))


def make_good(kind: look.Type) -> Any:
    """Within all bounds, and as small as can be."""
    match kind:
        case look.IntType():
            return max(1, kind.ge or 0)
        case look.FloatType():
            return 1.0
        case look.StrType():
            return "x"
        case look.BytesType():
            return b"x"
        case look.BoolType():
            return False
        case look.EnumType():
            return next(iter(kind.cls)).value
        case look.VarTupleType():
            return [make_good(kind.item_type)] * (kind.min_length or 0)
        case look.NamedTupleType():
            return [make_good(field.type) for field in kind.fields]
        case look.StructType():
            return _make_struct(kind, {field.name: make_good(field.type) for field in kind.fields if field.required})
        case look.UnionType():
            return make_good(next(each for each in kind.types if not isinstance(each, look.NoneType)))
        case _:
            return {}


def _make_struct(kind: look.StructType, values: dict[str, Any]) -> Any:
    if kind.array_like:
        return [values.get(field.name) for field in kind.fields if field.name in values]
    named = {field.encode_name: values[field.name] for field in kind.fields if field.name in values}
    return named if kind.tag_field is None else {kind.tag_field: kind.tag, **named}


def _list_hostile(kind: look.Type, atoms: Iterable[Any]) -> Iterator[Any]:  # noqa: C901 - one case for each type
    match kind:
        case look.UnionType():
            for each in kind.types:
                yield from _list_hostile(each, atoms)
            return
        case look.StructType():
            yield from _list_structs(kind, atoms)
        case look.NamedTupleType():
            for place, field in enumerate(kind.fields):
                for bad in _list_hostile(field.type, atoms):
                    yield [bad if at == place else make_good(each.type) for at, each in enumerate(kind.fields)]
        case look.VarTupleType():
            for bad in _list_hostile(kind.item_type, atoms):
                yield [bad]
            if kind.max_length is not None and kind.max_length <= MANY:
                yield [make_good(kind.item_type)] * (kind.max_length + 1)
        case look.DictType():
            for bad in _list_hostile(kind.value_type, atoms):
                yield {"x": bad}
        case look.IntType() | look.FloatType():
            for bound in filter(None, (kind.ge, kind.le)):
                yield from (bound, bound + 1, bound - 1)
        case look.StrType() if kind.max_length is not None and kind.max_length <= len(LONG):
            yield from ("é" * kind.max_length, "x" * (kind.max_length + 1))
        case look.BytesType() if kind.max_length is not None and kind.max_length <= len(LONG):
            yield from (b"x" * kind.max_length, b"x" * (kind.max_length + 1))
        case _:
            pass
    yield from atoms


def _list_structs(kind: look.StructType, atoms: Iterable[Any]) -> Iterator[Any]:
    good = {field.name: make_good(field.type) for field in kind.fields if field.required}
    for field in kind.fields:
        for bad in _list_hostile(field.type, atoms):
            yield _make_struct(kind, {**good, field.name: bad})
        yield _make_struct(kind, {name: value for name, value in good.items() if name != field.name})
    if not kind.array_like:
        yield {**_make_struct(kind, good), "unknown": 1}


def _encode(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:  # more than 64 bits fit no msgpack
        return b"\xc1"
