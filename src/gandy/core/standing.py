"""What a foreman knows of itself besides its jobs and calls. The program around keeps it up to date."""

from msgspec import Struct, field

from gandy.core.refusal import Refusal, name_kind
from gandy.errors import StoreError
from gandy.ids import JobId
from gandy.moments import Monotonic


class Standing(Struct, eq=False):
    """What `gandy status` shows, and why requests are refused."""

    id: str = ""  # new for each start
    name: str = ""  # of its machine, for people
    version: str = ""
    pid: int = 0
    store: str = ""
    started: Monotonic = Monotonic(0.0)
    now: Monotonic = Monotonic(0.0)  # of the step of a request that is taken; the program sets it before each
    trouble: str = ""  # what the store complains about; while it does, no new work is taken
    kind: str = "store"  # of refusals because of that
    is_stuck: bool = False  # not even results and cancels can be recorded
    unreadable: set[JobId] = field(default_factory=set)  # jobs that were set aside at the start
    listening: list[str] = field(default_factory=list)
    foremen: int = 1  # of the crew that are there
    insecure_doors: list[str] = field(default_factory=list)  # of these, the ones without keys

    def note_trouble(self, error: StoreError) -> None:
        self.trouble, self.kind = str(error), name_kind(error)

    def refuse(self, what: str) -> Refusal:
        """Make the refusal of a request that the store cannot keep now."""
        return Refusal(self.kind, f"{what}: {self.trouble}", retryable=True)
