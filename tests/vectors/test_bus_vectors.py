"""The original's own bytes on the bus: each vector both ways, in frames of any pieces, and with bytes behind it.

`source` of a vector: `recorded` from a program, or `described`, of which there is no recording.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from gandy.bus.wire import control as bus_control
from gandy.bus.wire.control import (
    ClockReply,
    ClockRequest,
    ClockSynced,
    Discovery,
    Init,
    Services,
    decode_control,
    decode_discovery,
    decode_init,
)
from gandy.bus.wire.dialects import DIALECTS, Dialect
from gandy.bus.wire.messages import BusMessage, Framer, decode, decode_message, encode_message, frame, peek
from gandy.errors import RemoteProtocolError

Said = Discovery | Init | bus_control.Control

VECTORS = json.loads((Path(__file__).parent / "bus-2016.json").read_text())
ALL = [pytest.param(vector, id=vector["name"]) for vector in VECTORS]
RECEIVED = [vector for vector in VECTORS if "control" in vector]
CONTROLS = [pytest.param(vector, id=vector["name"]) for vector in RECEIVED]
SENT = [pytest.param(vector, id=vector["name"]) for vector in RECEIVED if vector.get("is_sent", True)]


def build(value: Any) -> Any:
    """An argument, for which JSON has no word of its own."""
    match value:
        case {"hex": text}:
            return bytes.fromhex(text)
        case {"vector": values}:
            return tuple(values)
        case _:
            return value


def build_message(vector: dict[str, Any]) -> BusMessage:
    said = vector["message"]
    return BusMessage(said["time"], said["address"], said["types"], tuple(map(build, said["args"])))


def build_control(vector: dict[str, Any]) -> Said:
    fields = {name: value for name, value in vector["control"].items() if name != "kind"}
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    made: Said = getattr(bus_control, vector["control"]["kind"])(**fields)
    return made


def get_dialect(vector: dict[str, Any]) -> Dialect:
    """In the vector's own order: gandy never sends as a big-endian process of 2016 does."""
    return DIALECTS[vector["dialect"]]._replace(order=vector["order"])


@pytest.mark.parametrize("vector", ALL)
def test_message_is_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    message = build_message(vector)
    assert decode_message(data, vector["order"]) == decode(data, vector["order"]) == message
    assert peek(data, vector["order"])[:2] == message[:2]


@pytest.mark.parametrize("vector", ALL)
def test_message_is_written(vector: dict[str, Any]) -> None:
    message = build_message(vector)
    assert encode_message(message, vector["order"]).hex() == vector["hex"]


@pytest.mark.parametrize("vector", ALL)
def test_values_have_the_types_that_were_told(vector: dict[str, Any]) -> None:
    found = decode_message(bytes.fromhex(vector["hex"]), vector["order"]).args
    assert [type(value) for value in found] == [type(value) for value in build_message(vector).args]


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("vector", ALL)
def test_frame_comes_in_any_pieces(vector: dict[str, Any], size: int) -> None:
    data = bytes.fromhex(vector["hex"])
    framed = len(data).to_bytes(4, "big") + data
    assert frame(data) == framed
    framer = Framer()
    for begin in range(0, len(framed), size):
        assert framer.next_message() is None
        framer.receive_data(framed[begin : begin + size])
    assert framer.next_message() == data
    assert (framer.next_message(), framer.unread) == (None, 0)


@pytest.mark.parametrize("vector", ALL)
def test_frame_leaves_trailing_bytes_alone(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    framer = Framer()
    framer.receive_data(frame(data) + frame(data)[:11])
    assert framer.next_message() == data
    assert (framer.next_message(), framer.unread) == (None, 11)


@pytest.mark.parametrize("vector", ALL)
def test_message_has_its_own_length_and_no_other(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for wrong in (data + bytes(4), data[:-1], data[:-4], data[:12], data[:8], b""):
        with pytest.raises(RemoteProtocolError):
            decode_message(wrong, vector["order"])


@pytest.mark.parametrize("vector", CONTROLS)
def test_control_is_read(vector: dict[str, Any]) -> None:
    dialect = DIALECTS[vector["dialect"]]
    data = bytes.fromhex(vector["hex"])
    said = build_control(vector)
    if isinstance(said, Discovery):
        assert decode_discovery(data, dialect) == said
    elif isinstance(said, Init):
        assert decode_init(data, dialect) == said
    else:
        assert decode_control(decode_message(data, vector["order"]), dialect) == said


@pytest.mark.parametrize("vector", SENT)
def test_control_is_written(vector: dict[str, Any]) -> None:
    assert [data.hex() for data in encode_control(build_control(vector), vector)] == [vector["hex"]]


def encode_control(said: Said, vector: dict[str, Any]) -> list[bytes]:
    dialect, peer = get_dialect(vector), vector.get("peer", "")
    match said:
        case Discovery():
            return [bus_control.encode_discovery(said, dialect)]
        case Init():
            return [bus_control.encode_init(said, peer, dialect)]
        case Services():
            return bus_control.encode_services(said, peer, dialect)
        case ClockSynced():
            return [bus_control.encode_clock_synced(said, peer, dialect)]
        case ClockRequest():
            return [bus_control.encode_clock_request(said, dialect)]
        case ClockReply():
            return [bus_control.encode_clock_reply(said, ClockRequest(said.serial, peer), dialect)]
