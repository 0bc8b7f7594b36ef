"""Python functions, their arguments and values as bytes, for clients and slot processes. No sockets, processes, clock.

Opening such bytes runs code that is in them: only clients and slot processes do it, never the foreman or the worker.
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
    run_task,
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
    "run_task",
]
