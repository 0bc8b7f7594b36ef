"""Requests for what tasks wrote, and what a foreman answers."""

from typing import Annotated

from msgspec import Meta, Struct

from gandy.bounds import AttemptNumber, Count, JobNumber, OptionalName, PieceData, TaskIndex, Text
from gandy.core.requests.base import BaseAnswer, BaseRequest
from gandy.ids import TaskNumber
from gandy.limits import MAX_OUTPUTS, MAX_READ_BYTES


class ReadOutput(BaseRequest, frozen=True):
    """Answered with `Output`. Attempt 0 means the last one."""

    job: JobNumber
    task: TaskIndex
    stream: OptionalName = "out"  # or "err", or "result" for a large result
    attempt: AttemptNumber = 0
    offset: Count = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ_BYTES)] = 65_536


class ReadOutputs(BaseRequest, frozen=True):
    """Answered with `OutputPage`: what the next tasks wrote in their last attempts. `after` continues above a task."""

    job: JobNumber
    stream: OptionalName = "out"  # or "err"
    after: TaskIndex = TaskNumber(0)


class Output(BaseAnswer, frozen=True):
    """A piece of what a task wrote. `is_last`: there is no more, and there will be none."""

    data: PieceData
    attempt: AttemptNumber
    is_last: bool


class TaskOutput(Struct, frozen=True, omit_defaults=True):
    """What a task wrote, from its beginning. Unless `is_whole`, there may be more, which `ReadOutput` reads."""

    task: TaskIndex
    attempt: AttemptNumber
    data: PieceData = b""
    is_whole: bool = False
    problem: Text = ""  # why it cannot be read, for people


class OutputPage(BaseAnswer, frozen=True):
    """The outputs of tasks up to `after`, as far as they wrote something."""

    rows: Annotated[tuple[TaskOutput, ...], Meta(max_length=MAX_OUTPUTS)]
    after: TaskIndex
    is_last: bool
