"""Hostile values in every field of every message that a worker sends. At most its own link is cut."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.integration.hostile.bystanders import undisturbed
from tests.integration.hostile.peers import COUNT, PATIENCE, SHORT_STEP, Peer, run
from tests.integration.hostile.values import list_hostile

from gandy.core.extensions import (
    BEGUN,
    CAPACITY,
    FETCH,
    PIECE,
    PING,
    PONG,
    RETRACTED,
    WORKER_OFFERS,
    Begun,
    Capacity,
    Fetch,
    Piece,
    Retraction,
)
from gandy.core.roles import CrewRole
from gandy.wire import calls, v2
from gandy.wire.messages import About, Extended, Ok, TaskResult
from gandy.wire.payloads import HelloData
from gandy.wire.stream import MAGIC

OFFER = v2.OFFER << 16 | int(WORKER_OFFERS)

# What a worker says: the type of the frame, what its payload should be, its number, and its padding.
MESSAGES: dict[str, tuple[int, Any, int, int]] = {
    "HELLO": (v2.Type.HELLO, HelloData, 2, OFFER),
    "UPDATE": (v2.Type.UPDATE, TaskResult, 2, 0),
    "RESULTS": (v2.RESULTS, tuple[TaskResult, ...], 1, 0),
    "PIECE": (PIECE, Piece, 1, 0),
    "RETRACTED": (RETRACTED, Retraction, 1, 0),
    "CAPACITY": (CAPACITY, Capacity, 1, 0),
    "BEGUN": (BEGUN, Begun, 1, 0),
    "FETCH": (FETCH, Fetch, 1, 0),
    "ANNOUNCE": (calls.ANNOUNCE, calls.Announcement, 1, 0),
}


def list_frames(name: str) -> Iterator[bytes]:
    kind, payload_type, seq, padding = MESSAGES[name]
    step = 1 if COUNT else SHORT_STEP
    for payload in islice(list_hostile(payload_type, heavy=False), 0, None, step):
        yield v2.HEADER.pack(MAGIC, kind, 0, seq, padding, len(payload)) + payload


async def say(peer: Peer, frame: bytes) -> bool:
    """Whether the link is still good for the next one."""
    peer.send_bytes(frame)
    peer.send(Extended(PING, b""), 7)
    async with asyncio.timeout(PATIENCE):
        while (heard := await peer.hear_or_cut()) is not None:
            if isinstance(heard[1], Extended) and heard[1].type == PONG:
                return frame[2] not in (v2.Type.HELLO, v2.Type.UPDATE)  # their numbers are used up
    return False


@pytest.mark.parametrize("name", MESSAGES)
def test_a_hostile_worker_cuts_no_link_but_its_own(tmp_path: Path, name: str) -> None:
    async def test() -> None:
        async with undisturbed(tmp_path) as bystanders:
            peer = None
            for number, frame in enumerate(list_frames(name)):
                if peer is None:
                    peer = await Peer.connect_worker(tmp_path, About("evil-1", "evil", 0), CrewRole.WORKER)
                    assert isinstance(await peer.hear(), Ok)
                if not await say(peer, frame):
                    await peer.close()
                    peer = None
                if number % 100 == 0:
                    await bystanders.ask()
            if peer is not None:
                await peer.close()

    run(test())
