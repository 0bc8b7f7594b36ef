"""Says which of the new jobs of a refused commit were submitted before. It knows no kind of store."""

from collections.abc import Awaitable, Callable, Sequence

from gandy.core.records import JobAdded, Record
from gandy.errors import StoreError, SubmittedBefore
from gandy.ids import JobId


class KeyTaken(StoreError):
    """A new job has the key of another one. Nothing was committed."""

    def __init__(self, place: str = "") -> None:
        super().__init__(f"{place}{': ' if place else ''}a job with this key was submitted already", retryable=True)


async def explain_taken(
    records: Sequence[Record], find: Callable[[int], Awaitable[JobId | None]], taken: KeyTaken
) -> StoreError:
    """What to raise instead of `taken`. `find`: the job with a key in the store.

    Raises: StoreError.
    """
    new = [record for record in records if isinstance(record, JobAdded) and record.key]
    found = {record.job: await find(record.key) for record in new}
    earlier: dict[int, int] = {job: before for job, before in found.items() if before is not None}
    return SubmittedBefore(earlier) if earlier else taken
