"""The ensemble that the dashboard takes part in, as its API shows it."""

import asyncio
import os

from tests.integration.dashboard.dashboards import a_dashboard_at, sign_in
from tests.integration.local_crews import run

from gandy.bus import Ensemble

NO_FOREMAN = "unix:/nonexistent/foreman.sock"


def test_ensemble_has_processes_services_and_a_clock() -> None:
    name = f"dashboard-{os.getpid()}"

    async def test() -> None:
        with Ensemble(name, clock="lead") as band:
            band.service("bell").offer()
            async with a_dashboard_at(NO_FOREMAN, ensemble=name) as dashboard:
                browser = await sign_in(dashboard)
                while not (seen := (await browser.get("/api/bus")).json)["clock"]["points"]:
                    await asyncio.sleep(0.1)
            assert seen["ensemble"] == name
            assert [(each["process"], each["state"]) for each in seen["processes"]] == [(band.process, "ready")] or [
                each["process"] for each in seen["processes"]
            ] == [band.process]
            assert {"service": "bell", "process": band.process} in seen["services"]
            assert seen["leader"] == band.process
            assert seen["clock"]["synced"] is True
            (_, error, bound) = seen["clock"]["points"][0]
            assert 0 <= error <= bound < 10_000_000
            assert 0 <= seen["clock"]["error_us"] <= seen["clock"]["bound_us"]

    run(test())


def test_without_an_ensemble_there_is_none() -> None:
    async def test() -> None:
        async with a_dashboard_at(NO_FOREMAN) as dashboard:
            seen = (await (await sign_in(dashboard)).get("/api/bus")).json
            assert (seen["ensemble"], seen["processes"], seen["clock"]["synced"]) == (None, [], False)

    run(test())
