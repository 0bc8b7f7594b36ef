"""Options of jobs, of function tasks and of calls, as programs give them: `checks` says what may be written."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gandy.client.checks import Duration, FolderPath, JobReference, Size
from gandy.functions.decorated import ExceptionKinds


class JobOptions(NamedTuple):
    """Options of a job."""

    tasks: int = 1
    lines: Iterable[str] | None = None  # one task for each
    name: str = ""
    cwd: FolderPath | None = None  # the current folder, if left out
    env: Mapping[str, str] | None = None  # in addition to the worker's own
    retries: int = 0
    timeout: Duration | None = None  # of each attempt
    memory: Size | None = None  # bytes that an attempt may use
    priority: int = 0  # higher goes first
    slots: int = 1  # of each task
    tags: Iterable[str] = ()  # that a worker must have
    limit: int | None = None  # of tasks that run at the same time
    held: bool = False
    after: JobReference | Iterable[JobReference] = ()  # jobs that must finish before, without failures
    after_any: JobReference | Iterable[JobReference] = ()  # jobs that must end before, in whatever way
    after_each: JobReference | Iterable[JobReference] = ()  # jobs to follow task by task
    at: float | None = None  # the shared time at which tasks begin, on workers that know it


class FunctionOptions(NamedTuple):
    """Options for running Python functions."""

    name: str = ""
    retries: int = 0
    timeout: Duration | None = None  # of each attempt
    memory: Size | None = None  # bytes that an attempt may use, with its process
    priority: int = 0  # higher goes first
    slots: int = 1  # of each task
    tags: Iterable[str] = ()  # that a worker must have
    limit: int | None = None  # of tasks that run at the same time
    fresh: bool = False  # a new process for each task
    cwd: FolderPath | None = None  # the current folder, if left out
    env: Mapping[str, str] | None = None
    retry_on: ExceptionKinds | None = None  # only these exceptions lead to another attempt


class CallOptions(NamedTuple):
    """Options of a call of a command."""

    timeout: Duration | None = None  # from `at` on if that is given; then the call is cancelled
    at: float | None = None  # the shared time at which it begins, on a worker that knows the shared time
    wait: bool = True  # if too many calls wait already, try again instead of raising Busy
    repeatable: bool = False  # if its worker or the link is lost, it is sent again: running it twice does no harm
    pickle: bool = False  # arguments and values are pickled, and the command's own exceptions are raised
