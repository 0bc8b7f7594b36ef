"""How far the other clocks are ahead of the foreman's own, which is monotonic and the only one that decides."""

from msgspec import Struct

from gandy.core.model import JobSpec
from gandy.moments import Monotonic, Shared, Wall


class ClockOffsets(Struct, eq=False):
    """The time of day may step at any moment, so it is for records alone."""

    boot: str = ""  # the boot id, with which our clock starts again; "" if it is unknown
    wall_ahead: float = 0.0  # of the time of day; the program sets it before each event
    shared_ahead: float | None = None  # of the shared time; None if that is not known

    def stamp(self, now: Monotonic) -> Wall:
        """The time of day, for a record."""
        return Wall(float(now) + self.wall_ahead)

    def find_ahead_at_submission(self, spec: JobSpec) -> float:
        """How far the shared time was ahead of our clock when a job came, perhaps to an earlier foreman.

        If the machine was started again since, only the wall clock relates the two.
        """
        is_same_boot = self.boot and spec.boot == self.boot
        return spec.boot_ahead if is_same_boot else spec.clock_ahead + self.wall_ahead


def compute_shared(now: Monotonic, ahead: float) -> Shared:
    """The shared time at `now`, if it is so far ahead."""
    return Shared(float(now) + ahead)
