"""Calls of Python functions as bytes, for clients and slot processes alike. No sockets, no processes, no clock.

Whoever opens these bytes runs what is in them: only clients and slot processes do, the foreman and the worker never.
"""

from gandy.functions.calls import (
    Call,
    Function,
    open_call,
    open_function,
    open_result,
    pack_call,
    pack_function,
    pack_items,
    pack_value,
    run_call,
)
from gandy.functions.errors import NotPicklable, RemoteError, RemoteTraceback, WrongPython
from gandy.functions.failures import describe_error, format_error, open_error, pack_error

__all__ = [
    "Call",
    "Function",
    "NotPicklable",
    "RemoteError",
    "RemoteTraceback",
    "WrongPython",
    "describe_error",
    "format_error",
    "open_call",
    "open_error",
    "open_function",
    "open_result",
    "pack_call",
    "pack_error",
    "pack_function",
    "pack_items",
    "pack_value",
    "run_call",
]
