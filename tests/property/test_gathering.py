"""However long tasks take, and however little that says about the next ones, a task of several slots begins in time.

A reactor and one worker, on which tasks take the seconds that hypothesis chooses. The bound of docs/design/jobs.md:
what the worker held when the large task came is over after the half second of look-ahead and the longest task, and then
the longest of those that filled slots meanwhile.
"""

import heapq
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reactors import PromptReactor

from gandy.core.effects import Effect, Give, Recall
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec
from gandy.core.policy import Policy
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId

LOOK_AHEAD = 0.5
LARGE = JobId(2)
PATIENCE = 30.0  # seconds; far more than the bound allows


class BusyWorker:
    """Runs what it is given, in order, like a real one; and answers at once."""

    def __init__(self, slots: int, ahead: int, seconds: list[float]) -> None:
        self.reactor = PromptReactor(Policy(look_ahead=LOOK_AHEAD))
        self.slots = slots
        self.now = 0.0
        self.waiting: dict[AttemptKey, int] = {}  # slots of each
        self.running: dict[AttemptKey, int] = {}
        self.ends: list[tuple[float, AttemptKey, float]] = []
        self.began: dict[AttemptKey, float] = {}
        self._seconds = cycle(seconds)
        self.take(self.reactor.on_hello(WorkerInfo("w", "w", slots, ahead=ahead, reports_begun=True), [], self.now))

    def submit(self, spec: JobSpec) -> None:
        self.take(self.reactor.control.submit(spec, self.now)[1])

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Give):
                self.waiting |= {each.attempt: each.spec.slots for each in effect.assignments}
                self.reactor.on_given("w", [each.attempt for each in effect.assignments], self.now)
            if isinstance(effect, Recall):
                returned = [attempt for attempt in effect.attempts if self.waiting.pop(attempt, 0)]
                self.report([(attempt, Ending(cause=Cause.RETURNED)) for attempt in returned])
        self.start()

    def start(self) -> None:
        while self.waiting:
            attempt, slots = next(iter(self.waiting.items()))
            if self.running and sum(self.running.values()) + slots > self.slots:
                return
            del self.waiting[attempt]
            self.running[attempt] = slots
            self.began[attempt] = self.now
            seconds = next(self._seconds)
            heapq.heappush(self.ends, (self.now + seconds, attempt, seconds))

    def report(self, ended: list[tuple[AttemptKey, Ending]]) -> None:
        self.take(self.reactor.on_results("w", ended, self.now))

    def step(self) -> None:
        """To the next end of a task, or to what the reactor waits for."""
        deadline = self.reactor.next_deadline()
        if deadline is not None and (not self.ends or deadline < self.ends[0][0]):
            self.now = max(self.now, deadline)
            self.take(self.reactor.on_time(self.now))
            return
        self.now, attempt, seconds = heapq.heappop(self.ends)
        del self.running[attempt]
        self.start()
        self.report([(attempt, Ending(cause=Cause.EXIT, exit_code=0, started=0.0, ended=seconds))])

    def run_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            self.step()
        self.now = now

    def find_begin(self, job: JobId, number: int) -> float | None:
        begun = [moment for attempt, moment in self.began.items() if attempt.job == job]
        return begun[number] if number < len(begun) else None


durations = st.sampled_from([0.001, 0.02, 0.1, 1.0, 3.0])


@settings(max_examples=400)
@given(
    slots=st.integers(2, 4),
    ahead=st.sampled_from([0, 4, 400]),
    seconds=st.lists(durations, min_size=1, max_size=40),
    needed=st.integers(2, 4),
    tasks=st.integers(1, 3),
    after=st.sampled_from([0.0, 0.3, 2.0]),
)
def test_the_wait_for_several_slots_has_a_bound(
    slots: int, ahead: int, seconds: list[float], needed: int, tasks: int, after: float
) -> None:
    worker = BusyWorker(slots, ahead, seconds)
    worker.submit(JobSpec(command="x", tasks=100_000))
    worker.run_until(after)
    worker.submit(JobSpec(command="x", tasks=tasks, slots=min(needed, slots), priority=9))
    longest = max(seconds)
    since = worker.now
    for number in range(tasks):
        while worker.find_begin(LARGE, number) is None and worker.now < since + PATIENCE:
            worker.step()
        assert worker.now - since <= LOOK_AHEAD + 2 * longest + 0.001, (number, since)
        since = worker.now
