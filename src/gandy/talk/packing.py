"""Encodes tasks for a JOB, and finds those that fit no JOB."""

from collections.abc import Iterable, Mapping

from gandy.errors import LocalProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.wire import payloads
from gandy.wire.messages import Task, TaskPair


class Unsendable(LocalProtocolError):
    """Some tasks fit no frame. `reasons` has each of them, with the reason for users."""

    def __init__(self, reasons: Mapping[TaskPair, str]) -> None:
        super().__init__("; ".join(f"task {pair.task} of job {pair.job_id}: {why}" for pair, why in reasons.items()))
        self.reasons = reasons


def pack_tasks(tasks: Iterable[Task]) -> tuple[bytes, ...]:
    """Encode each task. Raises: Unsendable, which names all tasks that cannot be sent."""
    packed = []
    reasons = {}
    for task in tasks:
        try:
            part = payloads.encode(task)
        except (UnicodeEncodeError, OverflowError) as error:
            reasons[task.pair] = f"its command cannot be sent to a worker: {error}"
            continue
        if len(part) > MAX_PAYLOAD_BYTES - payloads.LIST_BYTES:
            reasons[task.pair] = (
                f"its command is too large to send to a worker: {len(part):,} bytes, "
                f"and a message has at most {MAX_PAYLOAD_BYTES:,}"
            )
        packed.append(part)
    if reasons:
        raise Unsendable(reasons)
    return tuple(packed)
