"""Two joined ends under every kind of bad luck, with a referee on the wire and invariants after each step."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import Pair, a_job, a_pair

from gandy.ids import TaskNumber
from gandy.talk.law import Role, State
from gandy.talk.worker import WorkerSide
from gandy.testing import WorkerEnd
from gandy.wire.messages import Reset, Task


class Conversation(RuleBasedStateMachine):
    """A worker and a foreman whose numbers wear out soon, and a network that delivers what hypothesis likes."""

    @initialize(slots=st.integers(1, 4), pairs=st.integers(4, 20), patient=st.booleans())
    def begin(self, slots: int, pairs: int, patient: bool) -> None:
        self.slots = slots
        self.tasks: list[Task] = []
        self.was_stopped = False
        self.pair = Pair(slots, last_number=2 * pairs + 1, patient=patient)
        self.submit(slots)
        self.pair.link.settle()

    # What people and tasks do

    @rule(count=st.integers(1, 3))
    def submit(self, count: int) -> None:
        for _ in range(count):
            self.tasks.append(Task(TaskNumber(len(self.tasks)), a_job()))
            self.pair.ledger.waiting.append(self.tasks[-1])
        self.foreman_works()

    @precondition(lambda self: self.pair.worker.running)
    @rule(choice=st.integers(0), success=st.booleans())
    def end_a_task(self, choice: int, success: bool) -> None:
        running = list(self.pair.worker.running)
        self.pair.worker.end(running[choice % len(running)], success)
        self.pair.link.flush()

    @precondition(lambda self: self.pair.foreman.reports)
    @rule()
    def acknowledge(self) -> None:
        self.pair.foreman.acknowledge()
        self.pair.link.flush()

    @rule(task=st.integers(-1, 20))
    def cancel(self, task: int) -> None:
        if self.pair.link.is_up:
            self.pair.foreman_side.cancel([a_pair(1, task)])
            self.foreman_works()

    @precondition(lambda self: self.pair.foreman_side.state is not State.GREETING)
    @rule(count=st.integers(1, 3))
    def stop_some(self, count: int) -> None:
        if self.pair.link.is_up:
            self.was_stopped = True
            self.pair.foreman_side.stop(count)
            self.foreman_works()

    @rule(luck=st.integers(0, 9))
    def stop_immediately(self, luck: int) -> None:
        if self.pair.link.is_up and luck == 0:
            self.was_stopped = True
            self.pair.foreman_side.stop_immediately()
            self.foreman_works()

    @rule()
    def foreman_resets(self) -> None:
        if self.pair.link.is_up:
            self.pair.foreman_side.requests.append(Reset())
            self.foreman_works()

    @precondition(lambda self: self.pair.worker_side.state is State.OPEN)
    @rule()
    def worker_resets(self) -> None:
        if self.pair.worker_side.exchange.outstanding is None:
            self.pair.worker_side.exchange.request(Reset())
            self.pair.link.flush()

    # What the network does

    @rule(sender=st.sampled_from(Role), count=st.integers(1, 60))
    def deliver(self, sender: Role, count: int) -> None:
        self.pair.link.deliver(sender, count)

    @rule(sender=st.sampled_from(Role))
    def deliver_all(self, sender: Role) -> None:
        self.pair.link.deliver(sender, 1_000_000)

    @rule(luck=st.integers(0, 4))
    def cut(self, luck: int = 0) -> None:
        if luck == 0:
            self.lose_link()

    def lose_link(self) -> None:
        self.pair.link.cut()
        self.pair.foreman.reports.clear()

    @precondition(lambda self: not self.pair.link.is_up)
    @rule()
    def connect(self) -> None:
        if self.pair.worker.has_left:
            self.replace_worker()
        self.pair.connect()

    @precondition(lambda self: self.pair.worker.has_left)
    @rule()
    def hang_up(self) -> None:
        self.pair.link.settle()
        self.lose_link()

    def replace_worker(self) -> None:
        self.was_stopped = False
        self.pair.worker_side = WorkerSide(self.slots, last_number=self.pair.last_number)
        self.pair.worker = WorkerEnd(self.pair.worker_side)

    def foreman_works(self) -> None:
        if self.pair.link.is_up:
            self.pair.foreman.work()
            self.pair.link.flush()

    # What must hold

    @invariant()
    def slots_are_never_over_or_under(self) -> None:
        for slots in (self.pair.worker_side.slots, self.pair.foreman_side.slots):
            assert 0 <= slots.free <= slots.limit <= self.slots
        assert len(self.pair.worker_side.slots.running) <= self.slots

    @invariant()
    def every_task_is_in_one_place(self) -> None:
        ledger = self.pair.ledger
        places = [task.pair for task in ledger.waiting] + list(ledger.given) + list(ledger.results)
        assert sorted(places, key=repr) == sorted((task.pair for task in self.tasks), key=repr)

    @invariant()
    def no_worker_runs_a_task_twice(self) -> None:
        assert all(count == 1 for count in self.pair.worker.runs.values())

    @invariant()
    def a_job_is_refused_only_after_a_stop(self) -> None:
        assert self.was_stopped or not self.pair.foreman.refusals

    def teardown(self) -> None:
        """In the end, with a calm network, every task gets its result and nothing is owed."""
        if not hasattr(self, "pair"):
            return
        for _ in range(1_000):
            self.calm_round()  # also where all is quiet: what was sent must still arrive
            if self.is_quiet():
                break
        assert self.is_quiet()
        assert self.pair.referee.owed == []

    def is_quiet(self) -> bool:
        return len(self.pair.ledger.results) == len(self.tasks) and not self.pair.worker_side.results.by_pair

    def calm_round(self) -> None:
        if self.pair.worker.has_left:
            self.hang_up()
        if not self.pair.link.is_up:
            self.connect()
        self.pair.link.settle()
        while self.pair.foreman.reports:
            self.acknowledge()
        for pair in list(self.pair.worker.running):
            self.pair.worker.end(pair)
        self.pair.link.settle()
        self.foreman_works()


# More than 10,000 steps: 260 runs of up to 50.
Conversation.TestCase.settings = settings(max_examples=260, stateful_step_count=50)
TestConversation = Conversation.TestCase
