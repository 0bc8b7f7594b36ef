"""Packs exceptions into bytes and opens them: pickled if possible, and always with their traceback as text."""

import os
import pickle
from typing import Final, NamedTuple

from gandy.functions.errors import RemoteError, RemoteTraceback
from gandy.functions.packing import PROTOCOL, pack, unpack
from gandy.limits import MAX_CAUSES, MAX_ERROR_LINE

# Files of gandy itself, and of the loop on which it runs coroutine functions.
OURS: Final = (__file__.removesuffix("functions/failures.py"), f"{os.__file__.removesuffix('os.py')}asyncio{os.sep}")


class PackedException(NamedTuple):
    """One exception: its text, and the exception itself if it could be pickled."""

    class_name: str
    text: str
    notes: list[str]
    packed: bytes


def pack_error(error: BaseException, trace: str | None = None) -> bytes:
    """Pack an exception. Never raises. `trace`: what `format_error` returned, if the caller has it already."""
    causes: list[PackedException] = []
    link: BaseException | None = error
    while link is not None and len(causes) < MAX_CAUSES:
        causes.append(_describe(link))
        link = link.__cause__
    fields = (format_error(error) if trace is None else trace, [tuple(cause) for cause in causes])
    return pickle.dumps(fields, PROTOCOL)


def open_error(packed: bytes) -> BaseException:
    """Open an exception with its causes; the cause of the last one is the remote traceback.

    Never raises for what `pack_error` packed.
    """
    trace, exceptions = pickle.loads(packed)  # noqa: S301 - see the package
    chain = [_rebuild(PackedException(*fields), trace) for fields in exceptions]
    for error, cause in zip(chain, [*chain[1:], RemoteTraceback(trace)], strict=True):
        error.__cause__ = cause
    return chain[0]


def describe_error(error: BaseException) -> str:
    """Describe an exception on one line, such as "ValueError: bad"."""
    text = " ".join(_read_text(error).split())
    name = type(error).__qualname__
    line = f"{name}: {text}" if text else name
    return line if len(line) <= MAX_ERROR_LINE else f"{line[: MAX_ERROR_LINE - 1]}…"


def format_error(error: BaseException) -> str:
    """Format an exception as Python prints it, without gandy's own frames at its beginning."""
    # Imported late: most processes never need it.
    import traceback

    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename.startswith(OURS):
        first = first.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, first or error.__traceback__))
    except Exception as problem:  # noqa: BLE001 - an exception class may do anything in its methods
        return f"{describe_error(error)} (its traceback cannot be printed: {type(problem).__name__})\n"


def _describe(error: BaseException) -> PackedException:
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    try:
        packed = pack(error)
    except Exception:  # noqa: BLE001 - then only its text is sent
        packed = b""
    return PackedException(name, _read_text(error), notes, packed)


def _rebuild(exception: PackedException, trace: str) -> BaseException:
    error = _maybe_open(exception.packed) or RemoteError(exception.class_name, exception.text, trace)
    if exception.notes and not hasattr(error, "__notes__"):
        error.__notes__ = list(exception.notes)
    return error


def _maybe_open(packed: bytes) -> BaseException | None:
    try:
        opened = unpack(packed) if packed else None
    except Exception:  # noqa: BLE001 - its class may be missing here, or need arguments that it does not store
        return None
    return opened if isinstance(opened, BaseException) else None


def _read_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - an exception class may do anything in its methods
        return f"(its text cannot be read: {type(problem).__name__})"
