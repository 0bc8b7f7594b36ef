"""`gandy.Worker` before it runs."""

from typing import Any

import pytest

import gandy
from gandy.errors import ConfigError


def test_worker_needs_no_foreman_until_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANDY_FOREMAN", "plain://hut:5429")
    worker = gandy.Worker()  # in a module whose commands `gandy worker run --insecure` takes
    with pytest.raises(ConfigError, match="--insecure"):
        worker.run()


def test_worker_that_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="can reserve 0 to 1"):
        gandy.Worker(slots=2, reserve=2, jobs=True)


@pytest.mark.parametrize("option", [{"reserve": 1}, {"tags": ("gpu",)}])
def test_options_for_jobs_are_for_a_worker_that_takes_jobs(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="for a worker that takes jobs, too; write jobs=True"):
        gandy.Worker(slots=2, **option)
    gandy.Worker(slots=2, jobs=True, **option)
