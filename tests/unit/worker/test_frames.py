"""What a worker and its slot processes say to each other."""

import pytest

from gandy.worker import frames
from gandy.worker.frames import ANSWER, ASSIGNMENT, Answer, AnswerReader, FrameError, Head


def encode(answer: Answer) -> bytes:
    peak = answer.peak_memory_bytes or 0
    return frames.encode_answer(answer.kind, answer.flags, answer.note, answer.body, peak) + answer.body


ANSWERS = [
    Answer(frames.READY, frames.MEASURES),
    Answer(frames.VALUE, 0, "", b"value"),
    Answer(frames.RAISED, frames.PRINTED, "ValueError: schlecht für uns", b"error" * 1000, 12345),
    Answer(frames.REFUSED, 0, "no"),
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_answer_is_read_however_it_comes(answer: Answer, size: int) -> None:
    data, reader = encode(answer), AnswerReader()
    for _ in range(2):
        *early, last = [reader.maybe_answer(data[at : at + size]) for at in range(0, len(data), size)]
        assert set(early) <= {None}
        assert last == answer
        assert not reader.is_within


def test_reader_knows_when_a_body_has_begun() -> None:
    reader = AnswerReader()
    assert reader.maybe_answer(encode(ANSWERS[1])[:-1]) is None
    assert reader.is_within


@pytest.mark.parametrize(
    "data",
    [
        ANSWER.pack(9, 0, 0, 0, 0),
        ANSWER.pack(frames.VALUE, 0, frames.MAX_NOTE_BYTES + 1, 0, 0),
        ANSWER.pack(frames.VALUE, 0, 0, frames.MAX_BODY_BYTES + 1, 0),
        encode(ANSWERS[1]) + b"more",
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        AnswerReader().maybe_answer(data)


def test_note_has_a_limit_and_may_be_no_text() -> None:
    reader = AnswerReader()
    answer = reader.maybe_answer(frames.encode_answer(frames.VALUE, 0, "x" * 100_000, b""))
    assert answer is not None
    assert len(answer.note) == frames.MAX_NOTE_BYTES
    answer = reader.maybe_answer(frames.encode_answer(frames.VALUE, 0, "\udcff", b""))
    assert answer is not None
    assert answer.note == "\\udcff"


def test_head_of_an_assignment_is_read() -> None:
    head = Head(7, True, {"NAME": "value"}, "/tmp", ("a.out", "a.err"))
    data = frames.encode_assignment(head, b"shared", b"call")
    size, shared, call = ASSIGNMENT.unpack_from(data)
    assert (size, shared, call) == (len(data) - ASSIGNMENT.size, 6, 4)
    assert frames.decode_head(data[ASSIGNMENT.size :]) == head
