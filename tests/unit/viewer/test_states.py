"""The states of a job's tasks, put together from updates."""

import zlib

import pytest

from gandy.core.model import TaskState
from gandy.core.task_view import pack_states
from gandy.core.views import TaskUpdate
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_STATES
from gandy.viewer.states import TaskStates, unpack_states

ONE = JobId(1)
WAITING, RUNNING, FINISHED, *_ = TaskState


def t(number: int) -> TaskNumber:
    return TaskNumber(number)


def whole(states: bytes, first: int = 1, tasks: int | None = None) -> TaskUpdate:
    return pack_states(ONE, len(states) if tasks is None else tasks, t(first), states)


def test_runs_change_what_came_first() -> None:
    states = TaskStates()
    states.apply(whole(bytes(5)))
    assert (bytes(states.packed), states.runs, len(states)) == (bytes(5), None, 5)
    states.apply(TaskUpdate(ONE, t(5), runs=((t(1), t(2), FINISHED), (t(4), t(4), RUNNING))))
    assert bytes(states.packed) == bytes([2, 2, 0, 1, 0])
    assert states.runs == ((1, 2, FINISHED), (4, 4, RUNNING))


def test_parts_of_a_large_job_add_up() -> None:
    states = TaskStates()
    states.apply(whole(bytes([2, 2]), tasks=5))
    states.apply(whole(bytes([1, 1]), first=3, tasks=5))
    states.apply(whole(bytes([4]), first=5, tasks=5))
    assert bytes(states.packed) == bytes([2, 2, 1, 1, 4])


def test_a_job_grows_and_shrinks() -> None:
    states = TaskStates()
    states.apply(whole(bytes([2])))
    states.apply(TaskUpdate(ONE, t(3)))
    assert bytes(states.packed) == bytes([2, 0, 0])
    states.apply(TaskUpdate(ONE, t(1)))
    assert bytes(states.packed) == bytes([2])


def test_what_lies_beyond_the_job_changes_nothing() -> None:
    states = TaskStates()
    states.apply(TaskUpdate(ONE, t(2), runs=((t(2), t(9), FINISHED), (t(5), t(7), RUNNING), (t(2), t(1), RUNNING))))
    assert bytes(states.packed) == bytes([0, 2])
    states.apply(whole(bytes([1, 1, 1]), tasks=2))
    states.apply(whole(bytes([4, 4]), first=2, tasks=2))
    states.apply(whole(bytes([4, 4]), first=7, tasks=2))
    assert bytes(states.packed) == bytes([1, 4])


def test_a_job_that_was_final_stays_so() -> None:
    states = TaskStates()
    states.apply(TaskUpdate(ONE, t(1), is_final=True))
    states.apply(TaskUpdate(ONE, t(1)))
    assert states.is_final


@pytest.mark.parametrize(
    "packed",
    [b"", b"nonsense", zlib.compress(bytes(9))[:-1], zlib.compress(bytes(MAX_STATES + 1))],
    ids=["nothing", "nonsense", "a part", "too many"],
)
def test_states_that_cannot_be_unpacked_are_refused(packed: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="states of tasks"):
        unpack_states(packed)
    with pytest.raises(RemoteProtocolError):
        TaskStates().apply(TaskUpdate(ONE, t(1), is_whole=True, states=packed))
