"""Questions to workers, beside their tasks."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.hostile.peers import Peer, a_foreman, run

from gandy.core.extensions import PIECE, READ
from gandy.core.steps import Question
from gandy.wire.messages import About, Extended

SECONDS = 600.0  # no test waits for that long


def test_a_question_is_sent_at_once_whatever_was_sent_since_its_worker_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The peer says nothing by itself, and is not greeted either: nothing else makes the foreman write.
    monkeypatch.setattr("gandy.foreman.server.GREETING_PAUSE", SECONDS)

    async def test() -> None:
        async with a_foreman(tmp_path) as program:
            server = program.server
            worker = await Peer.connect_worker(tmp_path, About("w-1", "w", 2))
            await worker.hear()
            questions = server.requests._questions
            link = server.foreman.links.find("w-1")
            assert link is not None
            server.requests._messenger.flush()  # as the answer to another client would do
            asking = asyncio.create_task(questions.ask([Question(link, READ, b"question")], SECONDS))
            message = await worker.hear()
            assert message == Extended(READ, b"question")
            worker.send(Extended(PIECE, b"answer"), 1)
            assert await asking == [b"answer"]
            worker.abort()

    run(test())


def test_a_worker_that_left_since_it_was_found_is_not_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as program:
            worker = await Peer.connect_worker(tmp_path, About("w-1", "w", 2))
            await worker.hear()
            link = program.server.foreman.links.find("w-1")
            assert link is not None
            worker.abort()
            while link.name in program.server.foreman.links.by_name:
                await asyncio.sleep(0)
            assert await program.server.requests._questions.ask([Question(link, READ, b"question")], SECONDS) == [None]

    run(test())
