"""How a task ended, from what its process group or its slot process says."""

import signal
import time
from collections.abc import Iterator
from typing import cast

import pytest

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.ids import JobId, TaskNumber
from gandy.worker.endings import Endings, read_answer
from gandy.worker.frames import RAISED, REFUSED, SHORT, VALUE, Answer
from gandy.worker.order import Order
from gandy.worker.process_groups import ProcessGroup
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_process import SlotProcess


class FakeGroup:
    """A process group that has ended."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.ended = time.monotonic()
        self.peak_memory_bytes = 4096


class FakeProcess:
    """A slot process that has ended."""

    def __init__(self, problem: str = "", is_short: bool = False, measures_memory: bool = True) -> None:
        self.problem = problem
        self.is_short = is_short
        self.measures_memory = measures_memory


@pytest.fixture
def endings() -> Iterator[Endings]:
    made = Endings()
    yield made
    made.oom.close()


def a_task(endings: Endings, exit_code: int, has_begun: bool = True) -> RunningTask:
    order = Order(attempt=AttemptKey(JobId(1), TaskNumber(1), 1), command="true")
    task = RunningTask(order, endings.oom.read())
    task.group = cast("ProcessGroup", FakeGroup(exit_code))
    if has_begun:
        task.note_begin()
    return task


def summarize(ending: Ending | None) -> tuple[Cause, int | None, int | None, str]:
    assert ending is not None
    return ending.cause, ending.exit_code, ending.signal, ending.note


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, (Cause.EXIT, 0, None, "")),
        (3, (Cause.EXIT, 3, None, "")),
        (-signal.SIGTERM, (Cause.SIGNAL, None, signal.SIGTERM, "killed by SIGTERM")),
        (-40, (Cause.SIGNAL, None, 40, "killed by signal 40")),
    ],
)
def test_exit_codes_and_signals_are_told_apart(
    endings: Endings, code: int, expected: tuple[Cause, int | None, int | None, str]
) -> None:
    assert summarize(endings.find_exit(a_task(endings, code))) == expected


def test_who_killed_a_task_is_its_cause_whatever_its_exit_code(endings: Endings) -> None:
    task = a_task(endings, 0)
    task.cause, task.note = Cause.CANCELLED, "cancelled"
    assert summarize(endings.find_exit(task)) == (Cause.CANCELLED, 0, None, "cancelled")


def test_only_what_a_dying_worker_killed_has_no_ending(endings: Endings) -> None:
    endings.is_dying = True
    assert endings.find_exit(a_task(endings, -signal.SIGKILL)) is None
    assert endings.find_exit(a_task(endings, 0)) is not None


@pytest.mark.parametrize("code", [-signal.SIGKILL, 137])
def test_a_kill_while_the_kernel_is_out_of_memory_is_blamed_on_that(endings: Endings, code: int) -> None:
    task = a_task(endings, code)
    task.oom_count = -1
    ending = endings.find_exit(task)
    assert ending is not None
    assert "out of memory" in ending.note


@pytest.mark.parametrize(
    ("process", "cause", "note"),
    [
        (FakeProcess("cannot preload x"), Cause.NOT_STARTED, "cannot preload x"),
        (FakeProcess("memory", is_short=True), Cause.RETURNED, "memory"),
        (FakeProcess(), Cause.NOT_STARTED, "its process ended with exit code 1 before it was ready"),
    ],
)
def test_a_process_that_was_never_ready_started_nothing(
    endings: Endings, process: FakeProcess, cause: Cause, note: str
) -> None:
    task = a_task(endings, 1, has_begun=False)
    ending = endings.find_slot_exit(task, cast("SlotProcess", process))
    assert summarize(ending) == (cause, None, None, note)


@pytest.mark.parametrize(("code", "kept"), [(0, None), (7, 7)])
def test_a_function_that_does_not_return_is_never_a_success(endings: Endings, code: int, kept: int | None) -> None:
    ending = endings.find_slot_exit(a_task(endings, code), cast("SlotProcess", FakeProcess()))
    note = f"its process ended with exit code {code} before the function did"
    assert summarize(ending) == (Cause.EXIT, kept, None, note)
    assert ending is not None
    assert not ending.is_success


def test_memory_that_other_tasks_may_have_used_is_not_reported(endings: Endings) -> None:
    for measures in (True, False):
        process = cast("SlotProcess", FakeProcess(measures_memory=measures))
        ending = endings.find_slot_exit(a_task(endings, 1), process)
        assert ending is not None
        assert (ending.peak_memory_bytes is not None) is measures


@pytest.mark.parametrize(
    ("kind", "flags", "expected"),
    [
        (VALUE, 0, (Cause.EXIT, 0, None, "note")),
        (RAISED, 0, (Cause.RAISED, None, None, "note")),
        (REFUSED, 0, (Cause.NOT_STARTED, None, None, "note")),
        (REFUSED, SHORT, (Cause.RETURNED, None, None, "note")),
    ],
)
def test_an_answer_is_read_as_an_ending(
    kind: int, flags: int, expected: tuple[Cause, int | None, int | None, str]
) -> None:
    ending = read_answer(Answer(kind, flags, "note", b"body", 5, 1.0, 2.0))
    assert summarize(ending) == expected
    assert (ending.result, ending.peak_memory_bytes) == (b"body", 5)
    assert ((ending.started, ending.ended) == (1.0, 2.0)) is (kind != REFUSED)
