"""What may be said about calls of Python functions."""

from collections.abc import Iterable, Mapping
from typing import TypedDict


class FunctionOptions(TypedDict, total=False):
    """What may be said about calls of functions. Times are in seconds."""

    name: str
    retries: int
    timeout: float | None  # of each attempt
    memory: int | None  # bytes that an attempt may use, with its process
    priority: int  # higher goes first
    slots: int  # of each call
    tags: Iterable[str]  # that a worker must have
    limit: int | None  # of calls that run at the same time
    fresh: bool  # a new process for each call
    cwd: str | None  # the current folder, if left out
    env: Mapping[str, str]
