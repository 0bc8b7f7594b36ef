"""Numbers for Prometheus: its own parser reads them, there are few, and a dashboard for Grafana uses no others."""

import asyncio
import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.integration.dashboard.dashboards import Caller, a_dashboard, a_dashboard_at
from tests.integration.local_crews import a_foreman, a_worker, run

ROOT = Path(__file__).parents[3]
GRAFANA = ROOT / "docs" / "reference" / "grafana.json"
NAME = re.compile(r"gandy_[a-z0-9_]+")
MOST = 60  # series, whatever the number of jobs


def read_numbers(text: str) -> dict[str, float]:
    """Every line, by its name and labels."""
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_are_those_of_the_crew(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser, a_worker(tmp_path):
            picture = browser.dashboard.crew.watcher.picture
            while not list(picture.list_workers()):
                await asyncio.sleep(0.01)
            await (await client.submit("test $GANDY_TASK != 3", tasks=10)).wait()
            await client.submit("true", held=True, tasks=4)
            for _ in range(5):
                await client.call("ping")
            while True:
                numbers = read_numbers((await browser.get("/metrics")).body.decode())
                is_counted = numbers["gandy_tasks_finished_total"] == 9 and numbers["gandy_calls_total"] == 5
                if is_counted and numbers["gandy_tasks waiting"] == 4 and numbers["gandy_tasks_failed_total"] == 1:
                    break
                await asyncio.sleep(0.05)
            assert numbers["gandy_up"] == 1
            assert numbers["gandy_jobs_unfinished"] == 1
            assert (numbers["gandy_workers ready"], numbers["gandy_slots"]) == (1, 2)
            assert numbers["gandy_call_duration_seconds_count"] == 5
            assert numbers["gandy_call_duration_seconds_bucket +Inf"] == 5
            assert 0 < numbers["gandy_call_duration_seconds_sum"] < 5

    run(test())


def test_number_of_series_does_not_grow_with_the_crew(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path) as client, a_dashboard(tmp_path) as browser:
            before = read_numbers((await browser.get("/metrics")).body.decode())
            for number in range(50):
                await client.submit("true", name=f"job {number}", held=True)
            async with a_worker(tmp_path):
                while (after := read_numbers((await browser.get("/metrics")).body.decode()))[
                    "gandy_jobs_unfinished"
                ] < 50:
                    await asyncio.sleep(0.05)
                assert before.keys() == after.keys()
                assert len(after) <= MOST

    run(test())


def test_metrics_follow_the_conventions() -> None:
    async def test() -> None:
        async with a_dashboard_at("unix:/nonexistent", has_open_metrics=True) as dashboard:
            reply = await Caller(dashboard).get("/metrics")
            assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
            for family in text_string_to_metric_families(reply.body.decode()):
                assert family.documentation
                assert family.name.startswith("gandy_")
                assert family.type in ("counter", "gauge", "histogram")
                names = {sample.name for sample in family.samples}
                assert all(name.endswith("_total") for name in names) or family.type != "counter"
                assert not any(name.endswith("_total") for name in names) or family.type == "counter"
                values = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
                assert values == sorted(values)

    run(test())


def test_metrics_are_open_only_if_the_user_says_so() -> None:
    async def test() -> None:
        async with a_dashboard_at("unix:/nonexistent") as dashboard:
            assert (await Caller(dashboard).get("/metrics")).status == 401
        async with a_dashboard_at("unix:/nonexistent", has_open_metrics=True) as dashboard:
            assert (await Caller(dashboard).get("/metrics")).status == 200
            assert (await Caller(dashboard).get("/api/crew")).status == 401

    run(test())


def test_grafana_asks_for_numbers_that_exist() -> None:
    async def test() -> None:
        async with a_dashboard_at("unix:/nonexistent", has_open_metrics=True) as dashboard:
            there = set(NAME.findall((await Caller(dashboard).get("/metrics")).body.decode()))
            shown = json.loads(GRAFANA.read_text())
            asked = set(
                NAME.findall(" ".join(target["expr"] for panel in shown["panels"] for target in panel["targets"]))
            )
            assert asked
            assert asked <= there

    run(test())


def test_health_says_ok_or_how_much_is_wrong(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_dashboard(tmp_path) as browser:
            stranger = Caller(browser.dashboard)
            reply = await stranger.get("/healthz")
            assert (reply.status, reply.body) == (503, b"trouble: 1\n")
            async with a_foreman(tmp_path):
                while (reply := await stranger.get("/healthz")).status != 200:
                    await asyncio.sleep(0.05)
                assert reply.body == b"ok\n"

    run(test())
