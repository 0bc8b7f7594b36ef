"""The msgpack inside HELLO, JOB, UPDATE and CANCEL.

Sends a task's job description nested, as the original does, and accepts it flat too, as a rebuild of the original
against a newer msgpack library sends it. Whatever is wrong with a payload comes out as one of `BROKEN`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from gandy.limits import MAX_SLOTS
from gandy.wire.messages import Task, TaskPair, TaskResult

Processors = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
Tasks = Annotated[tuple[Task, ...], Meta(max_length=MAX_SLOTS)]
Payload: TypeAlias = bytes | bytearray

# All that msgspec raises for bytes it does not like: malformed or mistyped, not UTF-8, nested too deep.
BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HelloData(Struct, frozen=True, gc=False, rename="pascal"):
    """The payload of HELLO. An absent list is what an idle Go program sends."""

    num_procs: Processors
    running: Tasks | None


class _LooseHello(Struct, rename="pascal"):
    num_procs: Processors
    running: list[dict[str, Any]] | None


encode: Final = msgspec.msgpack.Encoder().encode

decode_result: Final[Callable[[Payload], TaskResult]] = msgspec.msgpack.Decoder(TaskResult).decode
decode_pairs: Final[Callable[[Payload], tuple[TaskPair, ...]]] = msgspec.msgpack.Decoder(tuple[TaskPair, ...]).decode

_decode_hello: Final = msgspec.msgpack.Decoder(HelloData).decode
_decode_tasks: Final[Callable[[Payload], tuple[Task, ...]]] = msgspec.msgpack.Decoder(Tasks).decode
_decode_task: Final = msgspec.msgpack.Decoder(Task).decode
_decode_loose_hello: Final = msgspec.msgpack.Decoder(_LooseHello).decode
_decode_loose_tasks: Final = msgspec.msgpack.Decoder(list[dict[str, Any]]).decode
_decode_loose_task: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode


def decode_hello(payload: Payload) -> HelloData:
    try:
        return _decode_hello(payload)
    except msgspec.ValidationError:
        loose = _decode_loose_hello(payload)
        running = None if loose.running is None else [_nest(task) for task in loose.running]
        return msgspec.convert({"NumProcs": loose.num_procs, "Running": running}, HelloData)


def decode_tasks(payload: Payload) -> tuple[Task, ...]:
    try:
        return _decode_tasks(payload)
    except msgspec.ValidationError:
        return msgspec.convert([_nest(task) for task in _decode_loose_tasks(payload)], Tasks)


def decode_task(payload: Payload) -> Task:
    try:
        return _decode_task(payload)
    except msgspec.ValidationError:
        return msgspec.convert(_nest(_decode_loose_task(payload)), Task)


def _nest(task: dict[str, Any]) -> dict[str, Any]:
    """A flat task as a nested one; a nested one, right or wrong, as it is."""
    if "JobDescription" in task or "Task" not in task:
        return task
    return {"Task": task["Task"], "JobDescription": {key: value for key, value in task.items() if key != "Task"}}
