"""A length that a peer only claims costs no memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from gandy.doors.v1 import wire as v1
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.wire import v2
from gandy.wire.stream import MAGIC, Decoder

# Bytes. An error, its text and its traceback take some; a claim that is believed takes megabytes.
PEAK_LIMIT = 64 * 1024

GIANT = 0xFFFF_FFFF

# An array or a map of 4 billion entries, and a string and bytes of 4 GiB, none of which follow.
MSGPACK_CLAIMS = [kind + GIANT.to_bytes(4) for kind in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9")]


def measure_peak(decoder: Decoder[Any], data: bytes) -> tuple[int, ErrorCode]:
    decoder.receive_data(data)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError) as caught:
            decoder.next_message()
        return tracemalloc.get_traced_memory()[1], caught.value.code
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", sorted(v2.SIZED))
def test_v2_frame_of_4_gib(kind: int) -> None:
    peak, code = measure_peak(v2.V2Decoder(), v2.HEADER.pack(MAGIC, kind, 0, 0, 0, GIANT))
    assert code is ErrorCode.TOO_LONG
    assert peak < PEAK_LIMIT


@pytest.mark.parametrize("kind", sorted(v1.SIZED))
def test_v1_frame_of_4_gib(kind: int) -> None:
    peak, code = measure_peak(v1.V1Decoder(), v1.HEADER.pack(MAGIC, kind, 0, GIANT))
    assert code is ErrorCode.TOO_LONG
    assert peak < PEAK_LIMIT


def frame_v2(kind: int, payload: bytes) -> bytes:
    return v2.HEADER.pack(MAGIC, kind, 0, 0, 0, len(payload)) + payload


def frame_v1(kind: int, payload: bytes) -> bytes:
    return v1.HEADER.pack(MAGIC, kind, 0, len(payload)) + payload


def in_a_field(claim: bytes) -> bytes:
    return b"\x82\xa4Task" + claim


def in_a_list(claim: bytes) -> bytes:
    return b"\x91" + in_a_field(claim)


def in_a_hello(claim: bytes) -> bytes:
    return b"\x82\xa8NumProcs\x01\xa7Running" + claim


@pytest.mark.parametrize("claim", MSGPACK_CLAIMS, ids=bytes.hex)
@pytest.mark.parametrize("place", [bytes, in_a_field, in_a_list, in_a_hello])
@pytest.mark.parametrize("kind", sorted(v2.SIZED))
def test_v2_payload_that_claims_billions(kind: int, place: Callable[[bytes], bytes], claim: bytes) -> None:
    peak, code = measure_peak(v2.V2Decoder(), frame_v2(kind, place(claim)))
    assert code is ErrorCode.BAD_PAYLOAD
    assert peak < PEAK_LIMIT


@pytest.mark.parametrize("claim", MSGPACK_CLAIMS, ids=bytes.hex)
@pytest.mark.parametrize("place", [bytes, in_a_field])
@pytest.mark.parametrize("kind", sorted(v1.SIZED))
def test_v1_payload_that_claims_billions(kind: int, place: Callable[[bytes], bytes], claim: bytes) -> None:
    peak, code = measure_peak(v1.V1Decoder(), frame_v1(kind, place(claim)))
    assert code is ErrorCode.BAD_PAYLOAD
    assert peak < PEAK_LIMIT
