"""The past in a browser: out of the samples that a real foreman has kept in its store."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from tests.integration.dashboard.dashboards import Reply, a_dashboard, a_dashboard_at, sign_in
from tests.integration.local_crews import a_client, a_foreman, a_foreman_program, a_worker, run

from gandy.clocks import read_wall
from gandy.core.samples import Level
from gandy.dashboard.api.history import HistoryAnswer
from gandy.dashboard.past import STOPPED
from gandy.dashboard.rows import CrewObject
from gandy.foreman import sample_writer

NO_FOREMAN = "unix:/nonexistent/foreman.sock"


def read_history(reply: Reply) -> HistoryAnswer:
    """The body, which must have exactly the keys that are described."""
    assert reply.status == 200, reply
    answer = msgspec.json.decode(reply.body, type=HistoryAnswer)
    assert json.loads(msgspec.json.encode(answer)) == reply.json
    return answer


def read_crew(reply: Reply) -> CrewObject:
    assert reply.status == 200, reply
    crew = msgspec.json.decode(reply.body, type=CrewObject)
    assert json.loads(msgspec.json.encode(crew)) == reply.json
    return crew


def test_foreman_that_starts_again_shows_what_was_before(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/jobs.sqlite"

    async def test() -> None:
        began = float(read_wall())
        async with a_foreman(tmp_path, store) as client, a_worker(tmp_path):
            await client.submit("true", name="kept", tasks=4, held=True)
            await (await client.submit("true", tasks=3)).wait()
        stopped = float(read_wall())
        async with a_foreman(tmp_path, store), a_dashboard(tmp_path) as browser:
            answer = read_history(await browser.get(f"/api/history?from={began - 60}&to={stopped + 60}"))
            assert (answer.begin, answer.end, answer.period) == (began - 60, stopped + 60, 10.0)
            assert sum(point.finished for point in answer.points) > 0
            assert {point.waiting for point in answer.points} >= {4}
            crew = read_crew(await browser.get(f"/api/history/at?at={stopped}"))
            assert (crew.problem, crew.unfinished, crew.waiting, crew.workers) == (STOPPED, 1, 4, ())
            assert [(job.name, job.state, job.held, job.waiting) for job in crew.jobs] == [("kept", "paused", True, 4)]
            assert began <= crew.at <= stopped
            assert crew.points[-1].at == crew.at

    run(test())


def test_samples_show_workers_while_the_crew_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_writer, "PERIODS", {Level.SAMPLE: 0.05})

    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            await client.submit("sleep 60", tasks=3)
            while (reply := await browser.get(f"/api/history/at?at={float(read_wall())}")).status == 404 or (
                read_crew(reply).running < 2
            ):
                await asyncio.sleep(0.05)
            crew = read_crew(reply)
            assert [(worker.name, worker.state, worker.used) for worker in crew.workers] == [("hut", "ready", 2)]
            assert (crew.slots, crew.used, crew.unfinished) == (2, 2, 1)
            await client.job(1).cancel()

    run(test())


def test_time_of_which_no_history_is_kept_is_not_found(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(tmp_path), a_client(tmp_path), a_dashboard(tmp_path) as browser:
            reply = await browser.get("/api/history/at?at=1")
            assert (reply.status, reply.kind) == (404, "not_found")
            assert read_history(await browser.get("/api/history?from=1&to=2")).points == ()
            assert read_history(await browser.get("/api/history?from=2&to=1")).points == ()

    run(test())


@pytest.mark.parametrize(
    "path",
    [
        "/api/history",
        "/api/history?from=1",
        "/api/history?from=x&to=2",
        "/api/history?from=nan&to=2",
        "/api/history?from=1&to=inf",
        "/api/history/at",
        "/api/history/at?at=-1",
        "/api/history/at?at=1&from=1",
    ],
)
def test_time_that_is_not_valid_is_refused(path: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reply = await (await sign_in(dashboard)).get(path)
            assert (reply.status, reply.kind) == (400, "bad_request")

    run(test())
