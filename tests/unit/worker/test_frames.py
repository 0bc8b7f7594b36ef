"""What a worker and its slot processes say to each other."""

import pytest

from gandy.limits import MAX_NOTE_BYTES, MAX_PICKLE_BYTES
from gandy.worker import frames
from gandy.worker.frames import ANSWER, ASSIGNMENT, Answer, AnswerReader, FrameError, Setting


def encode(answer: Answer) -> bytes:
    peak = answer.peak_memory_bytes or 0
    head = frames.encode_answer(answer.kind, answer.flags, answer.note, answer.body, peak, answer.started, answer.ended)
    return head + answer.body


ANSWERS = [
    Answer(frames.READY, frames.MEASURES),
    Answer(frames.VALUE, 0, "", b"value"),
    Answer(frames.RAISED, frames.PRINTED, "ValueError: schlecht für uns", b"error" * 1000, 12345, 1.5, 2.5),
    Answer(frames.REFUSED, 0, "no"),
]


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_answers_are_read_however_they_come(size: int) -> None:
    data, reader = b"".join(map(encode, ANSWERS)) * 2, AnswerReader()
    for at in range(0, len(data), size):
        reader.receive_data(data[at : at + size])
    assert list(reader.answers) == ANSWERS * 2
    assert not reader.is_within


def test_answer_is_there_as_soon_as_its_last_byte() -> None:
    reader = AnswerReader()
    reader.receive_data(encode(ANSWERS[1])[:-1])
    assert not reader.answers
    assert reader.is_within
    reader.receive_data(encode(ANSWERS[1])[-1:] + encode(ANSWERS[2])[:3])
    assert list(reader.answers) == [ANSWERS[1]]
    assert not reader.is_within


@pytest.mark.parametrize(
    "data",
    [
        ANSWER.pack(9, 0, 0, 0, 0, 0, 0),
        ANSWER.pack(frames.VALUE, 0, MAX_NOTE_BYTES + 1, 0, 0, 0, 0),
        ANSWER.pack(frames.VALUE, 0, 0, MAX_PICKLE_BYTES + 1, 0, 0, 0),
        encode(ANSWERS[1]) + b"more than it was asked for" * 2,
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        AnswerReader().receive_data(data)


def test_note_has_a_limit_and_may_be_no_text() -> None:
    reader = AnswerReader()
    reader.receive_data(frames.encode_answer(frames.VALUE, 0, "x" * 100_000, b""))
    reader.receive_data(frames.encode_answer(frames.VALUE, 0, "\udcff", b""))
    long, strange = reader.answers
    assert len(long.note) == MAX_NOTE_BYTES
    assert strange.note == "\\udcff"


def test_head_of_an_assignment_is_read() -> None:
    setting = Setting(7, True, {"NAME": "value"}, "/tmp")
    data = frames.encode_assignment(12, 3, 1, frames.encode_setting(setting), b"shared", b"call")
    assert ASSIGNMENT.unpack_from(data) == (12, 3, 1, len(data) - ASSIGNMENT.size, 6, 4)
    assert frames.read_number(data) == 12
    assert frames.decode_setting(data[ASSIGNMENT.size :]) == setting
