"""The JSON API against a real crew: rows as commands print them, and changes only for those who may make them."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict
from openapi_spec_validator import validate
from tests.free_ports import find_port
from tests.integration.dashboard.dashboards import LOOPBACK, Caller, Reply, a_dashboard, a_dashboard_at, parse, sign_in
from tests.integration.local_crews import a_client, a_foreman, a_worker, run
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.client.connection import Connection
from gandy.client.submitter import Submitter
from gandy.config import Address
from gandy.core.model import JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.dashboard.api.jobs import JobAnswer, JobsAnswer, OneJobAnswer
from gandy.dashboard.api.table import ENDPOINTS
from gandy.dashboard.api.tasks import OneTaskAnswer, TasksAnswer
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.limits import MAX_ROWS
from gandy.dashboard.openapi import make_document
from gandy.dashboard.program import Dashboard, Options
from gandy.dashboard.rows import CrewObject
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.keys.crew import CrewKeys
from gandy.reach import Reach
from gandy.terminal.rows import job_to_json, task_to_json

NO_FOREMAN = "unix:/nonexistent/foreman.sock"


def read_as(reply: Reply, kind: Any) -> Any:
    """The body, which must have exactly the keys of the type that describes it."""
    assert reply.status in (200, 201), reply
    value = msgspec.json.decode(reply.body, type=kind)
    assert json.loads(msgspec.json.encode(value)) == reply.json
    return value


def test_session_says_who_asks(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            answer = (await browser.get("/api/session")).json
            assert answer == {
                "role": "owner",
                "can_change": True,
                "version": (await client.status()).version,
                "foreman": f"unix:{tmp_path}/foreman.sock",
                "can_see_history": True,
            }

    run(test())


def test_jobs_are_those_of_the_command_line(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            for number in range(5):
                await client.submit("true", name=f"job {number}", held=number % 2 == 0, env={"A": "secret"})
            rows = [job_to_json(row) async for row in client.jobs()]
            reply = await browser.get("/api/jobs")
            assert reply.json == {"jobs": json.loads(json.dumps(rows)), "next": None}
            read_as(reply, JobsAnswer)
            assert "secret" not in reply.body.decode()
            paused = (await browser.get("/api/jobs?state=paused&state=failed")).json["jobs"]
            assert [row["job"] for row in paused] == [5, 3, 1]

    run(test())


def test_pages_of_jobs_have_each_job_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            for _ in range(7):
                await client.submit("true", held=True)
            found, path = [], "/api/jobs?limit=3"
            while True:
                page = (await browser.get(path)).json
                found += [row["job"] for row in page["jobs"]]
                if page["next"] is None:
                    break
                path = f"/api/jobs?limit=3&before={page['next']}"
            assert found == [7, 6, 5, 4, 3, 2, 1]

    run(test())


def test_one_job_has_its_pace(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            job = await client.submit("true", tasks=3)
            answer = read_as(await browser.get("/api/jobs/1"), OneJobAnswer)
            assert (answer.rate, answer.left_seconds) == (0.0, None)
            row = (await browser.get("/api/jobs/1")).json
            assert {key: row[key] for key in job_to_json(await job.status())} == json.loads(
                json.dumps(job_to_json(await job.status()))
            )
            explained = (await browser.get("/api/jobs/1/explain")).json
            assert explained == {"lines": list(await job.explain())}

    run(test())


def test_tasks_have_their_attempts_and_output(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            job = await client.submit("echo out $GANDY_TASK; echo err >&2; test $GANDY_TASK != 2", tasks=3)
            await job.wait()
            rows = [task_to_json(1, row) async for row in job.tasks()]
            reply = await browser.get("/api/jobs/1/tasks")
            assert reply.json == {"tasks": json.loads(json.dumps(rows)), "next": None}
            read_as(reply, TasksAnswer)
            await job.retry()
            await job.wait()
            task = read_as(await browser.get("/api/jobs/1/tasks/2"), OneTaskAnswer)
            assert (task.state, task.attempt, [each.attempt for each in task.attempts]) == ("failed", 2, [1, 2])
            out = await browser.get("/api/jobs/1/tasks/2/output")
            assert (out.body, out.headers["content-type"]) == (b"out 2\n", "text/plain; charset=utf-8")
            assert (out.headers["x-gandy-attempt"], out.headers["x-gandy-last"]) == ("2", "true")
            part = await browser.get("/api/jobs/1/tasks/2/output?stream=err&offset=1&limit=2&attempt=2")
            assert (part.body, part.headers["x-gandy-last"]) == (b"rr", "false")
            failed = (await browser.get("/api/jobs/1/tasks?state=failed&limit=1")).json
            assert ([row["task"] for row in failed["tasks"]], failed["next"]) == ([2], None)
            first = (await browser.get("/api/jobs/1/tasks?limit=2")).json
            assert ([row["task"] for row in first["tasks"]], first["next"]) == ([1, 2], 2)

    run(test())


def test_states_are_a_byte_for_each_task(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            await client.submit("true", tasks=1_200_000, held=True)
            expected = bytes([TaskState.WAITING]) * 1_200_000
            for coding, unpack in (("deflate", zlib.decompress), ("gzip", gzip.decompress), ("br", bytes)):
                reply = await browser.get("/api/jobs/1/states", Accept_Encoding=coding)
                assert reply.headers["x-gandy-tasks"] == "1200000"
                assert reply.headers.get("content-encoding", "br") == coding
                assert unpack(reply.body) == expected
            await client.submit("true", tasks=100)
            small = await browser.get("/api/jobs/2/states", Accept_Encoding="gzip;q=0, deflate")
            assert (small.headers["content-encoding"], zlib.decompress(small.body)) == ("deflate", bytes(100))
            assert (await browser.get("/api/jobs/2/states", Accept_Encoding="gzip;q=0")).body == bytes(100)

    run(test())


def test_job_is_submitted_and_changed(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            wish = {"command": ["echo", "{line}"], "lines": ["a", "b"], "name": "two", "priority": 3, "tags": ["gpu"]}
            reply = await browser.post("/api/jobs", wish)
            assert (reply.status, reply.json) == (201, {"job": 1})
            spec = (await client.job(1).status()).spec
            assert (spec.command, spec.tasks, spec.name, spec.cwd) == (("echo", "{line}"), 2, "two", "")
            for verb, state in (
                ("hold", "paused"),
                ("release", "waiting"),
                ("cancel", "cancelled"),
                ("retry", "waiting"),
            ):
                changed = read_as(await browser.post(f"/api/jobs/1/{verb}"), JobAnswer)
                assert (changed.job, changed.state) == (1, state)
            some = await browser.post("/api/jobs/1/cancel", {"tasks": [2]})
            assert (some.json["waiting"], some.json["cancelled"]) == (1, 1)

    run(test())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs", {}),
        ("/api/jobs", {"command": ""}),
        ("/api/jobs", {"command": []}),
        ("/api/jobs", {"command": "true", "shell": "x"}),
        ("/api/jobs", {"command": "true", "tasks": 0}),
        ("/api/jobs", {"command": "true", "tasks": 2, "lines": ["a"]}),
        ("/api/jobs", {"command": "true", "lines": []}),
        ("/api/jobs", {"command": "echo {line}"}),
        ("/api/jobs", {"command": "true", "timeout": -1}),
        ("/api/jobs", {"command": "a\0b"}),
        ("/api/jobs", {"command": "true", "env": {"A": 1}}),
        ("/api/jobs", ["true"]),
        ("/api/jobs", "true"),
        ("/api/jobs/1/cancel", {"tasks": []}),
        ("/api/jobs/1/cancel", {"tasks": [0]}),
        ("/api/jobs/1/hold", {"tasks": [1]}),
        ("/api/workers/x/stop", {"immediate": "yes"}),
    ],
)
def test_body_that_is_not_valid_is_refused(tmp_path: Path, path: str, body: object) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            await client.submit("true", held=True)
            reply = await browser.post(path, body)
            assert (reply.status, reply.kind) == (400, "bad_request"), reply
            assert [row.state async for row in client.jobs()] == [JobState.PAUSED]

    run(test())


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b"nul", b'{"command": "\xc3"}'])
def test_body_that_is_not_json_is_refused(body: bytes) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            head = {"X-Gandy": "1", "Content-Type": "application/json"}
            reply = parse(await browser.talk(browser.make_request("POST", "/api/jobs", head, body)))
            assert (reply.status, reply.kind) == (400, "bad_request")

    run(test())


@pytest.mark.parametrize(
    "path",
    [
        f"/api/jobs?limit={MAX_ROWS + 1}",
        "/api/jobs?limit=0",
        "/api/jobs?limit=x",
        "/api/jobs?state=none",
        "/api/jobs?before=0",
        "/api/jobs?unknown=1",
        "/api/jobs?%ff=1",
        "/api/jobs?" + "state=failed&" * 200,
        "/api/jobs/1/tasks/1/output?stream=result",
        "/api/jobs/1/tasks/1/output?limit=1048577",
        "/api/jobs/1/tasks/1/output?offset=-1",
        "/api/session?x",
    ],
)
def test_query_that_is_not_valid_is_refused(path: str) -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            reply = await (await sign_in(dashboard)).get(path)
            assert (reply.status, reply.kind) == (400, "bad_request")

    run(test())


@pytest.mark.parametrize(
    "path",
    [
        "/api/jobs/0",
        "/api/jobs/-1",
        "/api/jobs/x",
        "/api/jobs/1.0",
        "/api/jobs/%31",
        "/api/jobs/9223372036854775808",
        "/api/jobs/99",
        "/api/jobs/99/tasks",
        "/api/jobs/99/explain",
        "/api/jobs/99/summary",
        "/api/jobs/1/tasks/9",
        "/api/jobs/1/tasks/100000001",
        "/api/jobs/1/tasks/9/output",
        "/api/jobs/1/nothing",
        "/api",
        "/api/",
    ],
)
def test_what_does_not_exist_is_not_found(tmp_path: Path, path: str) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            await client.submit("true", held=True)
            assert (await browser.get(path)).status == 404

    run(test())


def test_other_methods_are_refused_with_those_that_are_allowed() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            browser = await sign_in(dashboard)
            for method, path, allowed in (
                ("DELETE", "/api/jobs/1", "GET"),
                ("PUT", "/api/jobs", "GET, POST"),
                ("POST", "/api/session", "GET"),
                ("GET", "/api/jobs/1/cancel", "POST"),
                ("OPTIONS", "/api/crew", "GET"),
                ("POST", "/", "GET"),
            ):
                reply = await browser.get(path, method)
                assert (reply.status, reply.headers["allow"]) == (405, allowed)

    run(test())


def test_workers_foremen_and_status_are_those_of_the_command_line(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            await until_async(lambda: bool(list(browser.dashboard.crew.watcher.picture.list_workers())))
            (worker,) = (await browser.get("/api/workers")).json["workers"]
            (row,) = await client.workers()
            while row.load is None:  # the worker says it a moment after it has come
                (row,) = await client.workers()
            assert row.memory_total_bytes is not None
            assert 0 < (row.memory_bytes or 0) < row.memory_total_bytes
            assert list(worker) == list(asdict(row))
            assert (worker["name"], worker["slots"]) == ("hut", 2)
            (foreman,) = (await browser.get("/api/foremen")).json["foremen"]
            assert list(foreman) == list(asdict((await client.foremen())[0]))
            assert list((await browser.get("/api/status")).json) == list(asdict(await client.status()))
            stopped = await browser.post(f"/api/workers/{row.id}/stop", {"immediate": True})
            assert stopped.json == {"worker": row.id, "immediate": True}
            assert (await browser.post("/api/workers/none/stop")).status in (404, 409)

    run(test())


def test_crew_has_the_keys_that_are_described(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            await (await client.submit("test $GANDY_TASK != 3", tasks=5)).wait()
            while (crew := read_as(await browser.get("/api/crew"), CrewObject)).jobs[0].state != "failed":
                await asyncio.sleep(0.05)
            assert [(job.job, job.tasks, job.finished, job.failed) for job in crew.jobs] == [(1, 5, 4, 1)]
            assert crew.trouble[0].kind == "job"

    run(test())


# Keys


@asynccontextmanager
async def a_browser_with_key(home: Path, role: CrewRole) -> AsyncIterator[tuple[Caller, AsyncClient]]:
    """A browser of a dashboard that reaches a foreman over TLS, with a key for this role; and the foreman's owner."""
    port = find_port()
    program = ForemanProgram(str(home), "memory:", Policy(grace=0.2))
    await program.start(Doors(listen=(f"tcp://127.0.0.1:{port}",)))
    client = AsyncClient()
    client.connection = Connection(Reach((Address("tcp", "127.0.0.1", port),), CrewKeys.find(home / "keys" / role)))
    client.submitter = Submitter(client.connection)
    dashboard = Dashboard(Options(listen=LOOPBACK), ShownCrew(client))
    await dashboard.start()
    try:
        async with a_client(home) as owner:
            yield await sign_in(dashboard), owner
    finally:
        await dashboard.stop()
        await client.close()
        await program.stop()


def test_observer_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_browser_with_key(tmp_path, CrewRole.OBSERVER) as (browser, owner):
            await owner.submit("true", held=True)
            session = (await browser.get("/api/session")).json
            assert (session["role"], session["can_change"]) == ("observer", False)
            assert [row["job"] for row in (await browser.get("/api/jobs")).json["jobs"]] == [1]
            await until_async(lambda: bool(browser.dashboard.crew.watcher.picture.jobs))
            for endpoint in ENDPOINTS:
                if endpoint.changes:
                    path = endpoint.path.replace("{job}", "1").replace("{id}", "x")
                    reply = await browser.post(path, {"command": "true"} if path == "/api/jobs" else None)
                    assert (reply.status, reply.kind) == (403, "not_allowed")
            assert (await owner.job(1).status()).state is JobState.PAUSED

    run(test())


def test_foreman_refuses_observers_even_if_the_dashboard_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShownCrew, "can_change", True)

    async def test() -> None:
        async with a_browser_with_key(tmp_path, CrewRole.OBSERVER) as (browser, _owner):
            reply = await browser.post("/api/jobs", {"command": "true"})
            assert (reply.status, reply.kind) == (403, "not_allowed")

    run(test())


def test_client_changes_jobs(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_browser_with_key(tmp_path, CrewRole.CLIENT) as (browser, _owner):
            session = (await browser.get("/api/session")).json
            assert (session["role"], session["can_change"]) == ("client", True)
            assert (await browser.post("/api/jobs", {"command": "true"})).status == 201

    run(test())


def test_document_is_valid_and_describes_every_address() -> None:
    document = make_document(ENDPOINTS)
    validate(json.loads(msgspec.json.encode(document)))
    described = {(method.upper(), path) for path, about in document["paths"].items() for method in about}
    assert described >= {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.answer is not None}
    assert {endpoint.method for endpoint in ENDPOINTS} == {"GET", "POST"}  # the guard of changes knows no other
    assert len({endpoint.handler.__name__ for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_document_is_served() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            assert (await (await sign_in(dashboard)).get("/api/openapi.json")).json["openapi"] == "3.1.0"
            assert (await Caller(dashboard).get("/api/openapi.json")).status == 401

    run(test())
