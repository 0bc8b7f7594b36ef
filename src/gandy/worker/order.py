"""What a worker is told to run, and how it becomes arguments and an environment. Spawns nothing.

`{task}` and `{line}` in a command stand for the task's number and its line; other braces are left alone.
In a shell line `{line}` is one word, whatever is in it, so put no quotes around it; `eval {line}` runs it as code.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gandy.core.model import AttemptKey, Command

SHELL: Final = "/bin/sh"
PLACES: Final = re.compile(r"\{(?:task|line)\}")


class PythonOrder(Struct, frozen=True):
    """A call of a Python function, pickled; see `gandy.functions`."""

    input: bytes
    shared: bytes = b""  # what all tasks of the job have in common
    fresh: bool = False  # wants a process that has run nothing


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt at one task, with all that is needed to run it. `timeout` is in seconds."""

    attempt: AttemptKey
    command: Command
    job_name: str = ""
    tasks: int = 1  # of the whole job
    line: str | None = None
    cwd: str = ""  # empty: where the worker is
    env: dict[str, str] = {}
    timeout: float | None = None
    memory: int | None = None  # bytes that it may use
    python: PythonOrder | None = None  # then there is no command to run
    at: float | None = None  # shared time at which it begins


def has_places(command: Command) -> bool:
    """Whether each task has arguments of its own."""
    return any(map(PLACES.search, (command,) if isinstance(command, str) else command))


def make_arguments(order: Order) -> list[str]:
    """The argument vector of the task's first process."""
    if isinstance(order.command, str):
        line = None if order.line is None else _quote_line(order.line)
        return [SHELL, "-c", _fill(order.command, order, line)]
    return [_fill(argument, order, order.line) for argument in order.command]


def tell_base(environ: Mapping[str, str]) -> dict[str, str]:
    """What the processes that a worker starts get of its own environment: all but an invitation, if it came by one."""
    return {name: value for name, value in environ.items() if name != "GANDY_TOKEN"}


def make_environment(base: Mapping[str, str], order: Order) -> dict[str, str]:
    env = make_job_environment(base, order)
    env["GANDY_TASK"] = str(order.attempt.task)
    env["GANDY_ATTEMPT"] = str(order.attempt.attempt)
    return env


def make_job_environment(base: Mapping[str, str], order: Order) -> dict[str, str]:
    """What all tasks of a job have, except that each may have a line of its own."""
    env = {**base, **order.env}
    env["GANDY_JOB"] = str(order.attempt.job)
    env["GANDY_TASKS"] = str(order.tasks)
    env["GANDY_JOB_NAME"] = order.job_name
    # A worker may itself run inside a task: the outer task's line is not ours.
    env.pop("GANDY_LINE", None)
    if order.line is not None:
        env["GANDY_LINE"] = order.line
    return env


def _fill(text: str, order: Order, line: str | None) -> str:
    if "{" not in text:
        return text
    # In one pass, so that a line which contains {task} stays as it is.
    words = {"{task}": str(order.attempt.task), "{line}": "{line}" if line is None else line}
    return PLACES.sub(lambda place: words[place[0]], text)


def _quote_line(line: str) -> str:
    # shlex.quote would be safe only outside quotes: in "{line}" it lets $(...) run. What comes out of a variable is
    # never read as code, wherever in the shell line it stands.
    return line if shlex.quote(line) == line else '"$GANDY_LINE"'
