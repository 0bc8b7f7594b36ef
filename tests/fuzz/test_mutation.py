"""Good payloads with one strange value in them, all of them there are."""

import msgspec
import pytest
from tests.fuzz.mutation import STRANGE, mutate, replace_each
from tests.fuzz.seeds import list_seeds
from tests.fuzz.targets import PAYLOADS


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_strange_value_breaks_a_target(name: str) -> None:
    for seed in filter(None, list_seeds(name)):
        for payload in replace_each(seed):
            try:
                PAYLOADS[name](payload)
            except Exception as error:
                error.add_note(f"the payload is {payload.hex()}")
                raise


def test_each_value_is_replaced_and_taken_out() -> None:
    payloads = list(replace_each(msgspec.msgpack.encode({"a": [1]})))
    assert len(payloads) == 3 * (len(STRANGE) + 1)
    assert {msgspec.msgpack.encode({"a": [None]}), msgspec.msgpack.encode({"a": []}), b"\x80", b""} <= set(payloads)


def test_what_is_not_msgpack_is_left_alone() -> None:
    assert mutate(b"\xc1", lambda limit: 0) == b"\xc1"
