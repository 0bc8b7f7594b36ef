"""States and causes as values that programs print."""

import json
from enum import IntEnum

import msgspec
import pytest

from gandy.core.model import Cause, JobState, TaskState


@pytest.mark.parametrize("state", [*JobState, *TaskState, *Cause])
def test_states_print_as_the_names_that_commands_print(state: IntEnum) -> None:
    assert str(state) == f"{state}" == format(state) == state.name.lower()
    assert f"{state:>12}" == state.name.lower().rjust(12)
    assert repr(state) == f"<{type(state).__name__}.{state.name}: {state.value}>"


@pytest.mark.parametrize("state", [*JobState, *TaskState, *Cause])
def test_states_are_kept_and_sent_as_numbers(state: IntEnum) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state)) == state.value
    assert json.dumps(state) == str(state.value)
    assert "%d" % state == str(state.value)  # noqa: UP031 - what this way of formatting does is the question
