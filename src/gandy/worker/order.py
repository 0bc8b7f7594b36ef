"""Orders: what a worker is to run. Makes them from a JOB, and makes arguments and environments from them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct

from gandy.core.model import AttemptKey, Command
from gandy.core.placeholders import fill
from gandy.core.shards import NO_SHARD
from gandy.moments import Shared
from gandy.wire.messages import Task
from gandy.worker.restart import TOKEN

if TYPE_CHECKING:
    from gandy.worker.shard_queue import ShardQueue

SHELL: Final = "/bin/sh"


class PythonOrder(Struct, frozen=True):
    """A function task, pickled; see `gandy.functions`."""

    input: bytes
    shared: bytes = b""  # what all tasks of the job have in common
    fresh: bool = False  # needs a process that has run nothing


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt at one task, with everything that is needed to run it. `timeout` is in seconds."""

    attempt: AttemptKey
    command: Command
    job_name: str = ""
    tasks: int = 1  # of the whole job
    line: str | None = None
    cwd: str = ""  # empty: the worker's own folder
    env: dict[str, str] = {}
    timeout: float | None = None
    memory: int | None = None  # bytes that it may use
    slots: int = 1  # that it takes
    python: PythonOrder | None = None  # then there is no command to run
    at: Shared | None = None  # when it begins
    identity: int = 0  # of the job
    log_folder: str = ""  # where its output goes; empty: it is kept for gandy's clients
    priority: int = 0
    queue: Any = None  # the `ShardQueue` of the foreman that gave it; None: it is a call. Any: an order is also encoded

    @property
    def shard(self) -> int:
        """The shard that the task came from."""
        return NO_SHARD if self.queue is None else int(self.queue.shard)


def make_order(task: Task, python: PythonOrder | None, queue: "ShardQueue | None" = None) -> Order:
    """Make the order for a task of a JOB. A plain foreman knows neither attempts nor arguments."""
    job = task.job
    if task.orders is UNSET:
        return Order(
            attempt=AttemptKey(job.job_id, task.number, 1),
            command=(job.command, str(task.number)),  # as the original worker runs it
            job_name=job.name,
            tasks=job.num_tasks,
            cwd=job.working_dir,
            log_folder=job.logging_dir,
            queue=queue,
        )
    orders = task.orders
    return Order(
        attempt=AttemptKey(job.job_id, task.number, orders.attempt),
        command=orders.command,
        job_name=job.name,
        tasks=job.num_tasks,
        line=orders.line,
        cwd=job.working_dir,
        env=orders.env,
        timeout=orders.timeout,
        memory=orders.memory,
        slots=orders.slots,
        python=python,
        at=orders.at,
        identity=orders.identity,
        priority=orders.priority,
        queue=queue,
    )


def make_arguments(order: Order) -> list[str]:
    """Make the argument vector of the task's first process.

    Raises: ConfigError, if the shell would run the task's line as code.
    """
    command = fill(order.command, order.attempt.task, order.line)
    return [SHELL, "-c", command] if isinstance(command, str) else list(command)


def inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a worker's processes inherit of its environment: everything except the invitation token."""
    return {name: value for name, value in environ.items() if name != TOKEN}


def make_environment(base: Mapping[str, str], order: Order) -> dict[str, str]:
    env = make_job_environment(base, order)
    env["GANDY_TASK"] = str(order.attempt.task)
    env["GANDY_ATTEMPT"] = str(order.attempt.attempt)
    return env


def make_job_environment(base: Mapping[str, str], order: Order) -> dict[str, str]:
    """Make the environment that all tasks of a job share, with the line of this one if it has one."""
    env = {**base, **order.env}
    env["GANDY_JOB"] = str(order.attempt.job)
    env["GANDY_TASKS"] = str(order.tasks)
    env["GANDY_JOB_NAME"] = order.job_name
    # A worker may itself run inside a task, whose line must not be passed on.
    env.pop("GANDY_LINE", None)
    if order.line is not None:
        env["GANDY_LINE"] = order.line
    return env
