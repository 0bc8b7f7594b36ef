"""What speaks against trying tasks again: how often each failed, and how often it was lost with its worker."""

from typing import Final, NamedTuple

from gandy.ids import TaskNumber

SUSPECT_CRASHES: Final = 2  # from so many on, a task runs beside ever fewer tasks, until one is proved to kill workers
SUSPECT_GROWTH: Final = 4  # times the slots that a suspect takes with each crash from then on


class Strikes(NamedTuple):
    """What speaks against trying one task again."""

    failures: int = 0  # attempts that failed by themselves
    crashes: int = 0  # attempts that were lost with their worker

    @property
    def is_suspect(self) -> bool:
        """True if the task may have killed its workers."""
        return self.crashes >= SUSPECT_CRASHES

    @property
    def suspect_slots(self) -> int:
        """How many slots a suspect takes, if its worker has so many: with each crash it has fewer neighbours."""
        return int(SUSPECT_GROWTH ** (self.crashes - SUSPECT_CRASHES + 1))


NO_STRIKES: Final = Strikes()


class StrikeTable(dict[TaskNumber, Strikes]):
    """Strikes of those tasks of a job that have any."""

    def __missing__(self, _task: TaskNumber) -> Strikes:
        return NO_STRIKES

    def strike(self, task: TaskNumber, is_crash: bool) -> Strikes:
        """Count an attempt that failed, or was lost with its worker."""
        failures, crashes = self[task]
        self[task] = Strikes(failures, crashes + 1) if is_crash else Strikes(failures + 1, crashes)
        return self[task]
