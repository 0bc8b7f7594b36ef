"""Hostile values in every field of every request, from every role. The long version: GANDY_HOSTILE=1000000 values."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from tests.integration.hostile.bystanders import RUNNING_JOB, Bystanders, undisturbed
from tests.integration.hostile.peers import COUNT, Peer, run
from tests.integration.hostile.values import list_hostile

from gandy.core import requests as ask
from gandy.core.roles import CrewRole
from gandy.errors import RemoteProtocolError

BATCH = 200  # requests that are sent together
ROLES = (CrewRole.OWNER, CrewRole.CLIENT, CrewRole.OBSERVER, CrewRole.ANYBODY)


def list_damaged(seed: int) -> Iterator[bytes]:
    """Endless: hostile values with a few bytes changed, lost or doubled."""
    random = Random(seed)
    values = list(list_hostile(ask.Request, heavy=False))
    while True:
        data = bytearray(random.choice(values))
        for _ in range(random.randint(1, 3)):
            place = random.randrange(len(data) + 1)
            data[place : place + random.randint(0, 2)] = random.randbytes(random.randint(0, 2))
        if not ends_bystanders(bytes(data)):
            yield bytes(data)


def ends_bystanders(data: bytes) -> bool:
    """Whether it is a good request, by accident, that stops the bystanders' worker or ends their job."""
    try:
        request = ask.decode_request(data)
    except RemoteProtocolError:
        return False
    if isinstance(request, ask.CancelJob | ask.RetractTasks):
        return request.job == RUNNING_JOB
    return isinstance(request, ask.StopForeman | ask.StopWorker)


async def attack(bystanders: Bystanders, home: Path, role: CrewRole, values: Iterator[bytes]) -> int:
    """Every request is answered once, and even the sender's own link stays."""
    peer = await Peer.connect_client(home, role)
    sent = 0
    while batch := list(islice(values, BATCH)):
        asking = asyncio.ensure_future(bystanders.ask())
        answers = await peer.ask_all(batch)
        assert not [each for each in answers if isinstance(each, ask.RequestFailure) and each.kind == "internal"]
        await asking
        sent += len(batch)
    await peer.close()
    return sent


def test_every_hostile_request_is_answered_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with undisturbed(tmp_path) as bystanders:
            sent = 0
            for role in ROLES:
                sent += await attack(
                    bystanders, tmp_path, role, list_hostile(ask.Request, heavy=role is CrewRole.CLIENT)
                )
            assert sent > 10_000
            for number, role in enumerate(ROLES * (COUNT > 0)):
                sent += await attack(bystanders, tmp_path, role, islice(list_damaged(number), COUNT // len(ROLES)))

    run(test(), 60 + COUNT / 100)
