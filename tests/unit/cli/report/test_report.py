"""A report says what happened, is safe to open, and is not large."""

import base64
import random
import re
import struct
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.client.builders import NOW, a_row, a_task_row, a_worker_row

from gandy.cli.report.charts import MAX_BARS, MAX_LANES, count_hidden_lanes, draw_histogram, draw_map, draw_timeline
from gandy.cli.report.collect import find_submitter
from gandy.cli.report.material import CrewReport, ReportedJob
from gandy.cli.report.page import write_page
from gandy.cli.report.png import SIGNATURE, encode_png
from gandy.cli.report.sections import SHOWN_TAILS, choose_tails, format_time
from gandy.cli.report.style import COLOURS
from gandy.core.model import Cause, Counts, Ending, JobState, TaskState
from gandy.core.requests import ForemanStatus
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId, TaskNumber
from gandy.viewer.summary import JobSample, make_summary
from gandy.viewer.timeline import Attempt

STATUS = ForemanStatus("1.2", 34, 90.0, "memory:", "", ("unix:/s",), False, 2, 8, 3, 1, 1_000, 3)


class Checker(HTMLParser):
    """Collects the elements and texts of a page, and checks that each element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def a_finished(task: int, seconds: float = 2.0, **ending: Any) -> TaskRow:
    return a_task_row(task, TaskState.FINISHED, **{"exit_code": 0, "ended": NOW + seconds, **ending})


def a_failed(task: int, tail: bytes = b"no planet") -> TaskRow:
    return a_task_row(task, exit_code=3, tail=tail)


def a_job(row: JobRow, tasks: list[TaskRow], failed: list[TaskRow] | None = None, **more: Any) -> ReportedJob:
    sample = JobSample(row, tuple(tasks), tuple(failed or []))
    return ReportedJob(sample, make_summary(sample), more.pop("states", bytes(row.counts.total)), **more)


def write(*jobs: ReportedJob, **more: Any) -> Checker:
    workers = (a_worker_row("hut"), a_worker_row("den"))
    return Checker(write_page(CrewReport(NOW + 100, "unix:/s", STATUS, workers, jobs, **more)))


def a_usual_job() -> ReportedJob:
    row = a_row(7, JobState.FAILED, Counts(finished=8, failed=2), command=("./fly", "a b"), env={"KEY": "hunter2"})
    tasks = [
        *(a_finished(task, task / 10, peak_memory_bytes=5_000_000 * task) for task in range(1, 9)),
        a_failed(9),
        a_failed(10),
    ]
    return a_job(row, tasks, tasks[-2:], states=bytes([2] * 8 + [3] * 2), submitter="ada, from 10.0.0.7")


def test_report_says_what_happened() -> None:
    text = write(a_usual_job()).text
    for part in (
        "Job 7: ./fly a b",
        "failed",
        "8 finished",
        "2 failed",
        "./fly 'a b'",
        f"{format_time(NOW - 60)} by ada, from 10.0.0.7",
        "exit code 3",
        "no planet",
        "9, 10",
        "most 1 min 30 s",
        "most 40.0 MB",
        "Slowest tasks",
        "Task 9, attempt 1 on hut-1: exit code 3",
        "hut (hut-1)",
        "gandy 1.2",
    ):
        assert part in text, part


def test_values_of_the_environment_are_not_in_it() -> None:
    page = write(a_usual_job())
    assert "hunter2" not in page.text
    assert "KEY (names only)" in page.text


def test_report_runs_and_loads_nothing() -> None:
    page = write(a_usual_job())
    assert not {"script", "link", "iframe", "object", "embed", "form", "base", "a"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert names.isdisjoint({"href", "srcset", "xlink:href", "action"})
    assert [value[:22] for name, value in page.attributes if name == "src" and value] == ["data:image/png;base64,"]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes


def write_everywhere(words: str) -> Checker:
    """A report in which all texts that a user, a task or a worker chose are this one."""
    spec: dict[str, Any] = {"command": words, "name": words[:80], "cwd": words, "tags": (words,), "env": {words: "x"}}
    failed = a_failed(1, words.encode())
    assert failed.ending is not None
    failed = replace(failed, worker=words, ending=replace(failed.ending, note=words))
    more: dict[str, Any] = {"outputs": {TaskNumber(1): words.encode()}, "repeated": ((failed,),), "submitter": words}
    return write(a_job(a_row(7, JobState.FAILED, Counts(failed=1), **spec), [failed], [failed], **more))


def test_nothing_that_users_or_tasks_wrote_becomes_markup() -> None:
    page = write_everywhere("</style></title><script>alert(1)</script>\"'><img src=x onerror=y>\x1b[2J")
    assert page.tags == write_everywhere("harmless").tags
    assert [name for name, _ in page.attributes] == [name for name, _ in write_everywhere("harmless").attributes]
    assert "\x1b" not in page.text
    assert "<script>alert(1)</script>" in page.text


def test_several_jobs_have_a_section_each() -> None:
    page = write(a_usual_job(), a_job(a_row(8, counts=Counts(waiting=3), tasks=3), []))
    assert "2 jobs" in page.text
    assert page.tags.count("section") == 2
    assert "Job 8: true" in page.text


def test_job_that_has_not_begun_has_a_short_report() -> None:
    text = write(a_job(a_row(8, JobState.WAITING, Counts(waiting=3), tasks=3), [])).text
    assert "3 waiting" in text
    assert not [part for part in ("Failures", "Timeline", "Slowest", "first task began", "ended") if part in text]


def test_job_without_tasks_has_a_report() -> None:
    assert "It has no tasks." in write(a_job(a_row(8, counts=Counts(), tasks=0), [])).text


def test_sample_of_a_large_job_says_so() -> None:
    row = a_row(7, JobState.FAILED, Counts(finished=3_000, failed=1_000), tasks=4_000)
    text = write(a_job(row, [a_finished(1), a_finished(2)], [a_failed(3)])).text
    assert "From the last attempts at 2 of 4,000 tasks, evenly spread." in text
    assert "of the first 1 of 1,000" in text
    assert "evenly spread, and at 1 that failed" in text
    assert "or earlier" in text


def test_retries_are_listed() -> None:
    first = replace(a_failed(5), state=TaskState.WAITING)
    last = replace(a_finished(5), attempt=2, failures=1)
    text = write(a_job(a_row(7, counts=Counts(finished=1), tasks=1), [last], repeated=((first, last),))).text
    assert "Retries" in text
    assert "tried again" in text


def test_first_of_each_kind_of_failures_shows_what_it_wrote() -> None:
    rows = [a_failed(task) for task in range(1, 2 * SHOWN_TAILS)]
    rows.append(a_failed(99, b"something else"))
    job = a_job(a_row(7, counts=Counts(failed=len(rows))), rows, rows)
    chosen = [row.task for row in choose_tails(job)]
    assert len(chosen) == SHOWN_TAILS
    assert chosen == [*range(1, SHOWN_TAILS), 99]


def test_silent_tasks_have_no_tails() -> None:
    rows = [a_failed(1, b" \n")]
    assert "wrote last" not in write(a_job(a_row(7, counts=Counts(failed=1)), rows, rows)).text


def test_worker_that_is_gone_is_named() -> None:
    row = replace(a_finished(1), worker="old-9")
    assert "not in the crew" in write(a_job(a_row(7, counts=Counts(finished=1)), [row])).text


def test_running_job_says_when_it_changed_last() -> None:
    text = write(a_job(a_row(7, counts=Counts(finished=1, running=1), tasks=2), [a_finished(1)])).text
    assert "last change" in text


def test_largest_report_is_small() -> None:
    rng = random.Random(1)
    states = bytes(rng.choices(range(len(TaskState)), k=1_000_000))
    rows = []
    for task in range(1, 2_001):
        began = NOW + rng.random() * 3_600
        ended, is_failed = began + rng.expovariate(1 / 20), task > 1_000
        ending = Ending(
            Cause.EXIT, int(is_failed), started=began, ended=ended, tail=b"<error>\n" * 300 if is_failed else b""
        )
        state = TaskState.FAILED if is_failed else TaskState.FINISHED
        rows.append(TaskRow(TaskNumber(task), state, 1, f"hut-{rng.randrange(50)}", began, ended, ending=ending))
    counts = Counts(**{state.name.lower(): states.count(state) for state in TaskState})
    job = a_job(a_row(7, counts=counts, tasks=1_000_000), rows[:1_000], rows[1_000:], states=states)
    page = write_page(CrewReport(NOW, "unix:/s", STATUS, (), (job,)))
    assert len(page) < 1_000_000


# Charts


def read_png(data: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height, and the pixels of each row."""
    assert data.startswith(SIGNATURE)
    at, parts = len(SIGNATURE), {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        parts[kind] = data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert checksum == zlib.crc32(kind + parts[kind])
        at += 12 + size
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    lines = zlib.decompress(parts[b"IDAT"])
    assert len(lines) == height * (width + 1)
    return width, height, [lines[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]


def test_picture_has_a_pixel_for_each_task() -> None:
    assert read_png(encode_png(bytes([0, 1, 2, 1, 0]), 3, [(0, 0, 0)] * 3 + [(9, 9, 9)])) == (
        3,
        2,
        [b"\0\1\2", b"\1\0\3"],
    )


@pytest.mark.parametrize(
    ("count", "width", "shown"), [(1, 1, 12), (100, 83, 996), (10_000, 250, 1_000), (99_999, 1_000, 1_000)]
)
def test_few_tasks_are_shown_larger(count: int, width: int, shown: int) -> None:
    drawn = draw_map(bytes([TaskState.FINISHED]) * count)
    found = re.search('base64,([^"]*)', drawn)
    assert found is not None
    assert read_png(base64.b64decode(found[1]))[0] == width
    assert f"width: min(100%, {shown}px)" in drawn
    assert f"{count:,} finished" in drawn


def test_every_state_has_a_colour() -> None:
    assert set(COLOURS) == set(TaskState)
    assert len(set(COLOURS.values())) == len(TaskState)


def test_histogram_with_many_bars_adds_them_up() -> None:
    drawn = draw_histogram([(number, number + 1, 1) for number in range(100)], str, "label")
    assert drawn.count("<rect") <= MAX_BARS
    assert "0 to 3: 3" in drawn


def test_histogram_shows_no_bar_where_there_is_nothing() -> None:
    assert draw_histogram([(0, 1, 5), (1, 2, 0), (2, 3, 1)], str, "label").count("<rect") == 2


def test_timeline_of_a_running_attempt_ends_now() -> None:
    attempt = Attempt("hut", 0, TaskNumber(3), 1, "running", NOW, None)
    assert "task 3, attempt 1 on hut: running, 10 s" in draw_timeline([attempt], NOW + 10)
    assert "running, 0.0 s" in draw_timeline([attempt], NOW - 10)  # our clock is behind


def test_timeline_shows_as_many_lanes_as_a_page() -> None:
    attempts = [
        Attempt("hut", lane, TaskNumber(lane + 1), 1, "finished", NOW, NOW + 1) for lane in range(MAX_LANES + 5)
    ]
    assert count_hidden_lanes(attempts) == 5
    assert draw_timeline(attempts, NOW).count("<title>") == MAX_LANES
    text = write(replace(a_usual_job(), summary=replace(a_usual_job().summary, timeline=tuple(attempts)))).text
    assert "5 lanes are not shown." in text


# Who submitted it


def test_submitter_is_found_in_the_audit() -> None:
    lines = (
        b'{"what":"submitted","who":"ada","from":"10.0.0.7","job":7}\n',
        b'{"what":"submitted","who":"ben","from":"10.0.0.8","job":8}\n',
        b'{"what":"cancelled","who":"eve","from":"10.0.0.9","job":7,"name":"\\"submitted\\""}\n',
        b'{"what":"submitted","jo',
        b'["submitted"]\n',
    )
    assert find_submitter(lines, JobId(7)) == "ada, from 10.0.0.7"
    assert find_submitter(lines, JobId(9)) == ""
