"""Arguments and values that doors open: whatever a peer wrote, it is a value or a ValueError."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.doors.values import decode_args, decode_value, encode_value, find_failure
from gandy.wire.calls import BUSY, FAILED, LAST, REFUSED, WHOLE, CallFailure, encode_failure, encode_refusal

NONSENSE = [
    b"",
    b"\xc1",
    b"\x91",
    b"\xa1\xff",
    b"\x91" * 100_000,
    b"\x81\x80\x01",  # a map as a key
    b"\x81\x91\x80\x01",
    b"\xd6\xff\xff\xff\xff",
    b"\xc7\x0c\xff" + b"\xff" * 12,  # a time that no calendar has
    b"\x01\x01",
]


@pytest.mark.parametrize("decode", [decode_value, decode_args])
@pytest.mark.parametrize("body", NONSENSE, ids=lambda body: body[:8].hex())
def test_nonsense_is_a_value_error(decode: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)


def test_arguments_are_a_list() -> None:
    assert decode_args(encode_value((1, b"x"))) == [1, b"x"]
    with pytest.raises(ValueError):
        decode_args(encode_value({"a": 1}))


@given(st.binary(max_size=100))
def test_any_bytes_are_a_value_or_a_value_error(body: bytes) -> None:
    for decode in (decode_value, decode_args):
        with suppress(ValueError):
            decode(body)


@given(st.recursive(st.none() | st.integers(0, 2**63) | st.binary() | st.text(), st.lists, max_leaves=10))
def test_what_is_encoded_is_decoded(value: object) -> None:
    assert decode_value(encode_value(value)) == value


def test_only_failures_and_refusals_have_a_reason() -> None:
    failure = encode_failure(CallFailure("ValueError", "no bread"))
    assert find_failure(LAST | FAILED, failure) == "no bread"
    assert find_failure(LAST | REFUSED, encode_refusal(BUSY, "later")) == "later"
    assert find_failure(LAST | WHOLE, b"\xc0") is None
