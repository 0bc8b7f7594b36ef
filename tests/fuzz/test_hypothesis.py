"""Hypothesis drives the same targets: with bytes from nowhere, and with good input that is damaged."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz.seeds import list_seeds
from tests.fuzz.targets import TARGETS

# Where, how many bytes go, and what comes instead.
damages = st.lists(st.tuples(st.integers(0, 999_999), st.integers(0, 4), st.binary(max_size=4)), max_size=4)


def damage(seeds: list[bytes], changes: list[tuple[int, int, bytes]]) -> bytes:
    data = bytearray(b"".join(seeds))
    for place, count, instead in changes:
        begin = place % (len(data) + 1)
        data[begin : begin + count] = instead
    return bytes(data)


def damaged(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """One or two seeds with some bytes changed, taken out or put in."""
    return st.builds(damage, st.lists(st.sampled_from(seeds), min_size=1, max_size=2), damages)


DAMAGED = {name: damaged(list_seeds(name)) for name in TARGETS}


@pytest.mark.parametrize("name", TARGETS)
@example(b"")
@given(data=st.binary(max_size=400))
def test_any_bytes(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
def test_damaged_input(name: str, data: st.DataObject) -> None:
    TARGETS[name](data.draw(DAMAGED[name]))
