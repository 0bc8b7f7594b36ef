"""Packs any Python value into bytes, and unpacks it. Raises what pickle raises; `culprit` finds the part that failed.

Bytes that begin with 0x80 are a plain pickle. Others begin with an envelope: pickle's out-of-band buffers (memory of
arrays) follow the pickle in sections. Packing copies them once; unpacking from a bytearray does not copy them.
"""

import pickle
import struct
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

from gandy.functions.errors import WrongPython

Packed = bytes | bytearray | memoryview

PROTOCOL: Final = 5
PLAIN: Final = 0x80  # how every pickle of protocol 2 and above begins
MAGIC: Final = 0x47
BY_VALUE: Final = 1  # the pickle contains code, which belongs to one version of Python
ENVELOPE: Final = struct.Struct(
    "<BBBBI"
)  # magic, flags, two numbers of the version of Python, sections after the first
ALIGNMENT: Final = 16  # bytes, as malloc aligns memory, since arrays are used in place

# How pickle writes the name of the module __main__ the first time. It pickles what is defined there by name, but in
# another process __main__ is another program. A string in the data that looks the same only costs time.
MAIN: Final = b"\x8c\x08__main__"


def pack(value: Any) -> bytes:
    """Pickle by name what can be imported, and everything else by value. Raises: whatever pickling the value raises."""
    buffers: list[pickle.PickleBuffer] = []
    if not _has_modules_by_value():
        try:
            data = pickle.dumps(value, PROTOCOL, buffer_callback=buffers.append)
        except Exception:  # noqa: BLE001 - values may raise anything here; cloudpickle is tried next
            buffers.clear()
        else:
            if MAIN not in data:
                return _wrap(0, data, buffers) if buffers else data
            buffers.clear()
    return _wrap(BY_VALUE, dump_by_value(value, buffers.append), buffers)


def dump_by_value(value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    # Imported late: that takes longer than everything else, and importable functions do not need it.
    import cloudpickle  # type: ignore[import-untyped]

    data: bytes = cloudpickle.dumps(value, PROTOCOL, buffer_callback)
    return data


def unpack(packed: Packed) -> Any:
    """Return the value. Arrays share the memory of a bytearray. Raises: whatever unpickling the value raises."""
    if packed[0] == PLAIN:
        return pickle.loads(packed)  # noqa: S301 - a client that may submit functions may run code, see the package
    view = memoryview(packed)
    magic, flags, major, minor, count = ENVELOPE.unpack_from(view)
    if magic != MAGIC:
        raise ValueError("these bytes are not a packed value")
    if flags & BY_VALUE and (major, minor) != sys.version_info[:2]:
        raise WrongPython(
            f"a function or class travelled as code from Python {major}.{minor} to {sys.version.split()[0]}, which "
            "cannot run it: use the same version on both sides, or put it into a module that both can import"
        )
    lengths = struct.unpack_from(f"<{count + 1}Q", view, ENVELOPE.size)
    starts = _place(lengths)
    data, *buffers = (view[start : start + length] for start, length in zip(starts, lengths, strict=False))
    # Arrays must be writable, and bytes are not.
    return pickle.loads(data, buffers=map(bytearray, buffers) if view.readonly else buffers)  # noqa: S301


def _wrap(flags: int, data: bytes, buffers: list[pickle.PickleBuffer]) -> bytes:
    sections = [memoryview(data), *(buffer.raw() for buffer in buffers)]
    lengths = [section.nbytes for section in sections]
    parts: list[bytes | memoryview] = [
        ENVELOPE.pack(MAGIC, flags, *sys.version_info[:2], len(buffers)),
        struct.pack(f"<{len(lengths)}Q", *lengths),
    ]
    end = ENVELOPE.size + 8 * len(lengths)
    for start, section in zip(_place(lengths), sections, strict=False):
        parts += (bytes(start - end), section)
        end = start + section.nbytes
    return b"".join(parts)


def _place(lengths: list[int] | tuple[int, ...]) -> list[int]:
    """Compute the offset of each section, and of one more."""
    return list(
        accumulate(lengths, lambda at, length: _align(at + length), initial=_align(ENVELOPE.size + 8 * len(lengths)))
    )


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _has_modules_by_value() -> bool:
    """True if the program asked cloudpickle to pickle some modules by value."""
    module = sys.modules.get("cloudpickle")
    return module is not None and bool(module.list_registry_pickle_by_value())
