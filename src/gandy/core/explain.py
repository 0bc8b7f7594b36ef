"""Explains in sentences why a task does not run, or how it ended."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from gandy.core.model import Cause, Ending, TaskState
from gandy.core.rows import TaskRow
from gandy.moments import NEVER, Monotonic

if TYPE_CHECKING:  # commands that show how a task ended need not load a reactor
    from gandy.core.jobs import ActiveJob
    from gandy.core.reactor import Reactor
    from gandy.core.workers import KnownWorker

NAMED_WORKERS: Final = 5  # workers that are named; a crew may have a thousand


# Words for what ended an attempt.
CAUSES: Final[Mapping[Cause, str]] = {
    Cause.EXIT: "exit code {exit_code}",
    Cause.SIGNAL: "killed by signal {signal}",
    Cause.TIMEOUT: "took too long and was killed",
    Cause.CANCELLED: "cancelled",
    Cause.NOT_STARTED: "could not start",
    Cause.WORKER_LOST: "lost with its worker",
    Cause.WORKER_STOPPED: "its worker was stopped",
    Cause.RETURNED: "given back before it began",
    Cause.RAISED: "raised an exception",
    Cause.NOT_RETRIED: "raised an exception that is not retried",
    Cause.MEMORY: "used too much memory and was killed",
}


def explain_waiting(reactor: "Reactor", job: "ActiveJob", now: Monotonic) -> list[str]:
    """All that keeps the waiting tasks of a job from starting now."""
    reasons = []
    if job.held:
        reasons.append(f"The job is held; let it go with 'gandy job release {job.id}'.")
    reasons += _explain_others(job)
    limit = job.spec.limit
    if limit is not None and job.tasks.given >= limit:
        reasons.append(f"Its limit of {limit} tasks at the same time is reached.")
    due = job.tasks.delayed.next_due()
    if due is not None and due > now and job.tasks.find_ready(now) is None:
        reasons.append(f"The next task failed before and is tried again in {due - now:.0f} s.")
    ahead = reactor.clocks.shared_ahead
    if job.at is not None and ahead is None:
        reasons.append("It waits for its time, and the foreman does not know the shared time.")
    elif job.at is not None and ahead is not None:
        left = job.find_start(ahead) - now
        reasons.append(f"It waits for its time, in {left:.1f} s." if left > 0 else f"Its time was {-left:.1f} s ago.")
    if job.held or job.awaited or not job.tasks.startable:
        return reasons
    return [*reasons, *_explain_suspects(job, now), *_explain_workers(reactor, job, now)]


def _explain_others(job: "ActiveJob") -> list[str]:
    """The jobs that it waits for, whole or task by task."""
    reasons = []
    finishing, ending = sorted(job.awaited.intersection(job.spec.after)), sorted(job.awaited.difference(job.spec.after))
    if finishing:
        reasons.append(f"It waits for job {', '.join(map(str, finishing))} to finish.")
    if ending:
        reasons.append(f"It waits for job {', '.join(map(str, ending))} to end.")
    if job.tasks.blocked:
        others = ", ".join(map(str, job.spec.after_each))
        count = "1 of its tasks waits" if job.tasks.blocked == 1 else f"{job.tasks.blocked:,} of its tasks wait"
        reasons.append(f"{count} for the task with the same number in job {others}.")
    return reasons


def _explain_workers(reactor: "Reactor", job: "ActiveJob", now: Monotonic) -> list[str]:
    here = [worker for worker in reactor.workers if worker.connected and not worker.draining]
    if not here:
        return ["No worker is connected; start one with 'gandy worker run'."]
    here = [worker for worker in here if worker.info.takes_tasks]
    if not here:
        return ["All connected workers only answer calls; start one with 'gandy worker run', or give theirs jobs=True."]
    missing = set(job.spec.tags)
    able = [worker for worker in here if worker.info.tags >= missing]
    if not able:
        return [f"No worker here has all of its tags: {', '.join(sorted(missing))}."]
    if job.at is not None:
        able = [worker for worker in able if worker.knows_time]
        if not able:
            return ["No worker that could take it knows the shared time; start one with 'gandy worker run --ensemble'."]
    short = [f"Worker {worker.info.name} is short of {worker.problem}." for worker in able if worker.problem]
    able = [worker for worker in able if not worker.problem]
    return short[:NAMED_WORKERS] + (_explain_slots(reactor, job, able, now) if able else [])


def _explain_slots(reactor: "Reactor", job: "ActiveJob", able: "list[KnownWorker]", now: Monotonic) -> list[str]:
    large = max(worker.slots.shared for worker in able)
    if large < job.spec.slots:
        return [f"Each task needs {job.spec.slots} slots, and the largest worker that could take it has {large}."]
    willing = [worker for worker in able if worker.ask_again_at == NEVER]
    if not willing:
        return [_explain_refusal(worker, now) for worker in able[:NAMED_WORKERS]]
    able = willing
    if all(worker.free < job.spec.slots for worker in able):
        used, slots = sum(worker.slots.busy_with_tasks for worker in able), sum(worker.slots.shared for worker in able)
        ahead = sum(1 for other in reactor.jobs if other.rank < job.rank and other.may_start)
        behind = f" {ahead} {'job goes' if ahead == 1 else 'jobs go'} before it." if ahead else ""
        return [f"All slots are taken: {used} of {slots}.{behind}"]
    kept_for = sorted(gathers for gathers in reactor.dispatcher.places.values() if gathers.rank < job.rank)
    if kept_for:
        return [f"Free slots are kept for job {kept_for[0].job}, whose next task needs several on one worker."]
    return []


def _explain_suspects(job: "ActiveJob", now: Monotonic) -> list[str]:
    suspects = job.tasks.delayed.list_suspects(now)
    if not suspects:
        return []
    task = suspects[0]
    strikes = job.tasks.strikes[task]
    slots = strikes.suspect_slots
    wait = f"It waits for {slots} free slots on one worker, or for a whole worker, so that fewer tasks run beside it."
    return [f"Task {task} was lost with {strikes.crashes} workers. {wait}"]


def _explain_refusal(worker: "KnownWorker", now: Monotonic) -> str:
    wait = max(0.0, worker.ask_again_at - now)
    return f"Worker {worker.info.name} refused the last task that it was given; it is asked again in {wait:.1f} s."


def explain_end(row: TaskRow) -> str:
    """How an attempt ended, or where it is."""
    if row.ending is None and row.state is TaskState.RUNNING:
        return f"attempt {row.attempt} runs on {row.worker}"
    if row.ending is None and row.state is TaskState.ASSIGNED:
        return f"attempt {row.attempt} waits on {row.worker} for a slot"
    if row.ending is None:
        return "it never started"
    text = f"attempt {row.attempt} on {row.worker}: {describe_ending(row.ending)}"
    return f"{text}\n{_indent(row.ending.tail)}" if row.ending.tail and not row.ending.is_success else text


def describe_ending(ending: Ending) -> str:
    """What ended an attempt, in a few words."""
    text = CAUSES[ending.cause].format(exit_code=ending.exit_code, signal=ending.signal)
    return f"{text} ({ending.note})" if ending.note and ending.note != text else text


def explain_ends(rows: Iterable[TaskRow]) -> list[str]:
    return [f"Task {row.task}: {explain_end(row)}" for row in rows]


def _indent(tail: bytes) -> str:
    lines = tail.decode(errors="replace").strip().splitlines()[-5:]
    return "\n".join(f"    {line}" for line in lines)
