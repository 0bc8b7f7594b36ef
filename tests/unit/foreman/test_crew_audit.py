"""Lines on their way to the audit of the crew: in order, many at a time, and never without bound."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from gandy.errors import StoreError
from gandy.foreman import crew_audit
from gandy.foreman.audit import Audit
from gandy.foreman.crew_audit import CrewAudit
from gandy.net.links import Visitor

LIMIT = 10


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_audit, "MAX_AUDIT_WAITING", LIMIT)
    monkeypatch.setattr(crew_audit, "MAX_AUDIT_BATCH", 4)
    monkeypatch.setattr(crew_audit, "RETRY_PAUSE", 0.0)


class Database:
    """Takes lines, unless it is away."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.failures = 0  # that come next
        self.lost: list[int] = []
        self.audit = CrewAudit(self.take, self.lost.append)
        self.is_full = asyncio.Event()
        self.wanted = 0

    async def take(self, lines: Sequence[str]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("away", retryable=True)
        self.batches.append(list(lines))
        if len(self.lines) >= self.wanted:
            self.is_full.set()

    @property
    def lines(self) -> list[str]:
        return [line for batch in self.batches for line in batch]

    async def run_until(self, count: int) -> None:
        self.wanted = count
        running = asyncio.create_task(self.audit.run())
        await self.is_full.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


def add(audit: CrewAudit, count: int) -> list[str]:
    lines = [str(number) for number in range(count)]
    for line in lines:
        audit.add(line)
    return lines


def test_lines_arrive_in_order_and_many_at_a_time() -> None:
    async def test() -> None:
        database = Database()
        lines = add(database.audit, LIMIT)
        await database.run_until(LIMIT)
        assert database.lines == lines
        assert [len(batch) for batch in database.batches] == [4, 4, 2]
        assert database.lost == []

    run(test())


def test_lines_wait_for_the_database() -> None:
    async def test() -> None:
        database = Database()
        database.failures = 3
        lines = add(database.audit, 5)
        await database.run_until(5)
        assert database.lines == lines

    run(test())


def test_of_lines_that_find_no_room_the_number_is_told() -> None:
    async def test() -> None:
        database = Database()
        database.failures = 1
        lines = add(database.audit, LIMIT + 7)
        await database.run_until(LIMIT)
        assert database.lines == lines[:LIMIT]
        assert database.lost == [7]

    run(test())


@pytest.mark.parametrize(("failures", "expected"), [(0, 5), (1, 0)])
def test_the_end_sends_what_waits_if_that_is_possible(failures: int, expected: int) -> None:
    async def test() -> None:
        database = Database()
        database.failures = failures
        add(database.audit, 5)
        await database.audit.close()
        assert len(database.lines) == expected

    run(test())


def test_a_line_for_the_crew_names_the_foreman(tmp_path: Path) -> None:
    audit, lines = Audit(str(tmp_path)), list[str]()
    audit.foreman, audit.on_line = "hut", lines.append
    audit.note("held", Visitor("owner", "this machine"), job=3)
    assert [json.loads(line) | {"time": 0} for line in lines] == [
        {"time": 0, "what": "held", "who": "owner", "from": "this machine", "foreman": "hut", "job": 3}
    ]
    assert (tmp_path / "audit.jsonl").read_text() == lines[0] + "\n"
