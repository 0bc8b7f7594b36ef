"""Streams of events: everything first, then what changes; shared by all browsers, and harmless if one does not read."""

import asyncio
import base64
import socket
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.integration.dashboard.dashboards import Caller, Event, Events, a_dashboard
from tests.integration.local_crews import a_foreman, a_foreman_program, a_worker, run
from tests.processes import read_memory
from tests.waiting import until_async

from gandy.clocks import read_wall
from gandy.core.model import Counts, JobState, TaskState
from gandy.core.views import JobGlance
from gandy.dashboard.limits import MAX_UNSENT_BYTES
from gandy.ids import JobId
from gandy.moments import Wall


async def read_until(events: Events, name: str) -> Event:
    async for event in events:
        if event.name == name:
            return event
    raise AssertionError(f"the stream ended without {name}")


class Copy:
    """The crew as a browser keeps it: the first object, with all changes applied."""

    LISTS = (("jobs", "job"), ("workers", "id"), ("commands", "name"))

    def __init__(self) -> None:
        self.crew: dict[str, Any] = {}

    def apply(self, event: Event) -> None:
        if event.name == "crew":
            self.crew = event.data
            for name, key in self.LISTS:
                self.crew[name] = {row[key]: row for row in event.data[name]}
            return
        for name, key in self.LISTS:
            self.crew[name] |= {row[key]: row for row in event.data.pop(name)}
        for name, gone in (("jobs", "forgotten"), ("workers", "left"), ("commands", "gone_commands")):
            for key in event.data.pop(gone):
                self.crew[name].pop(key, None)
        self.crew["points"] += event.data.pop("points")
        for name in ("spans", "calls"):
            self.crew[name] += event.data.pop(name)
        self.crew |= event.data


def test_changes_add_up_to_the_whole(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            copy = Copy()
            async with browser.events("/api/crew/events") as events:
                async with a_worker(tmp_path):
                    await (await client.submit("true", tasks=30, name="many")).wait()
                    held = await client.submit("true", held=True)
                    await client.job(1).forget()
                    numbers = []
                    async for event in events:
                        copy.apply(event)
                        numbers.append(event.number or 0)
                        is_done = list(copy.crew["jobs"]) == [held.id] and copy.crew["totals"]["finished"] == 30
                        if is_done and copy.crew["workers"] and copy.crew["points"]:
                            break
                assert numbers == sorted(set(numbers))
                whole = (await browser.get("/api/crew")).json
                assert [row["name"] for row in copy.crew["workers"].values()] == ["hut"]
                assert {key: value for key, value in copy.crew["jobs"][held.id].items() if key != "rate"} == {
                    key: value for key, value in whole["jobs"][0].items() if key != "rate"
                }
                assert whole["jobs"][0]["state"] == "paused"
                assert copy.crew.keys() == whole.keys()

    run(test())


def test_foreman_that_is_away_is_a_problem_until_it_is_back(tmp_path: Path) -> None:
    async def test() -> None:
        store = f"sqlite:{tmp_path}/jobs.sqlite"
        async with AsyncExitStack() as stack:
            async with a_foreman_program(tmp_path, store):
                browser = await stack.enter_async_context(a_dashboard(tmp_path))
                events = await stack.enter_async_context(browser.events("/api/crew/events"))
                async for event in events:
                    if event.data["problem"] == "":
                        break
            async for event in events:
                if event.data["problem"]:
                    break
            assert "foreman" in event.data["problem"]
            assert (await browser.get("/")).status == 200
            assert (await browser.get("/api/crew")).json["problem"]
            async with a_foreman_program(tmp_path, store):
                async for event in events:
                    if not event.data["problem"]:
                        break

    run(test())


def test_dashboard_starts_without_a_foreman_and_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_dashboard(tmp_path) as browser:
            await until_async(lambda: bool(browser.dashboard.crew.watcher.problem))
            assert "no foreman is running" in (await browser.get("/api/crew")).json["problem"]
            refused = await browser.get("/api/jobs")
            assert (refused.status, refused.kind) == (503, "away")
            async with a_foreman(tmp_path):
                await until_async(lambda: not browser.dashboard.crew.watcher.problem)
                assert (await browser.get("/api/jobs")).json == {"jobs": [], "next": None}

    run(test())


# A browser that does not read


def fill_picture(browser: Caller, count: int = 1_000) -> None:
    """Change so many jobs that an event about them is large."""
    for number in range(1, count + 1):
        glance = JobGlance(JobId(number), "x" * 80, JobState.RUNNING, False, Wall(1.0), Counts(waiting=7))
        browser.dashboard.crew.watcher.picture.note_job(glance, float(read_wall()))
    browser.dashboard.crew.watcher.picture.rates.jobs.clear()  # they would keep each number for some seconds
    browser.dashboard.crew.feed.on_change()


def test_browser_that_stops_reading_misses_changes_and_gets_everything_anew(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            feed = browser.dashboard.crew.feed
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                peer.setblocking(False)
                await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", browser.port))
                peer.send(browser.make_request("GET", "/api/crew/events", {}))
                await until_async(lambda: feed.count_browsers() == (1, 0))
                while feed.count_browsers() != (0, 1):  # it lags
                    fill_picture(browser)
                    await asyncio.sleep(0.01)
                before = read_memory("self", "VmRSS")
                for _ in range(100):
                    fill_picture(browser)
                    await asyncio.sleep(0.01)
                assert read_memory("self", "VmRSS") < before + 30 * MAX_UNSENT_BYTES
                reader, writer = await asyncio.open_connection(sock=peer, limit=1 << 24)
                events = Events((await browser.get("/api/session")), reader, writer)
                await reader.readuntil(b"\r\n\r\n")
                names: list[str] = []
                while names[1:].count("crew") == 0:  # nothing is added while it reads what was sent before
                    event = await anext(events)
                    names.append(event.name)
                assert names[0] == "crew"
                assert set(names[1:-1]) <= {"change"}
                assert len(event.data["jobs"]) == 1_000
                writer.close()

    run(test())


def test_browsers_share_one_event(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser, AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(browser.events("/api/crew/events")) for _ in range(20)]
            for events in streams:
                assert (await anext(events)).name == "crew"
            fill_picture(browser, 1)
            found = [await read_until(events, "change") for events in streams]
            assert len({event.number for event in found}) <= 2
            await until_async(lambda: browser.dashboard.crew.feed.count_browsers() == (20, 0))
        await until_async(lambda: browser.dashboard.crew.feed.count_browsers() == (0, 0))

    run(test())


# States of tasks


def unpack(event: Event) -> list[int]:
    return list(zlib.decompress(base64.b64decode(event.data["packed"])))


def test_states_of_tasks_come_whole_and_then_as_runs(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            job = await client.submit("test $GANDY_TASK -ne 7", tasks=20)
            async with browser.events(f"/api/jobs/{job.id}/states/events") as events:
                first = await anext(events)
                assert (first.name, unpack(first)) == ("states", [TaskState.WAITING] * 20)
                states = unpack(first)
                async with a_worker(tmp_path):
                    async for event in events:
                        if event.name == "states":
                            states = unpack(event)
                        for begin, end, state in event.data.get("runs", ()):
                            states[begin - 1 : end] = [state] * (end - begin + 1)
                        if event.name == "end":
                            break
                assert states == [TaskState.FINISHED] * 6 + [TaskState.FAILED] + [TaskState.FINISHED] * 13
                assert event.data == {"problem": ""}

    run(test())


def test_job_is_watched_once_and_only_while_a_browser_looks(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            await client.submit("true", held=True, tasks=5)
            feeds = browser.dashboard.crew.states
            async with AsyncExitStack() as stack:
                for _ in range(5):
                    events = await stack.enter_async_context(browser.events("/api/jobs/1/states/events"))
                    assert unpack(await anext(events)) == [TaskState.WAITING] * 5
                assert len(feeds) == 1
            await until_async(lambda: len(feeds) == 0)
            await client.job(1).cancel()
            async with browser.events("/api/jobs/1/states/events") as events:
                assert unpack(await anext(events)) == [TaskState.CANCELLED] * 5
                assert (await anext(events)).name == "end"

    run(test())


def test_states_of_no_job_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_dashboard(tmp_path) as browser:
            assert (await browser.get("/api/jobs/9/states/events")).status == 404
            assert (await browser.get("/api/jobs/9/states")).status == 404
            assert (await browser.get("/api/jobs/9/tasks/1/output/events")).status == 404

    run(test())


# Output


def test_output_is_followed_until_the_task_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            gate = tmp_path / "gate"
            job = await client.submit(f"echo first é; while ! test -e {gate}; do sleep 0.02; done; echo second")
            await until_running(browser, job.id)
            async with browser.events(f"/api/jobs/{job.id}/tasks/1/output/events") as events:
                assert (await anext(events)).data == "first é\n"
                gate.touch()
                rest = [event async for event in events]
            assert [(event.name, event.data) for event in rest] == [("output", "second\n"), ("end", {"problem": ""})]

    run(test())


async def until_running(browser: Caller, job: int) -> None:
    while (await browser.get(f"/api/jobs/{job}")).json["running"] != 1:
        await asyncio.sleep(0.02)
