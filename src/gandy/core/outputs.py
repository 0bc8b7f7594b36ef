"""Reads what tasks wrote, from the workers that keep it: piece by piece of one task, or of many tasks at once."""

from collections.abc import Sequence
from typing import Final

from gandy.core import requests as ask
from gandy.core.extensions import READ, READ_MANY, Piece, Read, ReadMany, decode_piece, decode_pieces, encode
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.model import FINAL_STATES, GIVEN_STATES, MISSING, Cause
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow, TaskRow
from gandy.core.steps import Ask, Look, Question, Steps
from gandy.core.workers import worker_name
from gandy.errors import RemoteProtocolError
from gandy.ids import TaskNumber
from gandy.limits import MAX_OUTPUT_PIECE_BYTES, MAX_OUTPUTS, MAX_OUTPUTS_BYTES, MAX_PAGE_WORKERS, MAX_TEXT
from gandy.wire.messages import Extension

PIECE_TIMEOUT: Final = 10.0  # seconds that a worker has to send output

PiecesByTask = dict[TaskNumber, Piece | Refusal]

UNCOUNTED: Final = (Cause.WORKER_LOST, Cause.CANCELLED)  # the foreman records these, and knows no number of bytes


class Outputs:
    """Asks the workers that keep output. Raises: Refusal."""

    def __init__(self, foreman: Foreman) -> None:
        self._foreman = foreman

    def read(self, request: ask.ReadOutput, job: JobRow) -> Steps[ask.Output]:
        """A piece of what one task wrote."""
        number, wanted = request.job, request.task
        (task,) = yield Look(lambda store: store.list_tasks(number, None, 1, TaskNumber(wanted - 1)))
        attempt = request.attempt or task.attempt
        attempts = []
        if attempt:
            attempts = yield Look(lambda store: store.list_attempts(number, wanted, attempt - 1))
        if not attempts or attempts[0].attempt != attempt:
            return ask.Output(b"", 0, is_last=task.state in FINAL_STATES)
        row: TaskRow = attempts[0]
        link = self._find_keeper(row.worker)
        if link is None or Extension.OUTPUT not in link.agreed:
            return _read_without_worker(request, row, is_here=link is not None)
        size = min(request.limit, MAX_OUTPUT_PIECE_BYTES)
        read = Read(number, wanted, attempt, request.stream, request.offset, size, job.spec.identity)
        (answer,) = yield Ask((Question(link, READ, encode(read)),), PIECE_TIMEOUT)
        if answer is None:
            raise _refuse_for_silence(row.worker)
        try:
            piece = decode_piece(answer)
        except RemoteProtocolError as error:
            raise Refusal("gone", f"worker {row.worker} sends no output: {error}") from None
        return _open_piece(request, job, row, piece)

    def read_many(self, request: ask.ReadOutputs, job: JobRow) -> Steps[ask.OutputPage]:
        """What the next tasks wrote, as far as it fits an answer."""
        rows = yield Look(lambda store: store.list_tasks(request.job, None, MAX_OUTPUTS, request.after))
        page = _Page(request, job)
        for row in rows:
            link = self._find_keeper(row.worker) if page.has_output(row) else None
            if not page.add(row, link):
                break
        keepers = list(page.keepers.values())
        questions = tuple(_ask_for_many(link, request, job, mine, page.limit) for link, mine in keepers)
        for (_, mine), answer in zip(keepers, (yield Ask(questions, PIECE_TIMEOUT)), strict=True):
            page.answers |= _open_many(mine, answer)
        outputs, after = page.open()
        return ask.OutputPage(outputs, after, is_last=not rows or after >= job.spec.tasks)

    def _find_keeper(self, worker: str) -> Link | None:
        """The worker that has the output of an attempt: the same, or one that was started again in its place."""
        link = self._foreman.links.find(worker)
        if link is not None:
            return link
        same = (w for w in self._foreman.reactor.workers if w.connected and w.info.name == worker_name(worker))
        return next((self._foreman.links.find(w.info.id) for w in same), None)


class _Page:
    """Tasks in the order of their numbers, and the workers that keep what they wrote."""

    def __init__(self, request: ask.ReadOutputs, job: JobRow) -> None:
        self._request = request
        self._job = job
        self._rows: list[tuple[TaskRow, Link | None]] = []
        self.keepers: dict[str, tuple[Link, list[TaskRow]]] = {}  # by link: what each is asked for
        self.answers: PiecesByTask = {}

    @property
    def limit(self) -> int:
        """Bytes that each of the workers may send."""
        return MAX_OUTPUTS_BYTES // max(1, len(self.keepers))

    def has_output(self, row: TaskRow) -> bool:
        """True if the task may have written something, as far as is known without its worker."""
        if not row.attempt:
            return False
        ending = row.ending
        if ending is None or ending.cause in UNCOUNTED or not self._job.spec.identity:
            return True
        return (ending.err_bytes if self._request.stream == "err" else ending.out_bytes) != 0

    def add(self, row: TaskRow, link: Link | None) -> bool:
        """Add a task whose output this worker keeps. False if there is no room."""
        if link is not None and Extension.OUTPUT in link.agreed:
            if link.name not in self.keepers and len(self.keepers) == MAX_PAGE_WORKERS:
                return False
            self.keepers.setdefault(link.name, (link, []))[1].append(row)
        self._rows.append((row, link))
        return True

    def open(self) -> tuple[tuple[ask.TaskOutput, ...], TaskNumber]:
        """What was read, up to the first task for which a worker had no room, and the last task before that."""
        outputs: list[ask.TaskOutput] = []
        after = self._request.after
        for row, link in self._rows:
            if self.has_output(row):
                is_asked = link is not None and Extension.OUTPUT in link.agreed
                if is_asked and row.task not in self.answers:
                    break
                outputs.append(self._open_one(row, link))
            after = row.task
        return tuple(outputs), after

    def _open_one(self, row: TaskRow, link: Link | None) -> ask.TaskOutput:
        request = ask.ReadOutput(self._request.job, row.task, self._request.stream)
        answer = self.answers.get(row.task)
        try:
            if isinstance(answer, Refusal):
                raise answer
            if answer is None:
                output = _read_without_worker(request, row, is_here=link is not None)
            else:
                output = _open_piece(request, self._job, row, answer)
        except Refusal as refusal:
            return ask.TaskOutput(row.task, row.attempt, problem=str(refusal)[:MAX_TEXT])
        return ask.TaskOutput(row.task, row.attempt, output.data, is_whole=output.is_last)


def _ask_for_many(link: Link, request: ask.ReadOutputs, job: JobRow, rows: Sequence[TaskRow], limit: int) -> Question:
    """The question for the output of these tasks, as many as fit the limit."""
    attempts = tuple((row.task, row.attempt) for row in rows)
    read = ReadMany(request.job, request.stream, attempts, limit, job.spec.identity)
    return Question(link, READ_MANY, encode(read))


def _open_many(rows: Sequence[TaskRow], answer: bytes | None) -> PiecesByTask:
    try:
        pieces = () if answer is None else decode_pieces(answer).pieces
    except RemoteProtocolError:
        pieces = ()
    if not pieces:  # a worker must send one at least
        return {row.task: _refuse_for_silence(row.worker) for row in rows}
    return {row.task: piece for row, piece in zip(rows, pieces, strict=False)}


def _refuse_for_silence(worker: str) -> Refusal:
    return Refusal("gone", f"worker {worker} does not send its output", retryable=True)


def _open_piece(request: ask.ReadOutput, job: JobRow, row: TaskRow, piece: Piece) -> ask.Output:
    """What a worker sent, if it is what the task wrote. Raises: Refusal."""
    if piece.problem:
        raise Refusal("gone", f"worker {row.worker} cannot read what task {request.task} wrote: {piece.problem}")
    is_last = piece.is_last and row.state not in GIVEN_STATES
    if is_last and job.spec.identity and request.stream != "result":
        is_last = _check_whole(request, row, piece)
    return ask.Output(piece.data, row.attempt, is_last)


def _read_without_worker(request: ask.ReadOutput, row: TaskRow, is_here: bool) -> ask.Output:
    """What is known if the worker is away, or does not send output: a short standard error.

    Raises: Refusal.
    """
    if row.state in GIVEN_STATES and not is_here:
        return ask.Output(b"", row.attempt, is_last=False)  # it may come back
    name, what = worker_name(row.worker), f"what task {request.task} wrote"
    if is_here:
        raise Refusal("gone", f"{what} is on worker {name}, which cannot send it")
    ending = row.ending
    if request.stream == "err" and ending is not None and 0 < len(ending.tail) == ending.err_bytes:
        data = ending.tail[request.offset : request.offset + request.limit]
        return ask.Output(data, row.attempt, is_last=True)
    raise Refusal("gone", f"{what} is on worker {name}, which is not connected", retryable=True)


def _check_whole(request: ask.ReadOutput, row: TaskRow, piece: Piece) -> bool:
    """True if a last piece ends what its task wrote. If not, the next read gets no data, and is refused.

    Raises: Refusal.
    """
    ending = row.ending
    if ending is None:
        return True
    what = f"what task {request.task} wrote"
    if ending.cause is Cause.WORKER_LOST and piece.is_absent:
        raise Refusal("gone", f"{what} was lost with its worker")
    size = ending.err_bytes if request.stream == "err" else ending.out_bytes
    if size == MISSING:
        raise Refusal("gone", f"task {request.task}: {ending.note}")
    if piece.is_absent and size:
        name = worker_name(row.worker)
        raise Refusal(
            "gone", f"{what} is no longer kept: its worker {name} removed it to make room, or lost its folder"
        )
    end = request.offset + len(piece.data)
    if end < size and not piece.data:
        raise Refusal("gone", f"{what} is cut short: only {end} of {size} bytes are kept")
    return end >= size
