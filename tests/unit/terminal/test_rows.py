"""Jobs, tasks and workers as JSON and as words. The keys of the JSON are a promise."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from rich.console import Console
from tests.unit.client.builders import NOW, a_row, a_task_row, a_worker_row

from gandy.cli.worker import LIST_KEYS
from gandy.core.model import Cause, Counts, JobState, TaskState
from gandy.core.requests import ForemanRow, ForemanStatus
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.terminal import rows, table
from gandy.terminal.say import print_json
from gandy.terminal.table import PAGE_ROWS, draw_fields, draw_table

STATUS = ForemanStatus("1.2", 34, 90.0, "memory:", "disk full", ("unix:/s",), True, 2, 8, 3, 1, 1_000, 3)


def test_job_as_json() -> None:
    row = a_row(state=JobState.FAILED, counts=Counts(finished=8, failed=2), command=("echo", "a"), tags=("gpu",))
    told = rows.job_to_json(row)
    assert list(told) == rows.JOB_KEYS.split()
    assert told["state"] == "failed"
    assert (told["tasks"], told["finished"], told["failed"]) == (10, 8, 2)
    assert json.loads(json.dumps(told))["command"] == ["echo", "a"]


def test_task_as_json() -> None:
    told = rows.task_to_json(7, a_task_row(3, cause=Cause.SIGNAL, exit_code=None, signal=9, tail=b"last \xff"))
    assert list(told) == rows.TASK_KEYS.split()
    assert (told["job"], told["task"], told["state"], told["cause"]) == (7, 3, "failed", "signal")
    assert (told["signal"], told["exit_code"], told["tail"]) == (9, None, "last \ufffd")


def test_task_that_never_ran_has_the_same_keys() -> None:
    told = rows.task_to_json(7, TaskRow(TaskNumber(1), TaskState.WAITING, 0))
    assert list(told) == rows.TASK_KEYS.split()
    assert told["cause"] is None


def test_worker_and_status_as_json() -> None:
    assert list(asdict(a_worker_row())) == LIST_KEYS.replace(" and ", ", ").split(", ")
    assert asdict(STATUS)["waiting"] == 1_000


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "x\ny"})
    assert capsys.readouterr().out == '{"a":"x\\ny"}\n'


def test_job_as_a_row_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    row = a_row(tasks=1_000_000, name="[red]x", command="echo \x1b[2J")
    draw_table(rows.JOB_HEADERS, [rows.job_to_cells(row, NOW)])
    header, line = capsys.readouterr().out.splitlines()
    assert header.split() == ["JOB", "NAME", "STATE", "TASKS", "FINISHED", "FAILED", "RUNNING", "SUBMITTED", "COMMAND"]
    assert line == "  7  [red]x  running  1,000,000         0       0        0  1 min ago  echo \\x1b[2J"


def test_a_long_table_is_printed_page_by_page(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []

    def make_rows() -> Iterator[tuple[str, str]]:
        for number in range(PAGE_ROWS + 2):
            printed.append(capsys.readouterr().out)
            yield str(number), "finished"

    draw_table((">task", "state"), make_rows())
    *_, last = capsys.readouterr().out.splitlines()
    assert printed[PAGE_ROWS - 1] == ""
    assert printed[PAGE_ROWS].startswith("TASK  STATE\n   0  finished\n")
    assert printed[PAGE_ROWS + 1] == ""
    assert last == "1001  finished"


def test_the_last_column_gives_way_on_a_narrow_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_make_console", lambda: Console(width=24, color_system=None))
    draw_table(("name", "command"), [("anna", "sleep forever and ever"), ("b", "日本語日本語日本語")])
    assert capsys.readouterr().out.splitlines() == [
        "NAME  COMMAND",
        "anna  sleep forever and…",
        "b     日本語日本語日本語",
    ]


def test_job_as_fields(capsys: pytest.CaptureFixture[str]) -> None:
    spec: dict[str, Any] = {"priority": 5, "retries": 2, "timeout": 300.0, "slots": 2, "limit": 4, "after": (3,)}
    spec |= {"after_any": (4,), "after_each": (5, 6)}
    draw_fields(rows.job_to_fields(a_row(env={"A": "1"}, **spec), NOW))
    shown = dict(re.split("  +", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert "name" not in shown
    assert shown["tasks"] == "10: 10 waiting"
    assert shown["environment"] == "A"  # its value may be a secret
    assert (shown["timeout"], shown["slots"], shown["after"]) == ("5 min", "2 for each task", "job 3")
    assert (shown["after any end of"], shown["task by task after"]) == ("job 4", "job 5, job 6")


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (a_task_row(peak_memory_bytes=2_000_000), ("1", "1", "failed", "hut-1", "1 min 30 s", "2.0 MB", "exit code 1")),
        (a_task_row(started=None), ("1", "1", "failed", "hut-1", "", "", "exit code 1")),
        (TaskRow(TaskNumber(2), TaskState.WAITING, 0), ("2", "", "waiting", "", "", "", "")),
    ],
)
def test_task_as_a_row_of_a_table(row: TaskRow, cells: tuple[str, ...]) -> None:
    assert rows.task_to_cells(row) == cells


@pytest.mark.parametrize(
    ("changes", "state"),
    [({}, "ready"), ({"draining": True}, "draining"), ({"connected": False, "draining": True}, "absent")],
)
def test_worker_as_a_row_of_a_table(changes: dict[str, Any], state: str) -> None:
    cells = rows.worker_to_cells(a_worker_row(calls=3, commands=("add", "ping"), version="1.2", **changes))
    assert cells == ("hut", state, "4", "2", "2", "3", "", "", "0.5 s ago", "1.2", "gpu", "add, ping", "hut-1")
    assert len(cells) == len(rows.WORKER_HEADERS)


def test_status_says_what_is_wrong() -> None:
    fields = dict(rows.status_to_fields(STATUS))
    assert fields["trouble"] == "disk full"
    assert "INSECURE" in fields["security"]
    assert fields["tasks"] == "3 running, 1,000 waiting"
    assert dict(rows.status_to_fields(replace(STATUS, assigned=5)))["tasks"] == "3 running, 5 assigned, 1,000 waiting"


def test_status_warns_of_versions_that_differ() -> None:
    assert dict(rows.status_to_fields(replace(STATUS, versions=("1.2",))))["warning"] == ""
    warning = dict(rows.status_to_fields(replace(STATUS, versions=("1.1", "1.2"))))["warning"]
    assert "versions of gandy differ: 1.1, 1.2;" in warning


def test_a_job_tells_what_is_assigned() -> None:
    row = replace(a_row(), counts=Counts(waiting=1, running=2, failed=3, assigned=4))
    assert dict(rows.job_to_fields(row, 0.0))["tasks"].endswith(": 1 waiting, 4 assigned, 2 running, 3 failed")
    assert rows.job_to_json(row)["assigned"] == 4


def test_a_job_that_cannot_be_read_says_so() -> None:
    row = replace(a_row(), problem="Object missing required field `command`")
    assert rows.job_to_json(row)["state"] == "unreadable"
    assert rows.job_to_json(row)["problem"] == row.problem
    assert "unreadable" in rows.job_to_cells(row, 0.0)
    assert any("set aside" in text for _, text in rows.job_to_fields(row, 0.0))
    assert ("set aside", "2 that cannot be read") in rows.status_to_fields(replace(STATUS, unreadable=2))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, ""),
        ({"is_here": True}, "asked"),
        ({"is_here": True, "is_leaving": True}, "leaving"),
        ({"is_leaving": True, "is_gone": True}, "gone"),
    ],
)
def test_the_state_of_a_foreman(changes: dict[str, bool], state: str) -> None:
    row = ForemanRow("hut-3f9", "hut", "1", ("tcp://a:1",), (), 0, 0.0, 300.0, **changes)
    cells = dict(zip((header.lstrip(">") for header in rows.FOREMAN_HEADERS), rows.foreman_to_cells(row), strict=True))
    assert (cells["state"], cells["shards"], cells["lease"], cells["last seen"]) == (state, "", "", "5 min ago")


@pytest.mark.parametrize(
    ("load", "cores", "used", "total", "cells"),
    [
        (None, None, None, None, ("", "")),
        (3.25, 8, 4_000_000_000, 16_000_000_000, ("3.2 on 8 cores", "4.0 GB of 16.0 GB")),
        (0.0, None, 4_000, None, ("0.0", "4.0 kB")),
    ],
)
def test_machine_of_a_worker(
    load: float | None, cores: int | None, used: int | None, total: int | None, cells: tuple[str, str]
) -> None:
    row = a_worker_row(load=load, cores=cores, memory_bytes=used, memory_total_bytes=total)
    assert rows.worker_to_cells(row)[6:8] == cells
    fields = dict(rows.worker_to_fields(row))
    assert (fields["load"], fields["memory"]) == cells


def test_one_worker_as_fields() -> None:
    row = a_worker_row(calls=3, commands=("add", "ping"), version="1.2", problem="memory", knows_time=True)
    fields = dict(rows.worker_to_fields(row))
    assert (fields["state"], fields["short of"], fields["version"]) == ("short", "memory", "1.2")
    assert (fields["slots"], fields["calls"], fields["commands"]) == ("2 of 4 in use", "3 in progress", "add, ping")
    assert fields["shared time"] == "known"
