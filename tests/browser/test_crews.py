"""The page of a crew with several foremen over PostgreSQL, and of one whose members are an ensemble."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.browser.dashboards import Site, go, open_site
from tests.browser.devtools import Tab
from tests.e2e.foremen import ManyForemen, many_foremen
from tests.e2e.members import Member

ROOT = Path(__file__).parents[2]
WIDE, NARROW = (1440, 900), (360, 780)


def take_pictures(tab: Tab, folder: Path, name: str) -> None:
    """Light and dark, wide and narrow: nothing is wider than the page."""
    for theme in ("light", "dark"):
        tab.prefer(theme)
        for size, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
            tab.take_picture(folder / f"{name}-{theme}-{size}.png", width, height)
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), (name, size)
    tab.resize(*WIDE)


@pytest.fixture
def foremen(tmp_path: Path) -> Iterator[ManyForemen]:
    with many_foremen(tmp_path, foremen=2) as crew:
        yield crew


def read_table(tab: Tab, label: str) -> list[list[str]]:
    """The cells of a table, as a person reads them."""
    rows: list[list[str]] = tab.run(
        f"[...document.querySelectorAll('table[aria-label=\"{label}\"] tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    return rows


def test_crew_with_several_foremen_is_one_crew(foremen: ManyForemen, tab: Tab, pictures: Path, tmp_path: Path) -> None:
    crew = foremen.crew
    foremen.wait_workers()
    with foremen.client(0) as one, foremen.client(1) as other:
        jobs = [
            client.submit("sleep 1000", name=f"job of foreman {number}") for number, client in ((1, one), (2, other))
        ]
        with ExitStack() as running:
            site = Site(crew, running)
            site.start_dashboard().show(tab, "#/foremen")
            tab.wait_for("document.querySelectorAll('table[aria-label=Foremen] tbody tr').length === 2")
            tab.wait_for("document.querySelector('.facts').innerText.includes('PostgreSQL')")
            rows = read_table(tab, "Foremen")
            shards = sorted(int(shard) for row in rows for shard in row[2].split(", ") if shard)
            assert shards == sorted(set(shards))  # each has one owner
            assert all(row[4] != "expired" for row in rows)
            take_pictures(tab, pictures, "foremen-crew")

            go(tab, "#/workers")
            tab.wait_for("document.querySelectorAll('li.worker').length === 2 && gandy.crew.now.running === 2")
            assert tab.run("gandy.crew.now.slots") == 4  # each worker has a link to every shard, and counts once
            tab.wait_for("[...gandy.crew.workers.values()].every((each) => each.load !== null)")
            take_pictures(tab, pictures, "workers-crew")
            go(tab, "#/")
            tab.wait_for("document.querySelectorAll('.jobs a[data-row]').length === 2")
            take_pictures(tab, pictures, "overview-crew")

            foremen.foremen[1].end()  # the other takes over, and the page goes on
            tab.wait_for("gandy.crew.now.foremen === 1 && gandy.crew.now.running === 2")
            jobs[1].cancel()
            tab.wait_for(f"gandy.crew.jobs.get({jobs[1].id})?.state === 'cancelled'")
            assert tab.take_problems() == []
            tab.open("about:blank")  # the dashboard ends before the tab does


def test_ensemble_has_processes_services_a_leader_and_a_clock(tab: Tab, pictures: Path, tmp_path: Path) -> None:
    name = f"page {os.getpid()}"
    with open_site(tmp_path / "home", "--ensemble", name) as site, ExitStack() as running:
        site.start_worker("--name", "anvil", "--slots", "2", "--ensemble", name)
        for words in (("clock", "--lead"), ("listen", "bell")):
            member = Member(site.crew, f"bus {words[0]}", "bus", *words, "--ensemble", name)
            running.callback(member.end)
        site.start_dashboard(None, "--ensemble", name).show(tab, "#/bus")
        tab.wait_for("document.querySelector('table[aria-label=Services]').innerText.includes('bell')")
        tab.wait_for("document.querySelector('.stats').innerText.includes('the clock is known')")
        tab.wait_for("gandy.view.chart.points?.length > 3")
        assert tab.run("document.querySelector('.stats').innerText.includes('nobody')") is False
        services = {row[0]: row[1] for row in read_table(tab, "Services")}
        processes = {row[0]: row for row in read_table(tab, "Processes")}
        assert services["bell"] in processes
        assert "bell" in processes[services["bell"]][2]
        assert len(processes) >= 4  # foreman, worker, leader and listener
        take_pictures(tab, pictures, "bus-ensemble")
        assert tab.take_problems() == []
        tab.open("about:blank")


def test_calls_are_drawn_in_the_slots_that_they_have(tab: Tab, pictures: Path, tmp_path: Path) -> None:
    go_on, book = tmp_path / "go", tmp_path / "book"
    with open_site(tmp_path / "home") as site, ExitStack() as running:
        site.crew.environment["PYTHONPATH"] = str(ROOT)
        site.start_worker("--name", "anvil", "--slots", "3", "--commands", "tests.e2e.dishes")
        site.crew.submit("--name", "render", "--", "sleep", "1000")
        site.start_dashboard().show(tab, "#/workers")
        tab.wait_for("gandy.crew.now.running === 1")
        call = site.crew.start("call", "hold", json.dumps(str(book)), json.dumps(str(go_on)))
        running.callback(call.communicate)
        running.callback(go_on.touch)
        lane = tab.wait_for("[...gandy.crew.runningCalls.values()].map((each) => each.lane + 1)[0]") - 1
        assert lane == 1  # the task has the first
        tab.run("window.found = gandy.crew.listSpans().get([...gandy.crew.workers.keys()][0])")
        assert tab.run("found.map((each) => each.command ?? each.job)") == [1, "hold"]
        x, y = tab.run("""(() => { const box = document.querySelector(".lanes").getBoundingClientRect();
            return [box.right - 2, box.y + box.height / 2]; })()""")
        tab.move_to(x, y)
        tab.wait_for("document.querySelector('.readout').innerText.startsWith('Call of hold: running')")
        take_pictures(tab, pictures, "workers-calls")
        go_on.touch()
        tab.wait_for("gandy.crew.endedCalls.some((each) => each.command === 'hold' && each.state === 'finished')")
        assert tab.run("gandy.crew.runningCalls.size") == 0
        tab.click_at(x - 1, y)
        tab.wait_for("location.hash === '#/calls?filter=hold'")
        assert tab.take_problems() == []
        tab.open("about:blank")
