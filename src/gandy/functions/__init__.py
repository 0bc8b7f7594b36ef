"""Packs Python functions, their arguments and values into bytes, and opens them. No sockets, processes or clocks.

Opening such bytes runs code that they contain: only clients and slot processes do that, never the foreman or worker.
"""

from gandy.functions.errors import NotPicklable, RemoteError, RemoteTraceback, WrongPython
from gandy.functions.failures import describe_error, format_error, open_error, pack_error
from gandy.functions.tasks import (
    Function,
    FunctionTask,
    open_function,
    open_result,
    open_task,
    pack_function,
    pack_items,
    pack_task,
    pack_value,
)

__all__ = [
    "Function",
    "FunctionTask",
    "NotPicklable",
    "RemoteError",
    "RemoteTraceback",
    "WrongPython",
    "describe_error",
    "format_error",
    "open_error",
    "open_function",
    "open_result",
    "open_task",
    "pack_error",
    "pack_function",
    "pack_items",
    "pack_task",
    "pack_value",
]
