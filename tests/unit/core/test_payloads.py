"""Requests, answers and the messages of extensions go over the wire and come back; nonsense is the peer's error."""

import pytest

from gandy.core import extensions, requests
from gandy.core.model import AttemptKey, JobSpec
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId, TaskNumber


def test_requests_come_back_as_they_went() -> None:
    request = requests.Submit(JobSpec(command=("a", "b"), tags=("gpu",)), ("one", "two"))
    assert requests.decode_request(requests.encode(request)) == request


def test_answers_come_back_as_they_went() -> None:
    answer = requests.RequestFailure("not_found", "there is no job 7")
    assert requests.decode_answer(requests.encode(answer)) == answer


def test_output_comes_back_as_it_went() -> None:
    read = extensions.Read(JobId(1), TaskNumber(2), 3, "out", 4, 5)
    assert extensions.decode_read(extensions.encode(read)) == read
    piece = extensions.Piece(b"\xff\x00", True)
    assert extensions.decode_piece(extensions.encode(extensions.make_problem("x" * 99_999))).problem
    assert extensions.decode_piece(extensions.encode(piece)) == piece
    many = extensions.ReadMany(JobId(1), "err", ((TaskNumber(2), 3),), 4, 5)
    assert extensions.decode_read_many(extensions.encode(many)) == many
    pieces = extensions.Pieces((piece,))
    assert extensions.decode_pieces(extensions.encode(pieces)) == pieces
    fetch = extensions.Fetch("0f" * 16, 5, 6)
    assert extensions.decode_fetch(extensions.encode(fetch)) == fetch
    retraction = extensions.Retraction((AttemptKey(JobId(1), TaskNumber(2), 3),))
    assert extensions.decode_retraction(extensions.encode(retraction)) == retraction
    begun = extensions.Begun((AttemptKey(JobId(1), TaskNumber(2), 3),))
    assert extensions.decode_begun(extensions.encode(begun)) == begun


@pytest.mark.parametrize(
    "decode",
    [
        requests.decode_request,
        requests.decode_answer,
        extensions.decode_read,
        extensions.decode_piece,
        extensions.decode_read_many,
        extensions.decode_pieces,
        extensions.decode_fetch,
        extensions.decode_retraction,
        extensions.decode_begun,
    ],
)
def test_nonsense_is_the_peers_error(decode: object) -> None:
    assert callable(decode)
    for payload in (b"", b"\xc1", b"\x81\xa4type\xa3foo", b"\x91" * 100_000, b"\xa2\xff\xff"):
        with pytest.raises(RemoteProtocolError):
            decode(payload)


def test_a_reference_stands_for_arguments() -> None:
    assert extensions.read_reference(extensions.make_reference("0f" * 16)) == "0f" * 16
    assert extensions.read_reference(b"\x80\x05K\x01.") is None
