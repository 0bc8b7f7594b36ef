"""Jobs and calls with a time: whatever clocks do, nothing is given out before it is due."""

from math import isfinite

from hypothesis import given
from hypothesis import strategies as st
from tests.reactors import PromptReactor

from gandy.core.dispatch import LEAD
from gandy.core.effects import Effect, Give
from gandy.core.jobs import RESTART
from gandy.core.model import JobSpec
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId
from gandy.wire.calls import encode_target, encode_time, read_name, read_time

SHORT = 1e-6  # seconds; sums of floats are not exact

aheads = st.one_of(st.none(), st.floats(-1e6, 1e6), st.floats(-5.0, 5.0))
steps = st.lists(st.tuples(st.floats(0.0, 20.0), aheads, st.booleans()), max_size=30)


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(min_size=1, max_size=20), st.binary(max_size=20))
def test_every_time_comes_back_with_what_is_around_it(at: float, name: str, body: bytes) -> None:
    payload = encode_target(name) + encode_time(at) + body
    told, end = read_time(payload, read_name(payload)[1])
    assert (told, payload[end:]) == (at, body)
    assert isfinite(told)


@given(st.floats(0.0, 100.0), st.floats(-1e6, 1e6), steps)
def test_no_task_is_given_before_it_is_due_and_only_to_those_who_know_the_time(
    wait: float, ahead: float, moves: list[tuple[float, float | None, bool]]
) -> None:
    reactor = PromptReactor()
    reactor.on_hello(WorkerInfo("w", "w", 1), [], 0.0)
    worker = reactor.workers.find("w")
    assert worker is not None
    reactor.on_clock(ahead)
    at = ahead + wait
    _, effects = reactor.control.submit(JobSpec(command="true", at=at, clock_ahead=ahead), 0.0)
    assert not is_given(effects)
    now, known = 0.0, ahead
    for seconds, ahead_now, knows_time in moves:
        now += seconds
        worker.knows_time = knows_time
        reactor.on_clock(ahead_now)
        if ahead_now is not None and abs(ahead_now - known) > RESTART:
            at, known = at + ahead_now - known, ahead_now
        effects = reactor.on_time(now)
        reactor.check()
        job = reactor.jobs.find(JobId(1))
        assert job is not None
        if is_given(effects):
            assert ahead_now is not None
            assert knows_time
            assert now + ahead_now >= at - LEAD - SHORT
            return
        is_due = ahead_now is not None and now + ahead_now >= at - LEAD + SHORT
        assert not (is_due and knows_time)


def is_given(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Give) for effect in effects)
