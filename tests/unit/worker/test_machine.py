"""When a worker says how busy its machine is: at once to a foreman that asks, then only if it has changed."""

import asyncio
from pathlib import Path

import pytest

from gandy.core.extensions import MachineLoad
from gandy.worker import machine
from gandy.worker.machine import MachineReporter, differs, parse_memory, read_load

GIB = 1 << 30
IDLE = MachineLoad(0.5, 8, 4 * GIB, 100 * GIB)


@pytest.mark.parametrize(
    ("other", "is_told"),
    [
        (IDLE, False),
        (MachineLoad(0.59, 8, 4 * GIB, 100 * GIB), False),
        (MachineLoad(0.6, 8, 4 * GIB, 100 * GIB), True),
        (MachineLoad(0.4, 8, 4 * GIB, 100 * GIB), True),
        (MachineLoad(0.5, 8, 5 * GIB, 100 * GIB), False),
        (MachineLoad(0.5, 8, 5 * GIB + 1, 100 * GIB), True),
        (MachineLoad(0.5, 8, 3 * GIB - 1, 100 * GIB), True),
        (MachineLoad(0.5, 4, 4 * GIB, 100 * GIB), True),
        (MachineLoad(0.5, 8, 4 * GIB, 50 * GIB), True),
    ],
)
def test_only_what_has_changed_is_worth_a_message(other: MachineLoad, is_told: bool) -> None:
    assert differs(other, IDLE) is is_told
    reporter, told = MachineReporter(), list[MachineLoad]()
    reporter.on_welcome(told.append)
    reporter.note(IDLE)
    reporter.note(other)
    assert told == ([IDLE, other] if is_told else [IDLE])


def test_foreman_that_comes_later_is_told_at_once_and_one_that_left_no_more() -> None:
    reporter, first, second = MachineReporter(), list[MachineLoad](), list[MachineLoad]()
    leaves, stays = first.append, second.append
    reporter.on_welcome(leaves)
    reporter.note(IDLE)
    reporter.on_welcome(stays)
    assert second == [IDLE]
    reporter.on_cut(leaves)
    reporter.on_cut(leaves)  # a link may be cut before it was welcome
    busy = MachineLoad(8.0, 8)
    reporter.note(busy)
    assert (first, second) == ([IDLE], [IDLE, busy])


def test_memory_is_what_cannot_be_had_by_freeing_caches() -> None:
    text = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  400 kB\nBuffers: 7 kB\nHugePages_Total: 0\n"
    assert parse_memory(text) == (600 * 1024, 1000 * 1024)


@pytest.mark.parametrize("text", ["", "MemTotal: 5 kB\n", "MemTotal: many kB\nMemAvailable: 5 kB\n"])
def test_memory_that_cannot_be_read_is_not_known(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text(text)
    monkeypatch.setattr(machine, "MEMORY_FILE", tmp_path / "meminfo")
    found = read_load()
    assert found is not None
    assert (found.memory_bytes, found.memory_total_bytes) == (0, 0)


def test_this_machine_is_looked_at_until_the_end() -> None:
    async def go() -> None:
        reporter, told = MachineReporter(), asyncio.Queue[MachineLoad]()
        reporter.on_welcome(told.put_nowait)
        keeping = asyncio.create_task(reporter.keep())
        found = await asyncio.wait_for(told.get(), 30)
        assert found.cores > 0
        assert 0 < found.memory_bytes < found.memory_total_bytes
        keeping.cancel()

    asyncio.run(go())


def test_machine_that_does_not_say_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[None]()

    def refuse() -> None:
        asked.append(None)
        raise OSError

    async def go() -> None:
        keeping = asyncio.create_task(MachineReporter().keep())
        done, _ = await asyncio.wait({keeping}, timeout=0)
        assert not done
        keeping.cancel()

    monkeypatch.setattr(machine, "PERIOD", 0.0)
    monkeypatch.setattr("os.getloadavg", refuse)
    asyncio.run(go())
    assert len(asked) == 1
