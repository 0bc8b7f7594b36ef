"""A real worker with a link to each shard of its crew: whose tasks it runs, and where their results go."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.integration.local_crews import run
from tests.integration.worker.hand_foremen import SLOTS, HandCrew, a_task, pairs, two_shards
from tests.waiting import until_async

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result
from gandy.core.shards import Directory
from gandy.errors import ErrorCode, NotAllowed
from gandy.ids import JobId, TaskNumber
from gandy.journal import Journal, read_left
from gandy.wire import payloads, v2
from gandy.wire.messages import Error
from gandy.worker.commands import Commands


def test_a_worker_learns_of_all_shards_from_one_foreman(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            for each in (one, two):
                about = each.hello.about
                assert about is not UNSET
                assert (about.id, about.slots, each.hello.free) == ("hut-1", SLOTS, SLOTS)
            one.give(a_task(1, 1, "true"))
            two.give(a_task(2, 1, "true"))
            await until_async(lambda: bool(one.reports and two.reports))
            assert (one.ended, two.ended) == ([(1, 1)], [(2, 1)])
            for each in (one, two):
                report = each.reports[0].report
                assert report is not UNSET
                assert report.shard == each.shard
            three = await crew.add(3)
            crew.tell_all((one, 1), (two, 1), (three, 1))
            await until_async(lambda: bool(three.hellos))

    run(test())


def test_tasks_of_all_shards_share_the_slots(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            one.give(*(a_task(1, number, crew.wait_line("one")) for number in (1, 2)))
            await until_async(lambda: crew.count_began("one") == 2)
            two.give(*(a_task(2, number, crew.wait_line("two")) for number in (1, 2)))
            await until_async(lambda: bool(two.capacities))
            assert two.capacities[-1].slots == 0  # so its foreman may have them back, for another worker
            await until_async(lambda: len(one.begun) == 2)
            assert (crew.count_began("two"), two.begun) == (0, [])
            crew.gate.touch()
            await until_async(lambda: len(one.reports) == len(two.reports) == 2)
            assert sorted(one.ended + two.ended) == [(1, 1), (1, 2), (2, 1), (2, 2)]
            await until_async(lambda: two.capacities[-1].slots == SLOTS)  # soon, as no task waits for that

    run(test())


def test_the_shard_of_highest_rank_gets_the_next_slot(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            one.want(9, job=1)
            one.give(a_task(1, 1, crew.wait_line("one")), a_task(1, 2, "sleep 0.2"))
            one.give(*(a_task(1, number, crew.wait_line("one")) for number in (3, 4)))
            await until_async(lambda: crew.count_began("one") == 1)
            two.want(1, job=2, priority=1)
            await until_async(lambda: (1, 2) in one.ended)
            await until_async(lambda: bool(two.capacities) and two.capacities[-1].slots == 1)
            await asyncio.sleep(0.05)
            assert crew.count_began("one") == 1  # the slot is kept for the other shard
            two.give(a_task(2, 1, crew.wait_line("two")))
            await until_async(lambda: crew.count_began("two") == 1)
            two.want(0, job=2, priority=1)
            crew.gate.touch()
            await until_async(lambda: len(one.reports) == 4)

    run(test())


def test_tasks_that_wait_on_the_worker_go_by_rank(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            order = tmp_path / "order"
            one.give(*(a_task(1, number, crew.wait_line("one")) for number in range(1, SLOTS + 1)))
            await until_async(lambda: crew.count_began("one") == SLOTS)
            two.give(a_task(2, 1, f"echo low >> {order}; sleep 0.1", slots=SLOTS))
            one.give(a_task(3, 1, f"echo high >> {order}; sleep 0.1", slots=SLOTS, priority=1))
            await until_async(lambda: len(one.accepted) == SLOTS + 1 and len(two.accepted) == 1)
            crew.gate.touch()
            await until_async(lambda: bool(two.reports))
            assert order.read_text().split() == ["high", "low"]

    run(test())


def test_slots_are_gathered_for_a_large_task_of_another_shard(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            one.want(9, job=2)
            one.give(*(a_task(2, number, "sleep 0.1") for number in range(1, 9)))
            await until_async(lambda: len(one.reports) >= 1)
            two.want(SLOTS, job=1)
            await until_async(lambda: bool(two.capacities) and two.capacities[-1].slots == SLOTS)
            two.give(a_task(1, 1, crew.wait_line("two"), slots=SLOTS))
            await until_async(lambda: crew.count_began("two") == 1)
            before = len(one.reports)
            assert before < 8
            two.want(0)
            crew.gate.touch()
            await until_async(lambda: len(one.reports) == 8)

    run(test())


def test_a_foreman_that_wants_slots_and_dies_keeps_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            two.want(9, job=1)
            one.want(9, job=2)
            await until_async(lambda: bool(one.capacities) and one.capacities[-1].slots == 0)
            one.give(a_task(2, 1, "true"))
            await asyncio.sleep(0.05)
            assert one.ended == []
            two.die()
            await until_async(lambda: one.ended == [(2, 1)])
            del crew

    run(test())


def test_an_active_shard_costs_no_message_for_each_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (_, one, two):
            for first in range(1, 101, 20):
                one.give(*(a_task(1, number, "true") for number in range(first, first + 20)))
                await until_async(lambda count=first + 19: len(one.reports) == count)  # type: ignore[misc]
            assert one.capacities == []
            assert len(two.capacities) < 10

    run(test())


def test_a_shard_whose_foreman_died_goes_on_where_it_was_taken_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            tasks = [a_task(1, 1, crew.wait_line("one")), a_task(1, 2, "true")]
            one.is_recording = False
            one.give(*tasks)
            two.give(a_task(2, 1, crew.wait_line("two")))
            await until_async(lambda: one.ended == [(1, 2)] and crew.count_began("two") == 1)
            one.die()
            heir = await crew.add(1, "p2")
            two.tell(crew.describe(2, (heir, 2), (two, 1)))
            heir.directory = crew.describe(1, (heir, 2), (two, 1))
            await until_async(lambda: bool(heir.hellos))
            assert heir.held == pairs(tasks)
            await until_async(lambda: heir.ended == [(1, 2)])  # what the dead foreman did not acknowledge
            assert crew.count_began("one") == 1
            crew.gate.touch()
            await until_async(lambda: len(heir.reports) == 2 and len(two.reports) == 1)
            await asyncio.sleep(0.1)
            assert (heir.ended, two.ended) == ([(1, 2), (1, 1)], [(2, 1)])
            assert len(two.hellos) == 1  # its link was not touched

    run(test())


def test_a_worker_leaves_a_foreman_that_was_replaced_and_hears_it_no_more(tmp_path: Path) -> None:
    """It may have slept, and not know that its shard was taken over."""

    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            one.give(a_task(1, 1, crew.wait_line("one")))
            await until_async(lambda: crew.count_began("one") == 1)
            heir = await crew.add(1, "p2")
            heir.directory = crew.describe(1, (heir, 2), (two, 1))
            two.tell(crew.describe(2, (heir, 2), (two, 1)))
            await until_async(lambda: bool(heir.hellos) and one.link is None)
            two.tell(crew.describe(2, (one, 1), (two, 1)))  # a foreman that is behind
            heir.give(a_task(1, 2, "true"))
            await until_async(lambda: heir.ended == [(1, 2)])
            assert (len(heir.hellos), len(one.hellos)) == (1, 1)
            crew.gate.touch()
            await until_async(lambda: (1, 1) in heir.ended)

    run(test())


def test_a_retired_shard_is_left_once_nothing_is_held_for_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            two.give(a_task(2, 1, crew.wait_line("two")))
            await until_async(lambda: crew.count_began("two") == 1)
            two.is_recording = False
            link = two.link
            assert link is not None
            one.tell(crew.describe(1, (one, 1)))
            two.tell(crew.describe(2, (one, 1)))
            await asyncio.sleep(0.1)
            assert two.link is link  # it names its own shard
            two.die()
            crew.gate.touch()
            again = await crew.add(2, "p3")
            again.directory = crew.describe(2, (one, 1))
            one.tell(crew.describe(1, (one, 1), (again, 2)))
            await until_async(lambda: again.ended == [(2, 1)])
            one.tell(crew.describe(1, (one, 1)))
            again.die()
            one.give(a_task(1, 1, "true"))
            await until_async(lambda: one.ended == [(1, 1)])

    run(test())


def test_what_is_held_for_a_shard_that_was_retired_long_ago_keeps_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.core.routes.RETIREMENT", 0.5)

    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            two.is_recording = False
            two.give(a_task(2, 1, "true"), a_task(2, 2, crew.wait_line("two")))
            await until_async(lambda: two.ended == [(2, 1)] and crew.count_began("two") == 1)
            two.die()
            one.tell(crew.describe(1, (one, 1)))
            one.stop()
            await until_async(lambda: one.link is None)

    run(test())
    assert read_left(tmp_path / "out").results == ()


def test_a_worker_that_lost_all_links_asks_any_foreman_where_the_shards_are(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            one.give(a_task(1, 1, crew.wait_line("one")))
            await until_async(lambda: crew.count_began("one") == 1)
            one.die()
            two.die()
            # At the place that the worker was given, another foreman has started, whose own shard is new.
            new = await crew.add(3, "p1")
            heir = await crew.add(1, "p9")
            crew.tell_all((new, 1), (heir, 2))
            (tmp_path / "p1" / "foreman.sock").unlink()
            (tmp_path / "p1" / "foreman.sock").symlink_to(new.path)
            await until_async(lambda: bool(heir.hellos))
            assert heir.held == {a_task(1, 1, "").pair}
            await until_async(lambda: len(new.hellos) == 2)  # the first said nothing of the worker
            assert new.hellos[0].about is UNSET
            crew.gate.touch()
            await until_async(lambda: heir.ended == [(1, 1)])

    run(test())


def test_results_that_a_dead_worker_left_go_to_their_shards(tmp_path: Path) -> None:
    ended = Ending(cause=Cause.EXIT, exit_code=0)
    left = [make_result(AttemptKey(JobId(job), TaskNumber(1), 1), ended, shard=job) for job in (1, 2, 3)]
    folder = tmp_path / "out"
    folder.mkdir(mode=0o700)
    Journal(folder, ["hut-0"], [payloads.encode(result) for result in left]).close()

    async def test() -> None:
        async with two_shards(tmp_path) as (_, one, two):
            await until_async(lambda: bool(one.reports and two.reports))
            assert (one.ended, two.ended) == ([(1, 1)], [(2, 1)])
            for each in (one, two):
                about = each.hello.about
                assert about is not UNSET
                assert about.former == ("hut-0",)
                assert each.held == {each.reports[0].pair}
            assert [hello.about for hello in one.hellos[:1]] == [UNSET]  # it asked first, and said nothing

    run(test())
    assert 3 in [result.job_id for result in read_left(folder).results]  # its shard is not here


def test_a_worker_with_results_of_shards_waits_until_its_foreman_knows_where_they_are(tmp_path: Path) -> None:
    ended = Ending(cause=Cause.EXIT, exit_code=0)
    left = [make_result(AttemptKey(JobId(1), TaskNumber(1), 1), ended, shard=1)]
    folder = tmp_path / "out"
    folder.mkdir(mode=0o700)
    Journal(folder, ["hut-0"], [payloads.encode(result) for result in left]).close()

    async def test() -> None:
        crew = HandCrew(tmp_path)
        one = await crew.add(1)
        one.tell(Directory(1))
        try:
            async with crew.worker():
                await until_async(lambda: bool(one.hellos))
                crew.tell_all((one, 1))
                await until_async(lambda: one.ended == [(1, 1)])
        finally:
            await crew.close()

    run(test())


def test_results_of_shards_go_to_a_single_foreman_if_there_is_no_other(tmp_path: Path) -> None:
    ended = make_result(AttemptKey(JobId(1), TaskNumber(1), 1), Ending(cause=Cause.EXIT, exit_code=0), shard=5)
    folder = tmp_path / "out"
    folder.mkdir(mode=0o700)
    Journal(folder, ["hut-0"], [payloads.encode(ended)]).close()

    async def test() -> None:
        crew = HandCrew(tmp_path)
        one = await crew.add(1)
        async with crew.worker():
            await until_async(lambda: one.ended == [(1, 1)])
            about = one.hello.about
            assert about is not UNSET
            assert about.former == ("hut-0",)
        await crew.close()

    run(test())


def test_a_foreman_dismisses_the_worker_from_the_whole_crew(tmp_path: Path) -> None:
    async def test() -> None:
        crew = HandCrew(tmp_path)
        one, two = await crew.add(1), await crew.add(2)
        crew.tell_all((one, 1), (two, 1))
        async with crew.worker() as worker:
            await until_async(lambda: bool(one.hellos and two.hellos))
            one.give(a_task(1, 1, crew.wait_line("one")))
            two.give(*(a_task(2, number, crew.wait_line("two")) for number in (1, 2)))
            await until_async(lambda: crew.count_began("one") == 1 and crew.count_began("two") == 1)
            one.stop()
            await until_async(lambda: two.ended == [(2, 2)])
            assert two.causes == [Cause.RETURNED]
            await until_async(lambda: two.capacities[-1].slots == 0)
            crew.gate.touch()
            await asyncio.wait_for(worker._done.wait(), 10)
            assert (one.ended, two.ended) == ([(1, 1)], [(2, 2), (2, 1)])
        await crew.close()

    run(test())


def test_a_worker_that_is_stopped_at_once_says_so_to_all_foremen(tmp_path: Path) -> None:
    async def test() -> None:
        crew = HandCrew(tmp_path)
        one, two = await crew.add(1), await crew.add(2)
        crew.tell_all((one, 1), (two, 1))
        async with crew.worker() as worker:
            await until_async(lambda: bool(one.hellos and two.hellos))
            two.give(*(a_task(2, number, crew.wait_line("two")) for number in (1, 2, 3)))
            await until_async(lambda: crew.count_began("two") == 2)
            one.stop(immediate=True)
            await asyncio.wait_for(worker._done.wait(), 10)
            assert sorted(two.ended) == [(2, 1), (2, 2), (2, 3)]
            assert sorted(two.causes) == [Cause.WORKER_STOPPED, Cause.WORKER_STOPPED, Cause.RETURNED]
        await crew.close()

    run(test())


def test_commands_are_announced_to_all_foremen_and_calls_of_any_run(tmp_path: Path) -> None:
    commands = Commands()
    commands.add(lambda: "well", "hail")

    async def test() -> None:
        async with two_shards(tmp_path, commands=commands) as (_, one, two):
            await until_async(lambda: bool(one.announced and two.announced))
            for each in (one, two):
                each.call("hail")
            await until_async(lambda: bool(one.answers and two.answers))
            assert one.answers == two.answers
            commands.add(lambda: "again", "more")
            await until_async(lambda: len(one.announced) == 2 and len(two.announced) == 2)
            assert {offer.name for offer in two.announced[-1].offers} >= {"hail", "more"}

    run(test())


def test_tasks_of_all_shards_leave_room_for_calls(tmp_path: Path) -> None:
    commands = Commands()
    let_go = asyncio.Event()

    @commands.command
    async def hold() -> None:
        await let_go.wait()

    async def test() -> None:
        async with two_shards(tmp_path, commands=commands) as (crew, one, two):
            for number in range(SLOTS):
                two.call("hold", number + 1)
            await until_async(lambda: bool(two.announced))
            two.call("ping", 9)
            await until_async(lambda: len(two.answers) == 1)
            one.give(a_task(1, 1, crew.wait_line("one")))
            await asyncio.sleep(0.1)
            assert crew.count_began("one") == 0
            let_go.set()
            await until_async(lambda: crew.count_began("one") == 1)
            crew.gate.touch()
            await until_async(lambda: one.ended == [(1, 1)])

    run(test())


def test_without_shards_there_is_one_conversation(tmp_path: Path) -> None:
    async def test() -> None:
        crew = HandCrew(tmp_path)
        one = await crew.add(1)
        async with crew.worker() as worker:
            await until_async(lambda: bool(one.hellos))
            one.give(a_task(1, 1, "true"))
            await until_async(lambda: one.ended == [(1, 1)])
            report = one.reports[0].report
            assert report is not UNSET
            assert report.shard == 0
            assert [each.shard for each in worker.conversations.all] == [0]
        await crew.close()

    run(test())


def test_a_task_that_ended_when_its_worker_died_is_reported_to_its_shard(tmp_path: Path) -> None:
    """Its ending is in no journal yet, but in the table of process groups."""
    pid = os.fork()
    if pid == 0:
        asyncio.run(_work_until_killed(tmp_path))
        os._exit(1)
    os.waitpid(pid, 0)

    async def test() -> None:
        async with two_shards(tmp_path / "again", life=2) as (_, one, two):
            await until_async(lambda: bool(two.reports))
            assert (one.ended, two.ended) == ([], [(2, 1)])

    (tmp_path / "again").mkdir()
    (tmp_path / "out").rename(tmp_path / "again" / "out")
    run(test())


async def _work_until_killed(folder: Path) -> None:
    async with two_shards(folder) as (_, _one, two):
        two.give(a_task(2, 1, "true"))
        two.is_recording = False
        await until_async(lambda: bool(two.reports), period=0)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_with_results_of_shards_waits_for_a_foreman_that_knows_them(tmp_path: Path) -> None:
    ended = make_result(AttemptKey(JobId(2), TaskNumber(1), 1), Ending(cause=Cause.EXIT, exit_code=0), shard=2)
    folder = tmp_path / "out"
    folder.mkdir(mode=0o700)
    Journal(folder, ["hut-0"], [payloads.encode(ended)]).close()

    async def test() -> None:
        crew = HandCrew(tmp_path)
        gone = await crew.add(1)
        gone.die()
        async with crew.worker(gone):
            await asyncio.sleep(0.1)
            one, two = await crew.add(1), await crew.add(2)
            crew.tell_all((one, 1), (two, 1))
            await until_async(lambda: two.ended == [(2, 1)])
            assert one.ended == []
        await crew.close()

    run(test())


def test_a_worker_stays_with_no_foreman_that_has_another_shard(tmp_path: Path) -> None:
    """It says what it holds of one shard. A foreman of another one would take the rest for lost."""

    async def test() -> None:
        async with two_shards(tmp_path) as (crew, one, two):
            two.give(a_task(2, 1, crew.wait_line("two")))
            await until_async(lambda: crew.count_began("two") == 1)
            two.tell(crew.describe(1, (one, 1), (two, 1)))
            await until_async(lambda: two.link is None)
            two.directory = crew.describe(2, (one, 1), (two, 1))
            await until_async(lambda: len(two.hellos) >= 2 and two.link is not None)
            crew.gate.touch()
            await until_async(lambda: two.ended == [(2, 1)])

    run(test())


def test_places_that_are_none_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        crew = HandCrew(tmp_path)
        one, two = await crew.add(1), await crew.add(2)
        crew.tell_all((one, 1), (two, 1))
        assert one.directory is not None
        first, second = one.directory.shards
        odd = replace(second, places=("tcp://", "tcp://127.0.0.1:1", *second.places))  # there is no key for the other
        one.directory = replace(one.directory, shards=(first, odd))
        async with crew.worker():
            await until_async(lambda: bool(two.hellos))
        await crew.close()

    run(test())
    assert "a foreman names a place that is none" in caplog.text


def test_a_worker_whose_key_is_refused_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with two_shards(tmp_path) as (crew, _one, two):
            assert two.link is not None
            (worker,) = crew.workers
            two.link.write(v2.encode(1, Error(ErrorCode.WRONG_ROLE)))
            await asyncio.wait_for(worker._done.wait(), 10)

    with pytest.raises(NotAllowed):
        run(test())
