"""Converts frames to plain values for JSON and back, for users and tools that read or write bytes.

It keeps every field of a header, also those that gandy ignores. It checks payloads against their types, and shows them
as gandy would send them. Frames are independent: any frame may follow any other.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from gandy.doors.v1 import wire as v1
from gandy.errors import LocalProtocolError, RemoteProtocolError
from gandy.wire import payloads, v2
from gandy.wire.messages import Task, TaskPair, TaskResult, pack_pair
from gandy.wire.payloads import HelloData, Payload
from gandy.wire.stream import MAGIC, Decoder

Generation: TypeAlias = Literal[1, 2]
PlainFrame: TypeAlias = dict[str, Any]

Number8 = Annotated[int, Meta(ge=0, le=0xFF)]
Number16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
Number32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]


class _Unopened(Struct, forbid_unknown_fields=True):
    """The payload of an extension, which is not decoded."""

    hex: str


class _Shape(NamedTuple):
    """The payload of one type: its type in JSON, its decoder and its encoder."""

    type: Any
    decode: Callable[[Payload], Any]
    encode: Callable[[Any], bytes] = payloads.encode
    may_be_absent: bool = False


_RESULT: Final = _Shape(TaskResult, payloads.decode_result)
_EXTENSION: Final = _Shape(
    _Unopened, lambda payload: _Unopened(payload.hex()), lambda unopened: bytes.fromhex(unopened.hex), True
)
_EXTENSION_TYPES: Final = [number for numbers in v2.EXTENSION_TYPES.values() for number in numbers]

_V1_SHAPES: Final[Mapping[int, _Shape]] = {
    v1.V1Type.JOB: _Shape(Task, payloads.decode_task),
    v1.V1Type.UPDATE: _RESULT,
}
_V2_SHAPES: Final[Mapping[int, _Shape]] = {
    v2.Type.HELLO: _Shape(HelloData, payloads.decode_hello, may_be_absent=True),
    v2.Type.JOB: _Shape(payloads.Tasks, payloads.decode_tasks),
    v2.Type.UPDATE: _RESULT._replace(may_be_absent=True),
    v2.Type.CANCEL: _Shape(tuple[TaskPair, ...], payloads.decode_pairs),
    **dict.fromkeys(_EXTENSION_TYPES, _EXTENSION),
}

_V1_NAMES: Final[Mapping[int, str]] = {kind: kind.name for kind in v1.V1Type}
_V2_NAMES: Final[Mapping[int, str]] = {
    **{kind: kind.name for kind in v2.Type},
    **{number: f"0x{number:02x}" for number in _EXTENSION_TYPES},
}


class PlainDecoder(Decoder[PlainFrame]):
    """Bytes in with `receive_data`, plain frames out with `next_message`."""

    _shapes: Mapping[int, _Shape]

    @property
    def missing(self) -> int:
        """Bytes that the last frame lacks according to its header; 0 if the stream ends with a complete frame."""
        if self.unread == 0:
            return 0
        if self.unread < self._header_size:
            return self._header_size - self.unread
        *_, length = self._unpack(self._buffer, self._position)
        return self._header_size + length - self.unread

    def _open_payload(self, kind: int, payload: Payload) -> Any:
        shape = self._shapes.get(kind)
        if shape is None or (shape.may_be_absent and not payload):
            return None
        return msgspec.json.decode(msgspec.json.encode(shape.decode(payload)))


class _PlainV1Decoder(PlainDecoder):
    _shapes = _V1_SHAPES

    def __init__(self) -> None:
        super().__init__(v1.FORMAT)

    def open_frame(self, kind: int, _subtype: int, _seq: int, padding: int, arg0: int, payload: Payload) -> PlainFrame:
        opened = self._open_payload(kind, payload)
        return {"type": _V1_NAMES[kind], "padding": padding, "arg0": arg0, "payload": opened}


class _PlainV2Decoder(PlainDecoder):
    _shapes = _V2_SHAPES

    def __init__(self) -> None:
        super().__init__(v2.FORMAT._replace(sized=frozenset(_V2_SHAPES)))

    def open_frame(self, kind: int, subtype: int, seq: int, padding: int, arg0: int, payload: Payload) -> PlainFrame:
        return {
            "type": _V2_NAMES[kind],
            "subtype": subtype,
            "seq": seq,
            "padding": padding,
            "arg0": arg0,
            "payload": self._open_payload(kind, payload),
        }


def make_decoder(generation: Generation) -> PlainDecoder:
    """Make a decoder that accepts every extension, since there is no peer to agree with."""
    return _PlainV1Decoder() if generation == 1 else _PlainV2Decoder()


class Guess:
    """Finds out if bytes are frames of a generation, for a hint to a user who chose the other one."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._decoder = make_decoder(generation)
        self._is_wrong = False

    @property
    def is_right(self) -> bool:
        """True if all bytes so far are frames, and the last one is complete."""
        return not self._is_wrong and not self._decoder.unread

    def receive_data(self, data: bytes) -> None:
        if self._is_wrong:
            return
        self._decoder.receive_data(data)
        try:
            while self._decoder.next_message() is not None:
                pass
        except RemoteProtocolError:
            self._is_wrong = True


class _V1Fields(Struct, forbid_unknown_fields=True):
    """A v1 frame as `encode` takes it: the fields of the header, and what may replace arg0."""

    type: str
    padding: Number32 = 0
    arg0: Number32 | None = None
    payload: Any = None
    nproc: Number32 | None = None

    @property
    def account(self) -> int | None:
        return self.nproc

    def pack(self, kind: int, arg0: int) -> bytes:
        return v1.HEADER.pack(MAGIC, kind, self.padding, arg0)


class _V2Fields(Struct, forbid_unknown_fields=True):
    """A v2 frame as `encode` takes it."""

    type: str
    subtype: Number8 = 0
    seq: Number32 = 0
    padding: Number32 = 0
    arg0: Number32 | None = None
    payload: Any = None
    nproc: Number16 | None = None
    nrun: Number16 | None = None

    @property
    def account(self) -> int | None:
        if self.nproc is None and self.nrun is None:
            return None
        return pack_pair(self.nproc or 0, self.nrun or 0)

    def pack(self, kind: int, arg0: int) -> bytes:
        return v2.HEADER.pack(MAGIC, kind, self.subtype, self.seq, self.padding, arg0)


_Fields: TypeAlias = _V1Fields | _V2Fields


class _Form(NamedTuple):
    fields: type[_Fields]
    names: Mapping[int, str]
    shapes: Mapping[int, _Shape]


_FORMS: Final[Mapping[int, _Form]] = {
    1: _Form(_V1Fields, _V1_NAMES, _V1_SHAPES),
    2: _Form(_V2Fields, _V2_NAMES, _V2_SHAPES),
}


def encode(generation: Generation, frame: object) -> bytes:
    """Encode a plain frame. A header field that is left out is 0; arg0 follows from the payload.

    Raises: LocalProtocolError, if the frame or its payload does not match its type.
    """
    form = _FORMS[generation]
    try:
        fields: _Fields = msgspec.convert(frame, form.fields)
    except ValueError as error:  # mistyped, or not UTF-8
        raise LocalProtocolError(f"not a frame of generation {generation}: {error}") from None
    kind = _find_number(form.names, fields.type)
    if kind is None:
        known = ", ".join(name for name in form.names.values() if not name.startswith("0x"))
        raise LocalProtocolError(f"generation {generation} has no type {fields.type!r}; known are {known}")
    payload = _encode_payload(fields, form.shapes.get(kind))
    arg0 = _settle_arg0(fields, None if payload is None else len(payload))
    return fields.pack(kind, arg0) + (payload or b"")


def _find_number(names: Mapping[int, str], name: str) -> int | None:
    return next((number for number, known in names.items() if known == name), None)


def _encode_payload(fields: _Fields, shape: _Shape | None) -> bytes | None:
    """Encode the payload; None for a type without one."""
    if shape is None:
        if fields.payload is not None:
            raise LocalProtocolError(f"{fields.type} carries no payload")
        return None
    if fields.payload is None and shape.may_be_absent:
        return b""
    try:
        return shape.encode(msgspec.convert(fields.payload, shape.type))
    except (ValueError, OverflowError) as error:  # mistyped, not hex or not UTF-8; a number of more than 64 bits
        raise LocalProtocolError(f"{fields.type} payload: {error}") from None


def _settle_arg0(fields: _Fields, length: int | None) -> int:
    """Return the arg0 that follows from the rest of the frame, or else the given one. If there are both, they agree."""
    if fields.account is not None and fields.type != "OK":
        raise LocalProtocolError(f"nproc and nrun are for OK, not for {fields.type}")
    derived = fields.account if length is None else length
    if derived is None:
        if fields.arg0 is None:
            raise LocalProtocolError(f"{fields.type} needs arg0")
        return fields.arg0
    if fields.arg0 not in (None, derived):
        text = f"arg0 of {fields.type} is {fields.arg0}, but {derived} follows from the rest (it may be left out)"
        raise LocalProtocolError(text)
    return derived
