"""Encodes bundles of the bus and of OSC, which gandy only receives. It checks no limits."""

import struct
from collections.abc import Iterable

from gandy.bus.wire import osc
from gandy.bus.wire.messages import BusBundle, BusMessage, Order, encode_message
from gandy.bus.wire.values import write_text


def encode_element(element: BusMessage | BusBundle, order: Order) -> bytes:
    if isinstance(element, BusMessage):
        return encode_message(element, order)
    inner = [encode_element(one, order) for one in element.elements]
    return struct.pack(f"{order}d", element.time) + write_text(f"#{element.service}") + _join(inner, order)


def encode_osc_element(element: osc.OscMessage | osc.OscBundle) -> bytes:
    if isinstance(element, osc.OscMessage):
        return osc.encode(element)
    return b"#bundle\0" + struct.pack(">Q", element.time) + _join(map(encode_osc_element, element.elements), ">")


def _join(elements: Iterable[bytes], order: Order) -> bytes:
    return b"".join(struct.pack(f"{order}I", len(data)) + data for data in elements)
