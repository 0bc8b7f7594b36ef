"""A person watches a job, finds out why a task failed, and has it run again."""

from pathlib import Path

from tests.browser.dashboards import Site, go, open_site
from tests.browser.devtools import Tab
from tests.e2e.crew import Crew
from tests.free_ports import find_port

TASKS = 10_000
FAILING = 4_321

# One task fails until a file is there. The others end at once.
SCRIPT = f"""
[ $GANDY_TASK = {FAILING} ] || exit 0
[ -e "$0" ] && echo 'done at last' && exit 0
echo 'reading <b>input</b> {FAILING}' >&2
echo 'disk quota exceeded: "/data"' >&2
exit 3
"""


def test_failed_task_is_found_read_retried_and_finishes(site: Site, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    site.start_worker("--slots", "4")
    job = site.crew.submit("--name", "ten thousand", "--tasks", str(TASKS), "--", "sh", "-c", SCRIPT, str(gate))
    site.start_dashboard().show(tab)
    tab.click(".jobs a[data-row]")
    tab.wait_for("gandy.view.picture.states.counts[2] > 0")  # some are finished, and it goes on
    assert tab.run("location.hash") == f"#/jobs/{job}"
    tab.wait_for(
        "document.querySelector('.head .state').innerText === 'failed'", seconds=300.0
    )  # ten thousand processes
    assert tab.run("gandy.view.picture.states.counts") == [0, 0, TASKS - 1, 1, 0, 0]

    tab.click(".legend [data-state=failed]")  # moves the cursor there
    tab.wait_for("document.querySelector('.card').innerText.includes('disk quota exceeded')")
    tab.click(".cells .cursor")
    tab.wait_for(f"location.hash === '#/jobs/{job}/tasks/{FAILING}'")
    last_words = tab.wait_for("document.querySelector('.tail').innerText")
    assert last_words == f'reading <b>input</b> {FAILING}\ndisk quota exceeded: "/data"'
    assert tab.run("document.querySelector('.tail b')") is None  # text of tasks is only ever text

    gate.touch()
    tab.click(".actions .main")
    tab.wait_for("document.querySelector('#question[open]').innerText.includes('Retry task')")
    tab.click("#question .main")
    tab.wait_for("document.querySelector('.head .state').innerText === 'finished'")
    tab.wait_for("document.querySelector('.output-host .output').innerText.includes('done at last')")
    assert "tried again" in tab.text() or "failed" in tab.text()  # the first attempt is still listed
    assert site.crew.show("job", "show", job)[0]["state"] == "finished"


def test_question_that_is_not_answered_with_the_verb_changes_nothing(site: Site, tab: Tab) -> None:
    job = site.crew.submit("--tasks", "5", "--", "true")
    site.start_dashboard().show(tab, f"#/jobs/{job}")
    tab.click(".actions .bad")
    tab.wait_for("document.querySelector('#question').open")
    tab.press("Enter")  # the safe answer has the focus
    tab.wait_for("!document.querySelector('#question').open")
    assert site.crew.show("job", "list")[0]["state"] == "waiting"


def test_job_is_held_released_and_cancelled(site: Site, tab: Tab) -> None:
    job = site.crew.submit("--tasks", "5", "--", "true")
    site.start_dashboard().show(tab, f"#/jobs/{job}")
    for button, state in (("Hold", "held"), ("Release", "waiting"), ("Cancel", "cancelled")):
        script = f"[...document.querySelectorAll('.actions button')].find((each) => each.innerText === '{button}')"
        tab.wait_for(f"{script} && !{script}.hidden")
        tab.run(f"{script}.click()")
        tab.wait_for("document.querySelector('#question').open")
        tab.click("#question button:last-child")
        tab.wait_for(f"document.querySelector('.head .state').innerText === '{state}'")


def test_worker_is_drained_or_stopped_after_a_question(site: Site, tab: Tab) -> None:
    for name in ("drained", "stopped"):
        site.start_worker("--name", name, "--slots", "1")
    site.crew.submit("--tasks", "2", "--", "sleep", "1000")
    site.start_dashboard().show(tab, "#/workers")
    tab.wait_for("gandy.crew.now.running === 2")
    for name, button, state in (("drained", "Drain", "draining"), ("stopped", "Stop now", None)):
        row = f"[...document.querySelectorAll('li.worker')].find((row) => row.innerText.startsWith({name!r}))"
        tab.wait_for(f"{row}.querySelector('.load').innerText.includes('load')")
        tab.run(f"[...{row}.querySelectorAll('button')].find((each) => each.innerText === {button!r}).click()")
        tab.wait_for(f"document.querySelector('#question[open]').innerText.includes('worker {name}?')")
        assert "1 running task" in tab.run("document.querySelector('#question').innerText")
        tab.click("#question button:last-child")
        tab.wait_for(f"{row}.querySelector('.state').innerText === 'draining'" if state else f"!{row}")
    rows = {row["name"]: row for row in site.crew.show("worker", "list")}
    assert rows["drained"]["draining"]
    assert "stopped" not in rows or not rows["stopped"]["connected"]


def test_observer_sees_everything_and_no_buttons(tmp_path: Path, tab: Tab) -> None:
    url = f"tcp://127.0.0.1:{find_port()}"
    with open_site(tmp_path / "owner", "--listen", url) as site:
        site.start_worker("--slots", "1")
        job = site.crew.submit("--name", "seen by all", "--tasks", "3", "--", "false")
        token = site.crew.run("invite", "--observer", "--output", "quiet").stdout.decode().strip()
        observer = Crew(tmp_path / "observer")
        observer.run("join", token)
        site.start_dashboard(observer).show(tab)
        tab.wait_for("document.body.innerText.includes('seen by all')")
        go(tab, "#/workers")
        tab.wait_for("document.querySelectorAll('li.worker').length === 1")
        assert tab.run("document.querySelectorAll('li.worker button').length") == 0
        for route in (f"#/jobs/{job}", f"#/jobs/{job}/tasks/1"):
            go(tab, route)
            tab.wait_for("document.querySelector('.head .state').innerText === 'failed'")
            assert tab.run("document.querySelectorAll('.actions, .actions button').length") == 0
        assert tab.take_problems() == []
        assert tab.run("[gandy.session.role, gandy.session.can_change]") == ["observer", False]
        tab.open("about:blank")  # the dashboard ends before the tab does


def test_output_is_followed_while_a_task_writes(site: Site, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    site.start_worker("--slots", "1")
    job = site.crew.submit("--", "sh", "-c", f"echo before; while [ ! -e {gate} ]; do sleep 0.1; done; echo after")
    site.start_dashboard().show(tab, f"#/jobs/{job}/tasks/1")
    tab.wait_for("document.querySelector('.output-host .output').innerText.includes('before')")
    tab.wait_for("document.querySelector('.under').innerText.includes('so far')")
    gate.touch()
    tab.wait_for("document.querySelector('.output-host .output').innerText === 'before\\nafter\\n'")
    tab.wait_for("document.querySelector('.head .state').innerText === 'finished'")
