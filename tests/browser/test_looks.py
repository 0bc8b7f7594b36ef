"""How the page looks: screenshots of a busy crew, light and dark, wide and narrow, and colours that can be told apart.

GANDY_PICTURES=FOLDER keeps the screenshots. `make picture` writes the one in the README.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest
from tests.browser.colours import find_distances
from tests.browser.dashboards import Dashboard, Site, go
from tests.browser.devtools import Tab

import gandy

WIDE, NARROW = (1440, 900), (360, 780)
MAX_README_BYTES = 200_000

# Least distance of two states in OKLab, times 100, as people with each kind of colour vision see them. What is told
# apart at a glance differs by about 5.
MIN_DISTANCE = 9.0

WORKERS = {"anvil": 6, "bellows": 4, "crucible": 8, "forge": 6}

# Tasks of different length, a few of which fail.
WORK = """
sleep $(( GANDY_TASK * 7919 % SPREAD )).$(( GANDY_TASK * 104729 % 10 ))
echo "step 1 of 3: reading /data/$GANDY_TASK.npz"; echo "step 2 of 3: residual 0.0$GANDY_TASK"; echo "step 3 of 3: done"
[ $(( GANDY_TASK % FAILS )) != 5 ] || { echo "ValueError: seed $GANDY_TASK has no stable solution" >&2; exit 1; }
"""


def make_work(spread: int, fails: int) -> str:
    return WORK.replace("SPREAD", str(spread)).replace("FAILS", str(fails))


@contextmanager
def calling(home: Path) -> Iterator[None]:
    """Calls of commands go on meanwhile."""
    should_stop = threading.Event()

    def call() -> None:
        with gandy.Client(f"unix:{home}/foreman.sock") as client:
            while not should_stop.wait(0.002):
                client.call("echo", "hello")

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
    finally:
        should_stop.set()
        thread.join()


@pytest.fixture
def busy(site: Site) -> Iterator[tuple[Site, Dashboard]]:
    """Workers with names, jobs of every state, and calls."""
    dashboard = site.start_dashboard()
    for name, slots in WORKERS.items():
        site.start_worker("--name", name, "--slots", str(slots), "--tag", "gpu" if name == "forge" else "cpu")
    submit = site.crew.submit
    submit("--name", "fetch genomes", "--tasks", "24", "--", "true")
    submit("--name", "align", "--tasks", "60", "--", "sh", "-c", make_work(1, 20))
    submit("--name", "render frames", "--tasks", "900", "--", "sh", "-c", make_work(2, 10_000))
    submit("--name", "train sweep", "--tasks", "96", "--limit", "6", "--", "sh", "-c", make_work(6, 1_000))
    held = submit("--name", "nightly backup", "--tasks", "12", "--", "true")
    site.crew.run("job", "hold", held)
    with calling(site.crew.home):
        yield site, dashboard


def test_every_view_is_drawn_light_and_dark_wide_and_narrow(
    busy: tuple[Site, Dashboard], tab: Tab, pictures: Path
) -> None:
    _, dashboard = busy
    dashboard.show(tab)
    tab.wait_for("gandy.crew.points.length > 20")
    tab.wait_for("gandy.crew.jobs.get(2)?.state === 'failed'")
    for theme in ("light", "dark"):
        tab.prefer(theme)
        for name, route in (
            ("overview", "#/"), ("jobs", "#/jobs"), ("job", "#/jobs/3"), ("task", "#/jobs/2/tasks/5"),
            ("workers", "#/workers"), ("calls", "#/calls"), ("bus", "#/bus"), ("foremen", "#/foremen"),
        ):  # fmt: skip
            go(tab, route)
            wait_until_shown(tab, name)
            for size, (width, height) in (("wide", WIDE), ("narrow", NARROW)):
                picture = pictures / f"{name}-{theme}-{size}.png"
                tab.take_picture(picture, width, height)
                assert tab.run("document.documentElement.scrollWidth <= innerWidth"), (name, size)
                assert picture.stat().st_size > 5_000


READY = {
    "overview": "document.querySelector('.explained').innerText",
    "jobs": "document.querySelectorAll('.jobs tbody tr').length === 5",
    "job": "document.querySelector('.output-host .output').innerText && gandy.view.timeline.scale.to",
    "task": "document.querySelector('.tail').innerText && document.querySelector('.output-host .output').innerText",
    "workers": f"document.querySelectorAll('li.worker').length === {len(WORKERS)}",
    "calls": "document.querySelector('tbody').innerText.includes('echo')",
    "bus": "document.querySelector('.type').innerText",
    "foremen": "document.querySelector('.facts').innerText",
}


def wait_until_shown(tab: Tab, name: str) -> None:
    tab.wait_for(READY[name])


def test_readme_picture_is_small(busy: tuple[Site, Dashboard], tab: Tab, pictures: Path) -> None:
    _, dashboard = busy
    dashboard.show(tab)
    tab.wait_for("gandy.crew.points.length > 50 && gandy.crew.jobs.get(2)?.state === 'failed'")
    wait_until_shown(tab, "overview")
    picture = pictures / "dashboard.png"
    tab.take_picture(picture, 1280, 860, is_whole=False)
    assert picture.stat().st_size < MAX_README_BYTES


READ_COLOURS = """
Promise.all(["colours", "states"].map((name) => import(`/lib/${name}.js`))).then(
    ([{ readPixel }, { STATES }]) => Object.fromEntries(STATES.map((name) => [name, readPixel(name)])))
"""


def test_states_can_be_told_apart_with_any_colour_vision(page: Tab) -> None:
    for theme in ("light", "dark"):
        page.prefer(theme)
        pixels: dict[str, int] = page.run(READ_COLOURS)
        for one, other in combinations(pixels, 2):
            for vision, distance in find_distances(pixels[one], pixels[other]).items():
                assert distance > MIN_DISTANCE, (theme, vision, one, other)


def test_theme_is_switched_and_remembered(page: Tab) -> None:
    page.prefer("light")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.run(paper)
    page.click("#theme")
    dark = page.run(paper)
    assert dark != light
    page.run("window.isOld = true; location.reload()")
    page.wait_for("!window.isOld && window.gandy && gandy.crew.isKnown")
    assert page.run(paper) == dark
    page.click("#theme")
    assert page.run(paper) == light


def test_nothing_moves_while_a_job_runs(busy: tuple[Site, Dashboard], tab: Tab) -> None:
    """What browsers count as layout shift: what is read stays where it is."""
    _, dashboard = busy
    dashboard.show(tab)
    tab.wait_for("gandy.crew.points.length > 5")
    tab.run("""window.shifts = []; new PerformanceObserver((list) => shifts.push(...list.getEntries().map((each) => ({
        value: each.value, nodes: each.sources.map(({ node }) => node?.className ?? node?.nodeName) })))
    ).observe({ type: "layout-shift" })""")
    tab.wait_for("gandy.crew.jobs.get(2)?.state === 'failed' && gandy.crew.points.length > 15")
    shifts = tab.run("shifts")
    assert sum(shift["value"] for shift in shifts) < 0.1, json.dumps(shifts)  # what web.dev calls good
