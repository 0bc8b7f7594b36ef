"""The short way of plain calls is for those who may call."""

import asyncio

import pytest

from gandy.core.roles import CrewRole
from gandy.core.workers import Worker, WorkerInfo
from gandy.foreman.lane import Lane
from gandy.talk.exchange import Exchange
from gandy.talk.law import Role


@pytest.mark.parametrize(
    ("role", "may_call"),
    [
        (CrewRole.OWNER, True),
        (CrewRole.ANYBODY, True),
        (CrewRole.CLIENT, True),
        (CrewRole.WORKER, False),
        (CrewRole.OBSERVER, False),
    ],
)
def test_who_may_not_call_has_no_short_way_until_it_turns_out_to_be_a_worker(role: CrewRole, may_call: bool) -> None:
    async def test() -> None:
        lane, exchange = Lane({}), Exchange(Role.FOREMAN)
        lane.add_link("link", exchange, role)
        first = exchange.take_plain_calls
        assert (first is not None) == may_call
        lane.introduce("link", Worker(WorkerInfo("w", "w", 1), connected=True))
        assert exchange.take_plain_calls not in (None, first)
        lane.on_cut("link")
        lane.close()

    asyncio.run(test())


def test_data_of_a_link_that_knows_no_calls_takes_the_long_way() -> None:
    async def test() -> None:
        lane = Lane({})
        assert lane.take("somebody", b"data") == 0
        lane.close()

    asyncio.run(test())
