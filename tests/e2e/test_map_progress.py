"""The progress bar of a map, in programs of their own."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.e2e.crew import PATIENCE, Crew

BLOCKING = """
import sys, gandy
with gandy.Client() as client:
    print(list(client.map(abs, range(-20, 0), chunksize=7, progress=True))[0], "rich" in sys.modules)
"""
ASYNC = """
import asyncio, sys, gandy
async def main():
    async with gandy.AsyncClient() as client:
        values = [value async for value in client.map(abs, range(-20, 0), chunksize=7, progress=True)]
        print(values[0], "rich" in sys.modules)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.mark.parametrize("program", [BLOCKING, ASYNC])
def test_terminal_shows_a_bar_and_output_goes_where_it_belongs(crew: Crew, program: str) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=crew.environment,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=PATIENCE,
            check=True,
        )
        drawn = os.read(ours, 1_000_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b"20 True\n"
    assert "20/20" in drawn.rpartition("abs")[2]


@pytest.mark.parametrize("program", [BLOCKING, ASYNC])
def test_file_gets_nothing_and_rich_is_not_imported(crew: Crew, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], env=crew.environment, capture_output=True, timeout=PATIENCE, check=True
    )
    assert (done.stdout, done.stderr) == (b"20 False\n", b"")
