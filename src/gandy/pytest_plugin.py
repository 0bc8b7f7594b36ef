"""The pytest fixture `gandy_crew`. pytest imports this module at each start, so the rest of gandy is imported late."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gandy import Crew


@pytest.fixture(scope="session")
def gandy_crew_options() -> dict[str, Any]:
    """Options of `gandy.Crew` for the crew of `gandy_crew`. To change them, define this fixture in conftest.py."""
    return {"slots": 2}


@pytest.fixture(scope="session")
def _gandy_crew_of_session(gandy_crew_options: dict[str, Any]) -> "Iterator[Crew]":
    from gandy import Crew

    crew = Crew(**gandy_crew_options)  # `gandy_crew` starts it
    yield crew
    crew.close()


@pytest.fixture
def gandy_crew(
    _gandy_crew_of_session: "Crew", request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Crew]":
    """A crew without jobs, which `gandy.Client()` finds, also in other programs. It runs until the session ends.

    Jobs that a test leaves are cancelled. If a test kills the crew, the next one gets a new one.
    """
    crew = _gandy_crew_of_session.start()
    for name, value in crew.environment.items():
        monkeypatch.setenv(name, value)
    with _sent_as_code(getattr(request, "module", None)):
        yield crew
    if crew.is_running:
        _remove_jobs(crew)


@contextmanager
def _sent_as_code(module: ModuleType | None) -> Iterator[None]:
    """Send functions of the test's module as code: pytest may import it in a way that no other process can."""
    import cloudpickle  # type: ignore[import-untyped]

    if module is None:
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _remove_jobs(crew: "Crew") -> None:
    from gandy.core.model import FINAL_JOB_STATES
    from gandy.errors import CrewFailed, JobNotFound

    with suppress(CrewFailed):  # it is dying, and the next test starts it again
        rows = list(crew.jobs())
        for row in rows:
            if row.state not in FINAL_JOB_STATES:
                with suppress(JobNotFound):
                    crew.job(row.job).cancel()
        for row in rows:
            with suppress(JobNotFound):
                crew.job(row.job).wait()
        crew.forget(row.job for row in rows)
