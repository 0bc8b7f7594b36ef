"""The page as such: keys, links that are shared, empty states, a lost connection, a tab that is hidden."""

import signal
import subprocess
from pathlib import Path

from tests.browser.dashboards import Dashboard, Site, go
from tests.browser.devtools import Tab
from tests.e2e.crew import PATIENCE
from tests.free_ports import find_port

VIEWS = {"1": "#/", "2": "#/jobs", "3": "#/workers", "4": "#/calls", "5": "#/bus", "6": "#/foremen"}


def test_empty_crew_says_what_to_type(page: Tab) -> None:
    go(page, "#/")
    page.wait_for("document.body.innerText.includes(\"gandy submit --tasks 100 'sleep 1'\")")
    assert "gandy worker run" in page.text()
    go(page, "#/workers")
    page.wait_for("document.body.innerText.includes('gandy worker run')")
    go(page, "#/bus")
    page.wait_for("document.body.innerText.includes('gandy dashboard --ensemble NAME')")


def test_keys_open_views_and_say_themselves(page: Tab) -> None:
    for key, route in VIEWS.items():
        page.press(key)
        page.wait_for(f"location.hash === '{route}'")
        assert page.run("document.activeElement.id") == "content"  # screen readers go on there
    page.press("?")
    page.wait_for("document.querySelector('#keys').open")
    page.press("Escape")
    page.wait_for("!document.querySelector('#keys').open")


def test_slash_goes_to_the_filter_which_is_part_of_the_link(page: Tab) -> None:
    go(page, "#/workers")
    page.press("/")
    for letter in "anvil":
        page.press(letter)
    page.wait_for("location.hash === '#/workers?filter=anvil'")
    page.press("Escape")
    assert page.run("document.activeElement === document.body")


def test_rows_are_reached_with_j_and_k(site: Site, tab: Tab) -> None:
    for name in ("first", "second", "third"):
        site.crew.submit("--name", name, "--", "true")
    site.start_dashboard().show(tab)
    tab.wait_for("document.querySelectorAll('a[data-row]').length === 3")
    for key, name in (("j", "third"), ("j", "second"), ("j", "first"), ("j", "first"), ("k", "second")):
        tab.press(key)
        assert tab.run("document.activeElement.innerText") == name
    tab.press("Enter")
    tab.wait_for("location.hash === '#/jobs/2'")
    tab.press("u")
    tab.wait_for("location.hash === '#/jobs'")


def test_picture_of_the_tasks_is_reached_with_arrow_keys(site: Site, tab: Tab) -> None:
    job = site.crew.submit("--tasks", "500", "--", "true")
    site.start_dashboard().show(tab, f"#/jobs/{job}")
    tab.wait_for("gandy.view.picture.cells.grid")
    tab.run("document.querySelector('.cells').focus()")
    columns = tab.run("gandy.view.picture.cells.grid.columns")
    for key, task in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowDown", 2 + columns), ("End", 500), ("Home", 1)):
        tab.press(key)
        assert tab.run("gandy.view.picture.cells.task") == task
    tab.wait_for("document.querySelector('.card').innerText.includes('Task 1')")
    tab.press("Enter")
    tab.wait_for(f"location.hash === '#/jobs/{job}/tasks/1'")


def test_what_does_not_exist_is_said_to(page: Tab) -> None:
    go(page, "#/jobs/99")
    page.wait_for("document.querySelector('.empty').innerText.includes('gandy job list')")
    problems = page.take_problems()  # browsers report each answer of 404
    assert problems
    assert all("404" in problem for problem in problems)


def test_browser_without_a_key_is_told_what_to_type(site: Site, tab: Tab) -> None:
    address = site.start_dashboard().take_address()
    tab.open(address.partition("?")[0])
    tab.wait_for("document.body.innerText.includes('gandy dashboard')")
    assert all("401" in problem for problem in tab.take_problems())


def test_lost_connection_is_said_and_comes_back(site: Site, tab: Tab) -> None:
    port = find_port()
    dashboard = start_at(site, port)
    Dashboard(dashboard).show(tab)
    tab.wait_for("document.querySelector('#link').dataset.state === 'live'")
    dashboard.kill()
    dashboard.communicate(timeout=PATIENCE)
    tab.wait_for("document.querySelector('#banner').innerText.includes('lost')")
    tab.wait_for("document.querySelector('#link').innerText === 'not connected'")

    again = start_at(site, port)  # it has no memory of browsers, and says so
    tab.click("#banner button")
    tab.wait_for("document.body.innerText.includes('This browser has no key')")
    tab.take_problems()  # refused connections are reported too
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=PATIENCE)


def start_at(site: Site, port: int) -> subprocess.Popen[bytes]:
    words = ("dashboard", "--no-open", "--listen", f"127.0.0.1:{port}")
    return site.crew.start(*words, stderr=subprocess.DEVNULL)


def test_hidden_tab_closes_its_streams_and_opens_them_again(page: Tab) -> None:
    go(page, "#/")
    page.wait_for("gandy.live.source !== null")
    page.run("""Object.defineProperty(document, "hidden", { configurable: true, get: () => window.isHidden });
        window.isHidden = true; document.dispatchEvent(new Event("visibilitychange"))""")
    page.wait_for("gandy.live.source === null && document.querySelector('#link').innerText === 'paused'")
    page.run("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for("gandy.live.source !== null && document.querySelector('#link').innerText === 'live'")


def test_trouble_is_told_to_screen_readers(site: Site, tab: Tab, tmp_path: Path) -> None:
    site.start_dashboard().show(tab)
    site.crew.submit("--", "true")
    tab.wait_for("document.querySelector('#news').innerText.includes('no worker is connected')")
    assert tab.run("document.querySelector('#news').getAttribute('aria-live')") == "polite"
    assert tab.run("document.querySelector('.trouble li').className") == "bad"
