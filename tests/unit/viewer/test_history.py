"""When the history begins, as a viewer finds it with a few questions."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sampled_crew import SampledCrew
from tests.samples import a_sample
from tests.waiting import run_sync

from gandy.core.requests import Request
from gandy.core.samples import Level
from gandy.moments import Wall
from gandy.store import memory_history
from gandy.viewer.history import find_beginning

SAMPLE, KEYFRAME, HOURLY = Level
NOW = 1.79e9
YEAR = 366 * 86_400.0


class AskedCrew(SampledCrew):
    """A foreman that is asked as by a client."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.asked = 0

    def find_beginning(self) -> Wall | None:
        async def answer(request: Request, kind: type) -> Any:
            self.asked += 1
            return self.ask(request)

        client: Any = SimpleNamespace(connection=SimpleNamespace(ask=answer))
        return asyncio.run(find_beginning(client, Wall(NOW)))


@pytest.mark.parametrize("age", [15.0, 3_000.0, 86_400.0, 7 * 86_400.0, YEAR])
def test_the_beginning_is_found_to_a_few_seconds(age: float) -> None:
    crew = AskedCrew()
    run_sync(crew.store.history.add_samples([a_sample(1, NOW - age, HOURLY), a_sample(2, NOW - 1.0)]))
    found = crew.find_beginning()
    assert found is not None
    assert abs(found - (NOW - age)) <= 30.0
    assert crew.asked <= 6


def test_the_beginning_is_found_to_an_hour_where_only_hourly_samples_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_history, "KEPT", {SAMPLE: 2, KEYFRAME: 2, HOURLY: 1_000})
    crew = AskedCrew()
    for place in range(10):
        at = NOW - YEAR + place * 40_000.0
        keyframe, sample = a_sample(3 * place + 2, at + 300.0, KEYFRAME), a_sample(3 * place + 3, at + 310.0)
        run_sync(crew.store.history.add_samples([a_sample(3 * place + 1, at, HOURLY), keyframe, sample]))
    found = crew.find_beginning()
    assert found is not None
    assert abs(found - (NOW - YEAR)) <= 7_200.0
    assert crew.asked <= 6


def test_a_history_without_samples_has_no_beginning() -> None:
    assert AskedCrew().find_beginning() is None
