"""The crew as it was, as the same object that shows it now. Pure.

What samples do not know is zero or empty: totals, commands, attempts, troubles, and what each worker ran.
"""

from collections.abc import Sequence
from typing import Final

from gandy.core.past_crew import CrewThen
from gandy.dashboard.limits import MAX_CREW_JOBS
from gandy.dashboard.rows import CrewObject, CrewRates, TotalsLine, describe_job, make_worker
from gandy.viewer.progress import ProgressEstimate
from gandy.viewer.series import Point

STOPPED: Final = "no foreman ran then"
_NO_TOTALS: Final = TotalsLine(finished=0, failed=0, cancelled=0, repeated=0, lost=0, calls=0)
_NO_RATES: Final = CrewRates(0.0, 0.0, 0.0)


def make_past_crew(then: CrewThen, points: Sequence[Point]) -> CrewObject:
    """`points`: of the quarter of an hour before."""
    return CrewObject(
        at=float(then.at),
        problem=STOPPED if then.is_stopped else "",
        foremen=0,
        unfinished=then.unfinished,
        waiting=then.waiting,
        assigned=then.assigned,
        running=then.running,
        calls_waiting=then.calls_waiting,
        slots=then.slots,
        used=then.used,
        rates=CrewRates(points[-1].finished, points[-1].failed, points[-1].calls) if points else _NO_RATES,
        totals=_NO_TOTALS,
        trouble=(),
        jobs=tuple(describe_job(glance, ProgressEstimate()) for glance in then.jobs[:MAX_CREW_JOBS]),
        workers=tuple(map(make_worker, then.workers)),
        commands=(),
        spans=(),
        calls=(),
        points=tuple(points),
    )
