"""The audit as a file: one entry on a line, whatever peers call themselves, and never without bound."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from gandy.foreman import audit as subject
from gandy.foreman.audit import Audit
from gandy.limits import MAX_AUDIT_REFUSALS
from gandy.net.links import Visitor

ANNA = Visitor("anna", "10.0.0.5:4711", "client", "4f1c93a0b2d1")
OWNER = Visitor("owner", "this machine")
STRANGER = Visitor("a stranger", "10.0.0.9:1")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_an_entry_says_who_did_what_and_from_where(tmp_path: Path, path: Path) -> None:
    audit = Audit(str(tmp_path))
    audit.note("submitted", ANNA, job=3)
    audit.note("held", OWNER, job=3)
    first, second = read(path)
    assert first.pop("time") <= second.pop("time")
    assert first == {
        "what": "submitted",
        "who": "anna",
        "from": "10.0.0.5:4711",
        "as": "client",
        "key": "4f1c93a0b2d1",
        "job": 3,
    }
    assert second == {"what": "held", "who": "owner", "from": "this machine", "job": 3}


def test_no_other_user_can_read_it(tmp_path: Path, path: Path) -> None:
    Audit(str(tmp_path)).note("held", OWNER)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name", ['x\n{"what": "joined"}', "x\r\n", "\x1b[2J", "\u2028", "\x85", "\x9b31m", '"}', "\x00", "\ud800"]
)
def test_no_name_forges_a_line_or_moves_a_cursor(tmp_path: Path, path: Path, name: str) -> None:
    audit = Audit(str(tmp_path))
    audit.note("submitted", ANNA._replace(name=name), name=name)
    audit.note("held", OWNER)
    data = path.read_bytes()
    assert data.count(b"\n") == 2
    assert all(0x20 <= byte < 0x7F for byte in data.replace(b"\n", b""))
    assert [entry["who"] for entry in read(path)] == [name, "owner"]


def test_a_text_without_end_is_cut(tmp_path: Path, path: Path) -> None:
    Audit(str(tmp_path)).note("submitted", ANNA, name="x" * 1_000_000)
    assert path.stat().st_size < 1_000


def test_a_full_file_becomes_the_old_one(tmp_path: Path, path: Path) -> None:
    audit = Audit(str(tmp_path), max_bytes=300)
    for job in range(10):
        audit.note("submitted", ANNA, job=job)
    old = read(tmp_path / "audit.jsonl.1")
    jobs = [entry["job"] for entry in old + read(path)]
    assert jobs == list(range(jobs[0], 10))
    assert len(old) > 1


def test_a_flood_of_refusals_is_counted_and_other_entries_are_not(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("gandy.foreman.audit.read_monotonic", lambda: clock[0])
    audit = Audit(str(tmp_path))
    for _ in range(1000):
        audit.note("refused", STRANGER, why="unknown_key")
    audit.note("submitted", ANNA)
    assert len(read(path)) == MAX_AUDIT_REFUSALS + 1
    clock[0] += subject.PERIOD
    audit.note("refused", STRANGER, why="unknown_key")
    assert [entry.get("count") for entry in read(path)[-2:]] == [1000 - MAX_AUDIT_REFUSALS, None]
    audit.close()
    assert len(read(path)) == MAX_AUDIT_REFUSALS + 3


@pytest.mark.parametrize("step", [86_400.0, -86_400.0])
def test_refusals_are_counted_for_as_long_when_the_wall_clock_steps(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    clock, wall = [1000.0], [5000.0]
    monkeypatch.setattr("gandy.foreman.audit.read_monotonic", lambda: clock[0])
    monkeypatch.setattr("gandy.foreman.audit.read_wall", lambda: wall[0])
    audit = Audit(str(tmp_path))
    for _ in range(100):
        audit.note("refused", STRANGER, why="unknown_key")
    wall[0] += step
    for _ in range(100):
        audit.note("refused", STRANGER, why="unknown_key")
    assert len(read(path)) == MAX_AUDIT_REFUSALS, "the period has not ended"
    clock[0] += subject.PERIOD
    audit.note("refused", STRANGER, why="unknown_key")
    audit.close()
    last = read(path)[-2:]
    assert [entry.get("count") for entry in last] == [200 - MAX_AUDIT_REFUSALS, None]
    assert [entry["time"] for entry in last] == [5000.0 + step] * 2


def test_refusals_that_are_counted_as_the_file_is_full_do_not_push_the_old_one_out(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("gandy.foreman.audit.read_monotonic", lambda: clock[0])
    audit = Audit(str(tmp_path), max_bytes=100)
    audit.note("submitted", ANNA, job=1)
    for _ in range(100):
        audit.note("refused", STRANGER, why="unknown_key")
    before = read(path)
    clock[0] += subject.PERIOD
    monkeypatch.setattr(audit, "_max_bytes", path.stat().st_size - 1)
    audit.close()
    assert read(tmp_path / "audit.jsonl.1") == before
    assert [entry["count"] for entry in read(path)] == [80]


def test_a_disk_that_takes_nothing_stops_no_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(str(tmp_path / "nowhere"))
    audit.note("submitted", ANNA, job=7)
    assert "the audit log cannot be written" in caplog.text
    assert '"job": 7' in caplog.text
    (tmp_path / "nowhere").mkdir()
    audit.note("submitted", ANNA, job=8)
    assert [entry["job"] for entry in read(tmp_path / "nowhere" / "audit.jsonl")] == [8]


def test_a_line_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path, path: Path) -> None:
    audit = Audit(str(tmp_path))
    audit.note("submitted", ANNA, job=1)
    with path.open("r+b") as file:
        file.truncate(20)
    Audit(str(tmp_path)).note("submitted", ANNA, job=2)
    assert json.loads(path.read_bytes().splitlines()[-1])["job"] == 2
