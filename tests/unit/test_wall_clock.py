"""The wall clock may be stepped at any moment, so nothing is waited for by it: only these modules may read it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parents[2] / "src" / "gandy"

# Modules, and what the time of day is for in each.
ALLOWED: Final = {
    "bus/io/engine.py": "where the shared time begins, if this process is the first to lead",
    "bus/osc/incoming.py": "time tags of OSC are times of day",
    "bus/osc/outgoing.py": "time tags of OSC are times of day",
    "cli/audit.py": "shown",
    "cli/bus/monitor.py": "shown",
    "cli/job.py": "shown: how long ago",
    "cli/past_status.py": "people write --at as a time of day, and samples are found by theirs",
    "cli/key.py": "shown: how long it is still good",
    "cli/report/collect.py": "shown: when a report was made",
    "cli/top/program.py": "shown: how long ago, and the time itself",
    "client/learning.py": "kept: when addresses of foremen were learned; a step makes it learn them again",
    "clocks.py": "this is where it is read",
    "dashboard/api/jobs.py": "shown: rates and times left",
    "dashboard/bus_view.py": "shown: points of time series",
    "dashboard/crew_feed.py": "shown: when a picture was made",
    "foreman/audit.py": "kept: when it happened",
    "foreman/blobs.py": "when arguments were last read; `Ages` tells how old that is",
    "foreman/clock.py": "kept: when things happened to jobs",
    "foreman/key_requests.py": "whether keys and invitations are still good",
    "foreman/timers.py": "whether keys are still good",
    "foreman/admission.py": "whether keys and invitations are still good",
    "keys/foreman.py": "how long keys and invitations are good",
    "store/copying.py": "kept: until when samples are read, which have times of day",
    "terminal/options.py": "people write --at as a time of day",
    "viewer/watcher.py": "shown: rates and points of time series",
    "worker/conversations.py": "kept: when addresses of foremen were learned",
    "worker/endings.py": "shown: when a task could not start",
    "worker/runner.py": "shown: when a task could not start",
    "worker/running_task.py": "shown: when a task started",
    "worker/slot.py": "shown: when a task started",
    "worker/task_service.py": "shown: when a task could not start",
    "worker/trim.py": "which output is removed first",
}

READERS: Final = {
    "time": {"time", "time_ns", "clock_gettime", "clock_gettime_ns", "ctime", "localtime", "gmtime", "asctime"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def find_readers(source: str) -> Iterator[int]:
    """The lines that read the wall clock, as far as names can tell."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in READERS.get(owner, ()):
                yield node.lineno
            case ast.Attribute(value=ast.Attribute(attr=owner), attr=name) if name in READERS.get(owner, ()):
                yield node.lineno
            case ast.ImportFrom(module="time", names=names) if READERS["time"] & {each.name for each in names}:
                yield node.lineno
            case ast.ImportFrom(module="gandy.clocks", names=names) if "read_wall" in {each.name for each in names}:
                yield node.lineno
            case ast.Import(names=names) if any(each.name in ("time", "datetime") and each.asname for each in names):
                yield node.lineno
            case ast.Attribute(attr="st_mtime" | "st_ctime" | "st_atime"):
                yield node.lineno
            case _:
                pass


@pytest.mark.parametrize(
    "source",
    [
        "import time\nnow = time.time()",
        "import time\nread = time.time_ns",
        "import time\nnow = time.clock_gettime(time.CLOCK_REALTIME)",
        "from time import time\nnow = time()",
        "from gandy.clocks import read_wall\nnow = read_wall()",
        "import time as clock\nnow = clock.time()",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nnow = datetime.datetime.now()",
        "import datetime\nnow = datetime.date.today()",
        "age = path.stat().st_mtime",
    ],
)
def test_a_reader_is_found(source: str) -> None:
    assert list(find_readers(source))


def test_the_monotonic_clock_is_not_meant() -> None:
    assert not list(find_readers("import time\ntime.sleep(1)\nnow = time.monotonic()\nself.time.clock"))


def test_only_these_modules_read_the_wall_clock() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): lines
        for path in SOURCE.rglob("*.py")
        if (lines := list(find_readers(path.read_text())))
    }
    strange = {name: lines for name, lines in found.items() if name not in ALLOWED}
    assert not strange, "wait by time.monotonic(), or say in ALLOWED what the time of day is for"
    assert set(ALLOWED) == set(found), "these no longer read it"
