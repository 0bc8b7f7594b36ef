"""Short ways to make updates as foremen send them."""

from gandy.core.model import Counts, JobState, TaskState
from gandy.core.views import CallSpan, CommandGlance, CrewUpdate, JobGlance, Span, Totals, WorkerGlance
from gandy.ids import JobId, TaskNumber


def an_update(shard: int = 0, **changes: object) -> CrewUpdate:
    numbers = {"waiting": 0, "assigned": 0, "running": 0, "unfinished": 0, "calls_waiting": 0}
    numbers = {name: changes.pop(name, number) for name, number in numbers.items()}  # type: ignore[misc]
    totals = changes.pop("totals", None) or Totals()
    return CrewUpdate(at=0.0, shard=shard, totals=totals, **numbers, **changes)  # type: ignore[arg-type]


def a_whole(shard: int = 0, **changes: object) -> CrewUpdate:
    return an_update(shard, is_whole=True, **changes)


def a_job(number: int = 1, state: JobState = JobState.RUNNING, finished: int = 0, failed: int = 0) -> JobGlance:
    counts = Counts(waiting=10 - finished - failed, finished=finished, failed=failed)
    return JobGlance(JobId(number), f"job {number}", state, False, 0.0, counts)


def a_worker(name: str = "w", **changes: object) -> WorkerGlance:
    numbers = {"slots": 4, "used": 1, "running": 1, "waiting": 0, "calls": 0}
    rest = {"connected": True, "draining": False, "silent_seconds": 0.0}
    return WorkerGlance(f"{name}-1", name, **{**numbers, **rest, **changes})  # type: ignore[arg-type]


def a_command(name: str = "ping", ended: int = 0, buckets: tuple[int, ...] = (), workers: int = 1) -> CommandGlance:
    return CommandGlance(name, workers, 2, ended, 0, buckets)


def a_call(
    number: int = 1, began: float = 1.0, ended: float | None = None, worker: str = "w-1", has_failed: bool = False
) -> CallSpan:
    return CallSpan(worker, number, "ping", began, ended, has_failed)


def a_span(task: int = 1, began: float = 1.0, ended: float | None = None, worker: str = "w-1") -> Span:
    state = TaskState.RUNNING if ended is None else TaskState.FINISHED
    return Span(worker, JobId(1), TaskNumber(task), 1, state, began, ended)
