"""Tokens, and the one question of joining."""

from base64 import urlsafe_b64encode
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.errors import ConfigError, ErrorCode, RemoteProtocolError
from gandy.limits import MAX_JOIN_BYTES, MAX_KEY_NAME, MAX_TOKEN
from gandy.wire.joining import (
    PREFIX,
    Join,
    Joined,
    JoinReader,
    JoinRefused,
    Token,
    bind,
    decode_answer,
    decode_join,
    encode_join,
    format_token,
    parse_token,
)

TOKEN = Token("4f1c93a0", b"sixteen of bytes", bytes(range(32)), ("tcp://10.0.0.7:5429", "tcp://hut:5429"), "worker")
QUESTION = Join("4f1c93a0", b"proof", b"public", "hut")


def test_a_token_comes_back_as_it_went() -> None:
    assert parse_token(format_token(TOKEN)) == TOKEN
    assert parse_token(f"  {format_token(TOKEN)}\n") == TOKEN
    assert format_token(TOKEN).startswith(PREFIX)


PRINTABLE = st.characters(categories=("L", "N", "P", "S"))


@given(
    st.text(PRINTABLE, max_size=20),
    st.binary(max_size=20),
    st.binary(max_size=40),
    st.lists(st.text(max_size=20), max_size=4),
)
def test_any_token_comes_back(invitation: str, secret: bytes, fingerprint: bytes, addresses: list[str]) -> None:
    token = Token(invitation, secret, fingerprint, tuple(addresses), "worker")
    assert parse_token(format_token(token)) == token


def test_a_token_does_not_show_its_secret() -> None:
    assert repr(TOKEN) == str(TOKEN) == "Token(4f1c93a0)"


def refuse(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_token(text)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_every_damaged_token_is_refused_and_never_repeated() -> None:
    good = format_token(TOKEN)
    for at in range(len(PREFIX), len(good)):
        for damaged in (good[:at], good[:at] + good[at + 1 :], good[:at] + ("A" if good[at] != "A" else "B")):
            assert refuse(damaged) == "the token is damaged: copy all of it, from 'gandy1-' to the end of the line"


def test_one_changed_letter_is_found() -> None:
    good = format_token(TOKEN)
    for at in range(len(PREFIX), len(good) - 1):  # some bits of the last letter mean nothing
        changed = good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :]
        assert "damaged" in refuse(changed)


@pytest.mark.parametrize("text", ["", "gandy", "gandy2-AAAA", "token", PREFIX + "A" * MAX_TOKEN])
def test_what_is_no_token_is_told(text: str) -> None:
    assert refuse(text) == "this is not a token: a token begins with gandy1- and comes from 'gandy invite'"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x90", b"\x95\x01\x02\x03\x04\x05"])
def test_a_token_with_other_things_in_it_is_damaged(data: bytes) -> None:
    text = PREFIX + urlsafe_b64encode(crc32(data).to_bytes(4, "big") + data).decode()
    assert "damaged" in refuse(text)
    assert "damaged" in refuse(PREFIX + "ä")


def test_a_question_and_both_answers_come_back() -> None:
    foreman = Joined(b"certificate", "hut", "foreman", "band", b"key", b"secret of the identity")
    for answer in (Joined(b"certificate", "hut", "worker", "band", b"key"), foreman, JoinRefused("no")):
        data = JoinReader().receive(encode_join(answer))
        assert data is not None
        assert decode_answer(data) == answer
    data = JoinReader().receive(encode_join(QUESTION))
    assert data is not None
    assert decode_join(data) == QUESTION


def test_a_question_may_come_byte_by_byte() -> None:
    reader, data = JoinReader(), encode_join(QUESTION)
    heard = [reader.receive(data[at : at + 1]) for at in range(len(data))]
    assert heard[:-1] == [None] * (len(data) - 1)
    assert heard[-1] == data[4:]


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", (MAX_JOIN_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\1ab", bytes(9)]
)
def test_too_much_is_refused_before_it_is_there(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        JoinReader().receive(data)
    assert caught.value.code is ErrorCode.TOO_LONG


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x91" * 4000, b"\x81\xaainvitation\xa1\xff"])
def test_what_makes_no_sense_is_refused(data: bytes) -> None:
    for decode in (decode_join, decode_answer):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(data)
        assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_a_proof_is_about_both_ends() -> None:
    assert bind(bytes(32), b"public") == bytes(32) + b"public"


def test_an_answer_does_not_show_its_secrets() -> None:
    assert repr(Joined(b"c", "hut", "foreman", "band", b"key", b"secret")) == "Joined(hut, foreman)"


def test_the_largest_answer_to_a_foreman_fits() -> None:
    """A certificate is about 500 bytes and grows with the name; a secret in PEM is below 300 bytes."""
    answer = Joined(bytes(1_200), "x" * MAX_KEY_NAME, "foreman", "x" * 64, bytes(32), bytes(300))
    assert len(encode_join(answer)) < MAX_JOIN_BYTES
