"""Which jobs have been sent, in a bounded number of bytes, so that a restarted exporter goes on where it was. Pure.

The last jobs are known by number and end. Of those before them, only the time counts by which all had ended.
"""

from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import Struct

from gandy.bounds import BROKEN
from gandy.errors import ConfigError
from gandy.ids import JobId
from gandy.limits import MAX_SENT_JOBS

# Seconds. If the foreman's clock was set back while no exporter ran, jobs that have ended since are looked for this far
# back: ids do not change, so a job that is sent twice is still one job.
STEP_MARGIN: Final = 3_600.0


class SentFile(Struct, frozen=True):
    """The content of the file."""

    through: float
    sent: list[tuple[JobId, float]]


class SentJobs:
    """Jobs are noted in the order in which they ended, or nearly so."""

    def __init__(self, through: float) -> None:
        """`through`: by the foreman's clock. Jobs that had ended then are not sent."""
        self.through = through
        self._sent: OrderedDict[JobId, float] = OrderedDict()

    def has(self, job: JobId, changed: float) -> bool:
        """True for a job that was sent after it changed last, or ended before we began."""
        return changed <= self.through or self._sent.get(job) == changed

    def note(self, job: JobId, changed: float) -> None:
        """The collector has all of this job."""
        self._sent[job] = changed
        self._sent.move_to_end(job)
        while len(self._sent) > MAX_SENT_JOBS:
            self.through = max(self.through, self._sent.popitem(last=False)[1])

    def on_foreman_clock(self, now: float, margin: float = 0.0) -> bool:
        """A foreman's clock shows `now`. True if that is earlier than jobs which were sent: the clock was set back."""
        if now >= self.through:
            return False
        self.through = now - margin
        return True

    def pack(self) -> bytes:
        return msgspec.json.encode(SentFile(self.through, list(self._sent.items())))

    @classmethod
    def unpack(cls, packed: bytes) -> "SentJobs":
        """Raises: ConfigError."""
        try:
            kept = msgspec.json.decode(packed, type=SentFile)
        except BROKEN as error:
            raise ConfigError(f"it is damaged: {error}") from None
        found = cls(kept.through)
        for job, changed in kept.sent:
            found.note(job, changed)
        return found
