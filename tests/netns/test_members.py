"""What the engine of a member owes to its program: real sockets, on one host or two."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from statistics import median
from typing import Any

import pytest
from tests.netns.members import APP, Member, join
from tests.netns.namespaces import Hosts, Namespace
from tests.netns.programs import IS_QUIET, SOON

from gandy.bus import AsyncEnsemble
from gandy.bus.core.effects import ClockFound, ServiceFound
from gandy.errors import LinkError

QUIET = pytest.mark.skipif(not IS_QUIET, reason="it tells how long something takes: for a quiet machine, in make soak")


def test_messages_sent_before_the_end_arrive(hosts: Hosts) -> None:
    with join(hosts.first) as first:
        first.offer("first")
        with join(hosts.second) as second:
            second.expect_news(ServiceFound("first", first.process))
            second.send("/first/much", bytes(8_000_000))
            second.send("/first/last", 1)
        assert first.expect_message().message.values == (bytes(8_000_000),)
        assert first.expect_message().message.address == "/first/last"


@pytest.mark.parametrize("options", [{}, {"insecure": False, "key": "6b" * 32}], ids=["plain", "private"])
def test_messages_sent_before_the_end_arrive_though_much_is_unread(hosts: Hosts, options: dict[str, Any]) -> None:
    with join(hosts.first, **options) as first:
        first.offer("first")
        with join(hosts.second, **options) as second:
            second.service("second").add(lambda _: time.sleep(0.2))  # meanwhile it reads nothing
            second.expect_news(ServiceFound("first", first.process))
            first.expect_news(ServiceFound("second", second.process))
            for _ in range(100):
                first.send("/second/much", bytes(10_000))
            second.send("/first/much", bytes(1_000_000))
            second.send("/first/last", 1)
        assert first.expect_message().message.address == "/first/much"
        assert first.expect_message().message.address == "/first/last"


def lead(host: Namespace) -> Member:
    """It knows the time at once: it leads."""
    with host.inside():
        member = Member(clock="lead")
    member.expect_news(ClockFound(member.process))
    return member


@QUIET
def test_a_timer_that_a_handler_sets_comes_in_time(host: Namespace) -> None:
    late: Queue[float] = Queue()
    with lead(host) as member:

        @member.service("timers").on("/set")
        def set_timer() -> None:
            at = member.now() + 0.02
            member.call_at(at, lambda: late.put(member.now() - at))

        assert median(ask(member, "/timers/set", late) for _ in range(5)) < 0.1  # not at the next discovery message


@QUIET
def test_news_of_what_a_handler_does_come_at_once(host: Namespace) -> None:
    late: Queue[float] = Queue()
    with join(host) as member:

        @member.service("services").on("/add")
        def add_service() -> None:
            before = time.monotonic()
            member.on_news(lambda news: late.put(time.monotonic() - before))
            member.service(f"another{before}").offer()

        assert ask(member, "/services/add", late) < 0.25  # and not at the next discovery message


def test_a_handler_that_keeps_itself_busy_does_not_stop_the_others(host: Namespace) -> None:
    with join(host) as member, join(host) as other:
        other.offer("other")

        @member.service("busy").on("/again")
        def again() -> None:
            member.send("/busy/again")

        member.send("/busy/again")
        member.expect_news(ServiceFound("other", other.process))


def test_a_waiting_thread_hears_of_the_end(host: Namespace) -> None:
    with ThreadPoolExecutor(1) as threads, join(host) as member:
        waiting = threads.submit(member.wait_for, "nothing")
        member.close()
        with pytest.raises(LinkError):
            waiting.result(SOON)


def test_a_waiting_task_hears_of_the_end(host: Namespace) -> None:
    async def leave() -> None:
        async with AsyncEnsemble(APP) as member:
            waiting = asyncio.create_task(member.wait_for("nothing"))
            await asyncio.sleep(0)
            await asyncio.to_thread(member.close)
            with pytest.raises(LinkError):
                await asyncio.wait_for(waiting, SOON)

    with host.inside():
        asyncio.run(leave())


def ask(member: Member, address: str, answers: "Queue[float]") -> float:
    member.send(address)
    return answers.get(timeout=SOON)
