"""What several tests of the worker need."""

import pytest


@pytest.fixture(params=[True, False], ids=["new C library", "old C library"])
def folders(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to start a task in another folder."""
    if not request.param:
        monkeypatch.setattr("gandy.worker.spawn.CAN_CHANGE_FOLDER", False)
