"""How the process of a crew notices that its program is dead."""

import asyncio
import os
import subprocess

import pytest
from tests.waiting import PATIENCE

from gandy.crew.program import _open_program, _watch_program


@pytest.mark.parametrize("has_descriptor", [True, False])
def test_a_crew_dies_with_its_program_whether_the_kernel_reports_that_or_not(has_descriptor: bool) -> None:
    async def watch() -> None:
        died = asyncio.Event()
        with subprocess.Popen(["sleep", "600"]) as program:
            watched = os.pidfd_open(program.pid) if has_descriptor else None
            watching = asyncio.create_task(_watch_program(program.pid, watched, died.set))
            await asyncio.sleep(0)
            assert not died.is_set()
            program.kill()  # nothing waits for it, so it stays as a zombie
            async with asyncio.timeout(PATIENCE):
                await died.wait()
                await watching
        if watched is not None:
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)

    asyncio.run(watch())


def test_the_parent_is_watched_by_a_descriptor_where_there_are_some() -> None:
    watched = _open_program(os.getppid())
    assert watched is not None
    os.close(watched)
