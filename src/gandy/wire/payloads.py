"""The msgpack inside HELLO, JOB, UPDATE and CANCEL.

Encodes a task's job description nested, as the original does. Also decodes it flat, as a build of the original with a
newer msgpack library sends it. An invalid payload raises one of `bounds.BROKEN`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import astuple

from gandy.bounds import Integer, JobNumber, WireText
from gandy.limits import MAX_BATCH, MAX_SLOTS
from gandy.wire.messages import About, JobDescription, Status, Task, TaskPair, TaskResult, WireTask

Processors = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
Tasks = Annotated[tuple[Task, ...], Meta(max_length=MAX_SLOTS)]
Pairs = Annotated[tuple[TaskPair, ...], Meta(max_length=MAX_SLOTS)]
Payload: TypeAlias = bytes | bytearray

_HELLO_NAMES: Final = {"num_procs": "NumProcs", "running": "Running", "about": "Gandy"}


class HelloData(Struct, frozen=True, gc=False, rename=_HELLO_NAMES):
    """The payload of HELLO. An idle original, written in Go, sends nil in place of the list."""

    num_procs: Processors
    running: Tasks | None
    about: About | UnsetType = UNSET


class _FlatTask(Struct, frozen=True, gc=False, rename="pascal"):
    """A task as a newer build of the original sends it: with the fields of its job beside its number."""

    task: WireTask
    job_id: JobNumber
    name: WireText
    num_tasks: Integer
    working_dir: WireText
    logging_dir: WireText
    command: WireText
    status: Status

    def nest(self) -> Task:
        _, *fields = astuple(self)
        return Task(self.task, JobDescription(*fields))


_FlatTasks = Annotated[tuple[_FlatTask, ...], Meta(max_length=MAX_SLOTS)]


class _FlatHello(Struct, frozen=True, gc=False, rename="pascal"):
    num_procs: Processors
    running: _FlatTasks


encode: Final = msgspec.msgpack.Encoder().encode
_LIST: Final = struct.Struct(">BH")  # the head of a list of 16 items or more: a type and the length
LIST_BYTES: Final = _LIST.size

decode_result: Final[Callable[[Payload], TaskResult]] = msgspec.msgpack.Decoder(TaskResult).decode
decode_pairs: Final[Callable[[Payload], tuple[TaskPair, ...]]] = msgspec.msgpack.Decoder(Pairs).decode

decode_results: Final[Callable[[Payload], tuple[TaskResult, ...]]] = msgspec.msgpack.Decoder(
    Annotated[tuple[TaskResult, ...], Meta(max_length=MAX_BATCH)]
).decode

_decode_hello: Final = msgspec.msgpack.Decoder(HelloData).decode
_decode_tasks: Final[Callable[[Payload], tuple[Task, ...]]] = msgspec.msgpack.Decoder(Tasks).decode
_decode_task: Final = msgspec.msgpack.Decoder(Task).decode
_decode_flat_hello: Final = msgspec.msgpack.Decoder(_FlatHello).decode
_decode_flat_tasks: Final = msgspec.msgpack.Decoder(_FlatTasks).decode
_decode_flat_task: Final = msgspec.msgpack.Decoder(_FlatTask).decode


def join(parts: Sequence[bytes]) -> bytes:
    """Make a list of items that are already encoded."""
    head = bytes((0x90 | len(parts),)) if len(parts) < 16 else _LIST.pack(0xDC, len(parts))
    return b"".join((head, *parts))


def decode_hello(payload: Payload) -> HelloData:
    try:
        return _decode_hello(payload)
    except msgspec.ValidationError as error:
        if not _may_be_flat(error):
            raise
        flat = _decode_flat_hello(payload)
        return HelloData(flat.num_procs, tuple(task.nest() for task in flat.running))


def decode_tasks(payload: Payload) -> tuple[Task, ...]:
    try:
        return _decode_tasks(payload)
    except msgspec.ValidationError as error:
        if not _may_be_flat(error):
            raise
        return tuple(task.nest() for task in _decode_flat_tasks(payload))


def decode_task(payload: Payload) -> Task:
    try:
        return _decode_task(payload)
    except msgspec.ValidationError as error:
        if not _may_be_flat(error):
            raise
        return _decode_flat_task(payload).nest()


def _may_be_flat(error: msgspec.ValidationError) -> bool:
    """True if a task lacks the nested description: it is flat, or invalid."""
    return "missing required field `JobDescription`" in str(error)
