"""What is written down about who came: nobody can write into it, fill it, or hide in it."""

import json
from pathlib import Path

import pytest

from gandy.foreman import audit
from gandy.foreman.audit import MAX_REFUSALS, MAX_TEXT, Audit


def read(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "audit.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\x9b2J", "\u2028", "\u202e", "\ud800", '"}\n{"what":"joined"'])
def test_no_name_makes_a_line_or_moves_a_cursor(tmp_path: Path, text: str) -> None:
    written = Audit(str(tmp_path))
    written.note("submitted", text, name=text)
    written.close()
    (line,) = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert line.isascii()
    assert line.decode().isprintable()
    assert (read(tmp_path)[0]["who"], read(tmp_path)[0]["name"]) == (text, text)


def test_a_long_name_does_not_fill_it(tmp_path: Path) -> None:
    written = Audit(str(tmp_path))
    written.note("submitted", "x" * 1_000_000, name="y" * 1_000_000, job=7)
    written.close()
    (entry,) = read(tmp_path)
    assert (entry["who"], entry["name"], entry["job"]) == ("x" * MAX_TEXT, "y" * MAX_TEXT, 7)


def test_refusals_of_a_flood_are_told_by_their_number_and_the_rest_is_written(tmp_path: Path) -> None:
    written = Audit(str(tmp_path))
    for _ in range(1000):
        written.note("refused", "somebody", why="unknown_key")
    written.note("joined", "hut")
    written.close()
    entries = read(tmp_path)
    assert [entry["what"] for entry in entries] == ["refused"] * MAX_REFUSALS + ["joined", "refusals"]
    assert entries[-1]["count"] == 1000 - MAX_REFUSALS


def test_it_is_for_its_user_and_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 1_000)
    written = Audit(str(tmp_path))
    for _ in range(100):
        written.note("joined", "hut")
    written.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"audit.jsonl", "audit.jsonl.1"}
    assert max(sizes.values()) < 1_200
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_disk_that_is_full_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit.jsonl").symlink_to("/dev/full")
    written = Audit(str(tmp_path))
    written.note("joined", "hut")
    written.close()
    assert "the audit cannot be written" in caplog.text
