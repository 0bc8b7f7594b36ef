"""The original's own bytes: each vector whole, byte by byte, and with bytes of the next frame behind it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gandy.cli.frames import PlainDecoder, make_decoder
from gandy.doors.v1 import wire as v1
from gandy.wire import v2

HERE = Path(__file__).parent


def load(name: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in json.loads((HERE / name).read_text())]


V1 = load("jobs-v1.json")
V2 = load("jobs-v2.json")


@pytest.mark.parametrize("vector", V2)
def test_v2_encodes_to_the_same_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    decoder = v2.V2Decoder()
    decoder.receive_data(data)
    numbered = decoder.next_message()
    assert numbered is not None
    assert (v2.encode(*numbered) == data) == vector["canonical"]


@pytest.mark.parametrize("vector", V1)
def test_v1_encodes_to_the_same_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    decoder = v1.V1Decoder()
    decoder.receive_data(data)
    message = decoder.next_message()
    assert message is not None
    assert (v1.encode(message) == data) == vector["canonical"]


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("vector", V2)
def test_v2_decodes_in_any_pieces(vector: dict[str, Any], size: int) -> None:
    check_pieces(make_decoder(2), vector, size)


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("vector", V1)
def test_v1_decodes_in_any_pieces(vector: dict[str, Any], size: int) -> None:
    check_pieces(make_decoder(1), vector, size)


def check_pieces(decoder: PlainDecoder, vector: dict[str, Any], size: int) -> None:
    data = bytes.fromhex(vector["hex"])
    for begin in range(0, len(data), size):
        assert decoder.next_message() is None
        decoder.receive_data(data[begin : begin + size])
    assert_frame(decoder, vector)
    assert (decoder.next_message(), decoder.unread) == (None, 0)


@pytest.mark.parametrize("vector", V2)
def test_v2_leaves_trailing_bytes_alone(vector: dict[str, Any]) -> None:
    check_trailing(make_decoder(2), vector)


@pytest.mark.parametrize("vector", V1)
def test_v1_leaves_trailing_bytes_alone(vector: dict[str, Any]) -> None:
    check_trailing(make_decoder(1), vector)


def check_trailing(decoder: PlainDecoder, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    decoder.receive_data(data + data[:11])
    assert_frame(decoder, vector)
    assert (decoder.next_message(), decoder.unread) == (None, 11)


def assert_frame(decoder: PlainDecoder, vector: dict[str, Any]) -> None:
    assert decoder.next_message() == vector["frame"]
