"""A long stream with a slow reader is in no memory. The long version: GANDY_STREAM_BYTES=1000000000."""

import os
from pathlib import Path

import pytest
from tests.e2e.kitchens import a_kitchen
from tests.processes import read_memory

import gandy

STREAM_BYTES = int(os.environ.get("GANDY_STREAM_BYTES", "200_000_000"))
MORE = 100_000_000  # bytes of memory that each process may use beyond what it had before
PIECE = 100_000  # bytes of a value

READER = """
import sys, time
import gandy
from tests.processes import read_memory

with gandy.Client({address!r}) as client:
    client.call("ping")
    before, read = read_memory("self", "VmRSS"), 0
    for value in client.stream({name!r}, *{arguments!r}):
        read += len(value)
        time.sleep(0.0002)  # slower than the sender
    print(read, read_memory("self", "VmHWM") - before)
"""


@pytest.mark.parametrize("name", ["stream", "write_many"])
def test_long_stream_with_a_slow_reader_takes_no_memory(tmp_path: Path, name: str) -> None:
    with a_kitchen(tmp_path, slots=2) as kitchen:
        with gandy.Client(kitchen.address) as client:
            client.call("add", 1, 2)
        processes = [member.busy_pid for member in (kitchen.foreman, *kitchen.workers)]
        before = [read_memory(process, "VmRSS") for process in processes]
        arguments = (STREAM_BYTES,) if name == "stream" else (str(tmp_path / "book"), STREAM_BYTES // PIECE, PIECE)
        text = READER.format(address=kitchen.address, name=name, arguments=arguments)
        with kitchen.start_program(text) as reader:
            told, said = reader.communicate()
        assert (reader.returncode, said) == (0, b"")
        count, grown = map(int, told.split())
        assert count == STREAM_BYTES
        more = [read_memory(process, "VmHWM") - size for process, size in zip(processes, before, strict=True)]
        assert max(grown, *more) < MORE, (grown, more)
