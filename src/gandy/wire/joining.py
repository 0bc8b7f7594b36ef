"""How a machine joins a crew: the token that the foreman's owner hands out, and one request and one answer inside TLS.

Request and answer are msgpack after a length of four bytes. The ALPN name selects this protocol instead of v2.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct

from gandy.bounds import BROKEN, KeyData, OptionalName, Text, describe
from gandy.errors import ConfigError, ErrorCode, RemoteProtocolError
from gandy.limits import MAX_JOIN_BYTES, MAX_TOKEN

ALPN_JOIN: Final = "gandy-join"
ALPN_NATIVE: Final = "gandy"

PREFIX: Final = "gandy1-"
_LENGTH: Final = 4

# A proof, a secret or a fingerprint: each is a hash, or as long as one.
Hash = Annotated[bytes, Meta(max_length=64)]

T = TypeVar("T")


class Token(Struct, frozen=True, array_like=True):
    """Where the foreman is, how to recognise it, and the secret of an invitation."""

    invitation: OptionalName
    secret: Hash
    fingerprint: Hash  # of the foreman's certificate
    addresses: Annotated[tuple[Text, ...], Meta(max_length=MAX_TOKEN)]
    role: OptionalName

    def __repr__(self) -> str:
        return f"Token({self.invitation})"  # the secret must not get into a log


class Join(Struct, frozen=True):
    """The request to join. The proof covers the foreman's fingerprint and our public key: see `bind`."""

    invitation: OptionalName
    proof: Hash
    public_key: KeyData  # DER
    name: OptionalName


class Joined(Struct, frozen=True, tag=True, omit_defaults=True):
    """The machine has joined."""

    certificate: KeyData  # DER
    name: OptionalName
    role: OptionalName
    ensemble: OptionalName = ""  # that the foreman is in, with its key below
    ensemble_key: Hash = b""
    identity_secret: KeyData = b""  # of the crew, PEM: only for a foreman

    def __repr__(self) -> str:
        return f"Joined({self.name}, {self.role})"  # the secrets must not get into a log


class JoinRefused(Struct, frozen=True, tag=True, omit_defaults=True):
    """The machine may not join, for this reason."""

    reason: Text
    is_name_taken: bool = False  # with another name it may join


JoinAnswer = Joined | JoinRefused

_encode: Final = msgspec.msgpack.Encoder().encode
_tokens: Final = msgspec.msgpack.Decoder(Token)
_joins: Final = msgspec.msgpack.Decoder(Join)
_answers: Final[msgspec.msgpack.Decoder[JoinAnswer]] = msgspec.msgpack.Decoder(JoinAnswer)


def format_token(token: Token) -> str:
    data = _encode(token)
    return PREFIX + urlsafe_b64encode(crc32(data).to_bytes(4, "big") + data).decode().rstrip("=")


def parse_token(text: str) -> Token:
    """Raises: ConfigError, whose text never contains the token."""
    text = text.strip()
    if not text.startswith(PREFIX) or len(text) > MAX_TOKEN:
        raise ConfigError(f"this is not a token: a token begins with {PREFIX} and comes from 'gandy invite'")
    try:
        raw = urlsafe_b64decode(text.removeprefix(PREFIX) + "==")
        if crc32(raw[4:]).to_bytes(4, "big") != raw[:4]:
            raise ValueError("damaged")
        return _tokens.decode(raw[4:])
    except (ValueError, msgspec.DecodeError):
        raise ConfigError("the token is damaged: copy all of it, from 'gandy1-' to the end of the line") from None


def bind(fingerprint: bytes, public_key: bytes) -> bytes:
    """Return what a proof covers. The fingerprint has a fixed length, so the result is unambiguous."""
    return fingerprint + public_key


def encode_join(message: Join | JoinAnswer) -> bytes:
    data = _encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


class JoinReader:
    """Collects bytes until a request or an answer is complete."""

    def __init__(self) -> None:
        self._data = bytearray()

    def receive(self, data: bytes) -> bytes | None:
        """Return the message once it is complete. Raises: RemoteProtocolError."""
        self._data += data
        if len(self._data) < _LENGTH:
            return None
        length = int.from_bytes(self._data[:_LENGTH], "big")
        if length > MAX_JOIN_BYTES or len(self._data) > _LENGTH + length:
            raise RemoteProtocolError(f"more than {MAX_JOIN_BYTES} bytes about joining", ErrorCode.TOO_LONG)
        return bytes(self._data[_LENGTH:]) if len(self._data) == _LENGTH + length else None


def decode_join(data: bytes) -> Join:
    """Raises: RemoteProtocolError."""
    return _decode(_joins, data)


def decode_answer(data: bytes) -> JoinAnswer:
    """Raises: RemoteProtocolError."""
    return _decode(_answers, data)


def _decode(decoder: "msgspec.msgpack.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except BROKEN as error:
        raise RemoteProtocolError(f"about joining: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
