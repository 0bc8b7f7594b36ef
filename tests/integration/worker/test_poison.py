"""A task that cannot be started keeps neither its slot nor others."""

from pathlib import Path

import pytest
from tests.integration.local_crews import a_foreman, a_worker, run

from gandy.core.model import JobState
from gandy.errors import ConfigError


def test_a_folder_that_cannot_be_takes_no_slot_for_good(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_worker(tmp_path, slots=1):
            with pytest.raises(ConfigError, match="no folder can be called"):
                await client.submit(("no-such-program",), cwd="/a\0b")
            bad = await client.submit(("no-such-program",), cwd=str(tmp_path / "no such folder"))
            good = await client.submit("true")
            assert (await bad.wait(5)).state is JobState.FAILED
            assert (await good.wait(5)).state is JobState.FINISHED

    run(test())
