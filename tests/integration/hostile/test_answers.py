"""Hostile values in every field of every answer: a client says what is wrong, and works with the next foreman."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.integration.hostile.peers import PATIENCE, Peer, run
from tests.integration.hostile.values import list_hostile

from gandy import AsyncClient
from gandy.bounds import BROKEN
from gandy.client.connection import check
from gandy.client.conversation import OFFERS
from gandy.core import requests as ask
from gandy.core.reports import read_ending
from gandy.core.requests import EVENT, REPLY
from gandy.errors import GandyError, RemoteProtocolError
from gandy.store.sqlite_read import _decode_ending
from gandy.wire import payloads
from gandy.wire.messages import Extended, Ok, TaskResult

STEP = 7  # every so many values go over a socket; all of them are decoded


def test_an_answer_makes_sense_or_is_the_foremans_error() -> None:
    refused = 0
    for payload in list_hostile(ask.Answer):
        try:
            answer = ask.decode_answer(payload)
        except RemoteProtocolError:
            refused += 1
        else:
            assert ask.decode_answer(ask.encode(answer)) == answer
    assert refused > 5_000


def test_every_ending_that_a_worker_tells_can_be_read_again() -> None:
    """As the store keeps it."""
    taken = 0
    for payload in list_hostile(TaskResult):
        try:
            result = payloads.decode_result(payload)
        except BROKEN:
            continue
        ending = read_ending(result)
        assert _decode_ending(ask.encode(ending)) == ending
        taken += 1
    assert taken > 100


async def serve(peer: Peer, values: Iterator[bytes]) -> None:
    """Say HELLO, then answer each request with the next value, and with it as an event too."""
    peer.send(Ok(0, 0, OFFERS))
    try:
        while (heard := await peer.hear_or_cut()) is not None:
            # What the client asks for itself, such as where other foremen are, gets no answer.
            if isinstance(heard[1], Extended) and heard[1].payload == ask.encode(ask.GetTime()):
                value = next(values)
                peer.send(Extended(REPLY, value), heard[0])
                peer.send(Extended(EVENT, value), heard[0])
    finally:
        peer.abort()


async def ask_once(client: AsyncClient) -> ask.Time:
    """Over the link itself: a connection would send the request again, and each answer is for one request."""
    link = await client.connection.get_link()
    return check(await link.ask(ask.GetTime()), ask.Time)


def test_a_client_outlives_hostile_answers(tmp_path: Path) -> None:
    values = list(list_hostile(ask.Answer, heavy=False))[::STEP]
    good = ask.encode(ask.Time(5.0))

    async def test() -> None:
        left = iter([*values, good])
        serving: set[asyncio.Task[None]] = set()

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.add(asyncio.ensure_future(serve(Peer(reader, writer), left)))

        async with (
            await asyncio.start_unix_server(take, tmp_path / "s"),
            AsyncClient(f"unix:{tmp_path / 's'}") as client,
        ):
            for _ in values:
                with suppress(GandyError):
                    async with asyncio.timeout(PATIENCE):
                        await ask_once(client)
            assert (await ask_once(client)).shared == 5.0
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    run(test())
