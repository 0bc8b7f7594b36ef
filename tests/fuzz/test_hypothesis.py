"""Hypothesis drives the same targets: with bytes from nowhere, and with good input that is damaged."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.seeds import list_seeds
from tests.fuzz.targets import TARGETS

EXAMPLES = settings(max_examples=200, deadline=None)


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """One or two seeds with some bytes changed, taken out or put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(seeds), min_size=1, max_size=2))))
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(data)))
        end = begin + draw(st.integers(0, 4))
        data[begin:end] = draw(st.binary(max_size=4))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
@EXAMPLES
@example(b"")
@given(data=st.binary(max_size=400))
def test_any_bytes(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
@EXAMPLES
@given(data=st.data())
def test_damaged_input(name: str, data: st.DataObject) -> None:
    TARGETS[name](data.draw(damaged(list_seeds(name))))
