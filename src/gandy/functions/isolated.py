"""The function that a slot process runs for an isolated command: bytes in, bytes out; the worker unpickles nothing."""

from collections.abc import Callable
from typing import Any

from gandy.functions.values import decode_args, encode_value


def run(function: Callable[..., Any], body: bytes, is_pickled: bool) -> bytes:
    return encode_value(function(*decode_args(body, is_pickled)), is_pickled)
