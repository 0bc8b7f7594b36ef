"""Answers the foreman's requests for output of tasks. An invalid request never cuts the link: calls and tasks go on."""

import logging

from gandy.core.extensions import Piece, Pieces, decode_read, decode_read_many, make_problem
from gandy.core.model import AttemptKey
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_OUTPUT_PIECE_BYTES, MAX_OUTPUTS_BYTES
from gandy.worker.output import Stream
from gandy.worker.runner import Runner

log = logging.getLogger("gandy.worker")


class OutputService:
    """One per worker."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def read_piece(self, payload: bytes) -> Piece:
        try:
            read = decode_read(payload)
        except RemoteProtocolError as error:
            return make_problem(str(error))
        attempt = AttemptKey(read.job, read.task, read.attempt)
        return self._read(attempt, read.stream, read.offset, min(read.limit, MAX_OUTPUT_PIECE_BYTES), read.identity)

    def read_pieces(self, payload: bytes) -> Pieces:
        """Read the beginnings of the first outputs, as many as fit; none if the request is invalid."""
        try:
            read = decode_read_many(payload)
        except RemoteProtocolError as error:
            log.warning("the foreman's request is not valid: %s", error)
            return Pieces(())
        pieces: list[Piece] = []
        left = min(read.limit, MAX_OUTPUTS_BYTES)
        for task, attempt in read.attempts:
            if left <= 0:
                break
            pieces.append(self._read(AttemptKey(read.job, task, attempt), read.stream, 0, left, read.identity))
            left -= len(pieces[-1].data)
        return Pieces(tuple(pieces))

    def _read(self, attempt: AttemptKey, stream: str, offset: int, limit: int, identity: int) -> Piece:
        which: Stream = stream if stream in ("err", "result") else "out"  # type: ignore[assignment]
        try:
            data, is_last, is_absent = self._runner.read(attempt, which, offset, limit, identity)
            return Piece(data, is_last, is_absent=is_absent)
        except OSError as error:
            return make_problem(str(error))
        except Exception as error:
            log.exception("output cannot be read: this is a bug in gandy")
            return make_problem(f"the worker has a bug: {type(error).__name__}")
