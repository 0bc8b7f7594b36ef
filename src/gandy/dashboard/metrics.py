"""The crew as numbers for Prometheus, in its text format. Their count is fixed: no series is about one job or worker.

Counters never fall while the dashboard runs, also if a foreman starts again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from gandy import __version__
from gandy.core.views import find_bucket, find_lower_bound
from gandy.dashboard.rows import Surroundings, name_worker_state
from gandy.viewer.health import list_present_trouble
from gandy.viewer.picture import Changes, Picture
from gandy.viewer.trouble import Severity

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

MICROSECOND: Final = 1e-6
# The upper bounds of the histogram of calls: 2^6 to 2^26 microseconds, each four times the one before.
DOUBLINGS: Final = range(6, 27, 2)

WORKER_STATES: Final = ("ready", "draining", "short", "absent")


class Sample(NamedTuple):
    """One line: a suffix of the name, labels as they are written, and the value."""

    suffix: str
    labels: str
    value: float


class Family(NamedTuple):
    """A metric: its name, its kind, what it is, and its lines."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


class CallCounter:
    """Adds up the calls of all commands, from numbers that begin anew if a foreman or a command does."""

    def __init__(self) -> None:
        self.ended = 0
        self.failed = 0
        self.buckets: Counter[int] = Counter()  # of microseconds
        self._before: dict[str, tuple[int, int, Sequence[int]]] = {}

    def note(self, picture: Picture, commands: Iterable[str]) -> None:
        """These commands have changed."""
        for name in commands:
            glance = picture.find_command(name)
            if glance is None:
                self._before.pop(name, None)
                continue
            ended, failed, buckets = self._before.get(name, (0, 0, ()))
            if glance.ended < ended:
                ended, failed, buckets = 0, 0, ()
            self._before[name] = (glance.ended, glance.failed, glance.buckets)
            self.ended += glance.ended - ended
            self.failed += max(0, glance.failed - failed)
            for bucket, count in enumerate(glance.buckets):
                self.buckets[bucket] += max(0, count - (buckets[bucket] if bucket < len(buckets) else 0))


class Metrics:
    """`note` what has changed; `format` when Prometheus asks."""

    def __init__(self) -> None:
        self._calls = CallCounter()

    def note(self, picture: Picture, changes: Changes) -> None:
        self._calls.note(picture, changes.commands)

    def format(self, picture: Picture, about: Surroundings, browsers: int) -> bytes:
        streams = _gauge("dashboard_streams", "Streams of events to browsers and programs.", browsers)
        families = [*_list_crew(picture, about), *self._list_calls(picture), streams]
        return "".join(line for family in families for line in _format(family)).encode()

    def _list_calls(self, picture: Picture) -> Iterator[Family]:
        calls = self._calls
        yield _gauge("calls_waiting", "Calls of commands that wait for a slot.", picture.count("calls_waiting"))
        yield _counter("calls", "Calls of commands that have ended.", calls.ended)
        yield _counter("calls_failed", "Calls of commands that have failed.", calls.failed)
        text = "Time of calls from arrival to answer. The sum is estimated from the buckets, to within an eighth."
        yield Family("call_duration_seconds", "histogram", text, list(_list_buckets(calls.buckets)))


def _list_crew(picture: Picture, about: Surroundings) -> Iterator[Family]:
    workers, totals = list(picture.list_workers()), picture.totals
    trouble = Counter(each.severity for each in list_present_trouble(picture, about.problem, about.is_complete))
    states = Counter(map(name_worker_state, workers))
    yield Family("info", "gauge", "The version of the dashboard.", [Sample("", f'version="{__version__}"', 1)])
    yield _gauge(
        "up", "1 if the crew can be watched, else 0: then the numbers are old.", about.is_complete and not about.problem
    )
    yield _gauge("foremen", "Foremen of the crew.", about.foremen)
    yield _gauge("jobs_unfinished", "Jobs that have not ended.", picture.count("unfinished"))
    tasks = {name: picture.count(name) for name in ("waiting", "assigned", "running")}
    yield _states("tasks", "Tasks of jobs that have not ended.", tasks)
    yield _counter("tasks_finished", "Tasks that have finished.", totals.finished)
    yield _counter("tasks_failed", "Tasks that have failed for good.", totals.failed)
    yield _counter("tasks_cancelled", "Tasks that were cancelled.", totals.cancelled)
    yield _counter("attempts_repeated", "Attempts after which the task waits again.", totals.repeated)
    yield _counter("attempts_lost", "Attempts that were lost with their worker.", totals.lost)
    yield _states("workers", "Workers.", {state: states[state] for state in WORKER_STATES})
    silence = max((worker.silent_seconds for worker in workers), default=0.0)
    yield _gauge("worker_silence_max_seconds", "Time since the last message of the most silent worker.", silence)
    machines = [worker.machine for worker in workers if worker.machine is not None]
    load = max((machine.load / machine.cores for machine in machines if machine.cores), default=0.0)
    yield _gauge("worker_load_max_ratio", "Load for each core, of the worker's machine that has the highest.", load)
    used = (each.memory_bytes / each.memory_total_bytes for each in machines if each.memory_total_bytes)
    text = "Part of the memory that is in use, of the worker's machine that has least left."
    yield _gauge("worker_memory_max_ratio", text, max(used, default=0.0))
    yield _gauge("slots", "Slots of connected workers.", sum(worker.slots for worker in workers if worker.connected))
    yield _gauge("slots_used", "Slots in use by tasks and calls.", sum(worker.used for worker in workers))
    lines = [Sample("", f'severity="{severity}"', trouble[severity]) for severity in Severity]
    yield Family("trouble", "gauge", "What needs a person's attention.", lines)


def _gauge(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, [Sample("", "", value)])


def _counter(name: str, text: str, value: float) -> Family:
    return Family(f"{name}_total", "counter", f"{text} Since the dashboard was started.", [Sample("", "", value)])


def _states(name: str, text: str, values: dict[str, int]) -> Family:
    return Family(name, "gauge", text, [Sample("", f'state="{state}"', count) for state, count in values.items()])


def _list_buckets(counts: Counter[int]) -> Iterator[Sample]:
    for doubling in DOUBLINGS:
        first_above = find_bucket(2**doubling)  # which begins at this power of two
        below = sum(count for bucket, count in counts.items() if bucket < first_above)
        yield Sample("_bucket", f'le="{_format_number(2**doubling * MICROSECOND)}"', below)
    yield Sample("_bucket", 'le="+Inf"', counts.total())
    total = sum(_find_middle(bucket) * count for bucket, count in counts.items())
    yield Sample("_sum", "", total * MICROSECOND)
    yield Sample("_count", "", counts.total())


def _find_middle(bucket: int) -> float:
    return (find_lower_bound(bucket) + find_lower_bound(bucket + 1)) / 2


def _format(family: Family) -> Iterator[str]:
    name = f"gandy_{family.name}"
    yield f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"
    for suffix, labels, value in family.samples:
        yield f"{name}{suffix}{f'{{{labels}}}' if labels else ''} {_format_number(value)}\n"


def _format_number(value: float) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < inf else f"{number:.9g}"
