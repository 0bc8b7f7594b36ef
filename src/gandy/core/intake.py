"""Accepts new work from clients: jobs, their lines in parts, and tasks for open jobs. Checks every limit."""

from collections.abc import Iterator, Mapping, Set
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gandy.core import requests as ask
from gandy.core.effects import Effect
from gandy.core.foreman import Foreman
from gandy.core.jobs import ActiveJob
from gandy.core.links import Link
from gandy.core.model import JobSpec
from gandy.core.offsets import compute_shared
from gandy.core.placeholders import check_command
from gandy.core.records import LinesAdded, LinesDropped
from gandy.core.refusal import Refusal
from gandy.core.sources import check_counts, find_sources
from gandy.core.standing import Standing
from gandy.core.steps import CompareClocks, DrawIdentity, Look, Steps
from gandy.core.withdrawal import Withdrawal
from gandy.errors import ConfigError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_LATE_SECONDS, MAX_SPEC_BYTES, MAX_SUBMISSIONS, MAX_TASKS, MAX_UPLOADS, MAX_WAIT_SECONDS
from gandy.moments import Monotonic, Shared

ORPHAN_GRACE: Final = 60.0  # seconds that an open job waits for a client that is gone


class Upload(Struct, frozen=True):
    """Lines that came before their job: the store's number for them, and how many there are."""

    number: int
    count: int


NO_UPLOAD: Final = Upload(0, 0)


class Submissions:
    """The last jobs that were submitted, by the keys of their requests: the store may not know them yet."""

    def __init__(self, most: int = MAX_SUBMISSIONS) -> None:
        self._most = most
        self._jobs: dict[int, JobId] = {}

    def get(self, key: int) -> JobId | None:
        return self._jobs.get(key)

    def add(self, key: int, job: JobId) -> None:
        if key:
            self._jobs[key] = job
            if len(self._jobs) > self._most:
                del self._jobs[next(iter(self._jobs))]  # the oldest

    def move(self, earlier: Mapping[JobId, JobId]) -> None:
        """Requests for these jobs came before, and were given other numbers then."""
        self._jobs |= {key: earlier[job] for key, job in self._jobs.items() if job in earlier}

    def drop(self, jobs: Set[JobId]) -> None:
        for key in [key for key, job in self._jobs.items() if job in jobs]:
            del self._jobs[key]


class Intake:
    """Passes work to the reactor. Every method returns the effects. Raises: Refusal."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing
        self._orphans: list[tuple[Monotonic, JobId, Link | None]] = []  # when to close each, if its client is gone
        self._uploads: dict[tuple[Link, int], Upload] = {}  # by link, and the client's number
        self._upload_count = 0
        self._owners: dict[JobId, Link | None] = {}  # of open jobs: the link over which tasks come
        self._submissions = Submissions()

    def submit(self, request: ask.Submit, link: Link) -> Steps[tuple[JobId, list[Effect]]]:
        """The job's number, and the effects. A request that came before, by its key, gets the number of that job."""
        if (known := (yield from self._find_submission(request))) is not None:
            return self._recognise(known, request, link)
        self._refuse_in_trouble()
        shared_ahead: float = 0.0 if request.spec.at is None else (yield CompareClocks())
        identity = yield DrawIdentity()
        drawn: JobId | None = (yield Look(lambda store: store.draw_number())) if self._foreman.shard else None
        past = yield from find_sources(request.spec, self._foreman.reactor.jobs)
        # No step follows. Meanwhile, the same request may have come again over another link, and been quicker.
        if (quicker := self._submissions.get(request.key)) is not None:
            return self._recognise(quicker, request, link)
        upload = self._find_upload(link, request)
        spec = _check_spec(request.spec, len(request.lines) or upload.count)
        if spec.at is not None:
            spec = self._check_time(spec, spec.at, shared_ahead)
        check_counts(spec, self._foreman.reactor.jobs, past)
        self._uploads.pop((link, request.upload), None)
        spec = replace(spec, identity=identity)
        number, effects = self._foreman.reactor.control.submit(
            spec, self._standing.now, request.lines, past.states, past.by_task, upload.number, request.key, drawn
        )
        if spec.is_open:
            self._owners[number] = link
        self._submissions.add(request.key, number)
        return number, effects

    def _find_submission(self, request: ask.Submit) -> Steps[JobId | None]:
        """The job of a request that came before. The store is asked only if the client says that it sends it again."""
        known = self._submissions.get(request.key)
        if known is None and request.again and request.key:
            known = yield Look(lambda store: store.find_submission(request.key))
        return known

    def _recognise(self, job: JobId, request: ask.Submit, link: Link) -> tuple[JobId, list[Effect]]:
        """The request came before: its client goes on with the job over this link, and lines that came again go."""
        upload = self._uploads.pop((link, request.upload), None)
        found = self._foreman.reactor.jobs.find(job)
        if found is not None and found.is_open:
            self._owners[job] = link
        return job, [] if upload is None else [LinesDropped(upload.number)]

    def _check_time(self, spec: JobSpec, at: Shared, ahead: float) -> JobSpec:
        """`ahead`: how far the shared time is ahead of `now`."""
        shared = compute_shared(self._standing.now, ahead)
        if not at >= shared - MAX_LATE_SECONDS:
            raise Refusal("refused", f"the time of the job was {shared - at:,.1f} s ago: it is {float(shared):.1f} now")
        if at - shared > MAX_WAIT_SECONDS:
            raise Refusal("refused", "the time of the job is more than ten years ahead")
        reactor = self._foreman.reactor
        reactor.on_clock(ahead)
        return replace(spec, clock_ahead=ahead - reactor.clocks.wall_ahead, boot=reactor.clocks.boot, boot_ahead=ahead)

    def add_lines(self, request: ask.AddLines, link: Link) -> list[Effect]:
        self._refuse_in_trouble()
        key = (link, request.upload)
        known = self._uploads.get(key)
        if known is None:
            if sum(owner is link for owner, _ in self._uploads) >= MAX_UPLOADS:
                raise Refusal("refused", f"only {MAX_UPLOADS} jobs at a time can be sent in parts")
            self._upload_count += 1
            known = Upload(self._upload_count, 0)
        if known.count + len(request.lines) > MAX_TASKS:
            raise Refusal("refused", f"a job has at most {MAX_TASKS:,} tasks")
        self._uploads[key] = Upload(known.number, known.count + len(request.lines))
        return [LinesAdded(known.number, TaskNumber(known.count + 1), request.lines)]

    def add_tasks(self, request: ask.AddTasks, link: Link) -> list[Effect]:
        self._refuse_in_trouble()
        job = self._get_open(request.job)
        count = job.tasks.count
        if not 1 <= request.first <= count + 1:
            raise Refusal("bad_request", f"job {job.id} has {count} tasks, and {request.first} is not the next")
        if count + len(request.inputs) > MAX_TASKS:
            raise Refusal("refused", f"a job has at most {MAX_TASKS:,} tasks")
        self._owners[job.id] = link
        return self._foreman.reactor.control.add_tasks(job.id, request.first, request.inputs, self._standing.now)

    def close_job(self, job: JobId) -> list[Effect]:
        self._owners.pop(job, None)
        return self._foreman.reactor.control.close(job, self._standing.now)

    def on_start(self, now: Monotonic) -> None:
        """Let clients of the last foreman come back for their open jobs."""
        for job in self._foreman.reactor.jobs:
            if job.is_open:
                self._owners[job.id] = None
        list(self.on_gone(None, now))

    def on_withdrawal(self, new: Withdrawal) -> None:
        """Undo what the store could not keep: uploads are as long as before, and jobs have no owner."""
        for key, known in list(self._uploads.items()):
            if known.number in new.uploads:
                self._uploads[key] = Upload(known.number, new.uploads[known.number] - 1)
        for job in new.jobs:
            self._owners.pop(job, None)
        self._submissions.move(new.earlier)
        self._submissions.drop(new.jobs)

    def on_gone(self, link: Link | None, now: Monotonic) -> Iterator[Effect]:
        """Drop the uploads of a client that is gone. Its open jobs wait for it for a while."""
        for key in [key for key in self._uploads if key[0] is link]:
            yield LinesDropped(self._uploads.pop(key).number)
        self._orphans += [(now + ORPHAN_GRACE, job, link) for job, owner in self._owners.items() if owner is link]

    def on_time(self, now: Monotonic) -> Iterator[Effect]:
        """Close the open jobs whose clients did not come back."""
        while self._orphans and self._orphans[0][0] <= now:
            _, job, owner = self._orphans.pop(0)
            if job in self._owners and self._owners[job] is owner:
                yield from self.close_job(job)

    def _refuse_in_trouble(self) -> None:
        if self._standing.trouble:
            raise self._standing.refuse("no new work is accepted")

    def _get_open(self, number: JobId) -> ActiveJob:
        job = self._foreman.reactor.jobs.find(number)
        if job is None or not job.is_open:
            raise Refusal("closed", f"job {number} takes no more tasks: it is closed, cancelled or has ended")
        return job

    def _find_upload(self, link: Link, request: ask.Submit) -> Upload:
        if not request.upload:
            return NO_UPLOAD
        found = self._uploads.get((link, request.upload))
        if found is None or request.lines:
            raise Refusal("bad_request", f"no lines came for upload {request.upload}, or some came twice")
        return found


def _check_spec(spec: JobSpec, lines: int) -> JobSpec:
    """The spec as it is kept. Each field was checked when it was decoded; this checks what must fit together."""
    # What only the foreman knows is not taken from a client: which tasks have a line, and how the clocks differ.
    has_lines = lines > 0 or spec.is_open
    followed = tuple(dict.fromkeys(spec.after_each))  # a source that is named twice is one
    spec = replace(spec, after_each=followed)
    spec = replace(spec, has_lines=has_lines, tasks=lines or spec.tasks, clock_ahead=0.0, boot="", boot_ahead=0.0)
    if spec.is_open and spec.tasks:
        raise Refusal("bad_request", "an open job begins without tasks")
    if spec.is_open and spec.after_each:
        raise Refusal("bad_request", "an open job cannot follow other jobs task by task")
    if not spec.is_open and not spec.tasks:
        raise Refusal("refused", "a job needs at least one task")
    kept = msgspec.json.encode(spec)
    if len(kept) > MAX_SPEC_BYTES * 4 // 3:  # pickles are in base64
        raise Refusal("refused", f"a job has at most {MAX_SPEC_BYTES:,} bytes of command, folder and environment")
    if msgspec.json.decode(kept, type=JobSpec) != spec:
        raise Refusal("bad_request", "the job could not be read again from the store")
    if spec.python is None:  # the command of a function is only for people to read
        try:
            check_command(spec.command, spec.has_lines)
        except ConfigError as error:
            raise Refusal("refused", str(error)) from None
    return spec
