"""A person drags over the time axis, and sees how the crew was."""

import pytest
from tests.browser.dashboards import Site
from tests.browser.devtools import Tab

# The time of a sample in which two tasks ran; the foreman makes one every ten seconds.
FIND_BUSY_POINT = """
fetch(`api/history?from=${gandy.now - 600}&to=${gandy.now}`).then((answer) => answer.json()).then(
    ({ points }) => points.find((point) => point[7] === 2)?.[0])
"""


def test_axis_shows_how_it_was_and_leads_back(site: Site, tab: Tab) -> None:
    site.start_worker("--name", "anvil", "--slots", "2")
    job = site.crew.submit("--name", "long ago", "--tasks", "3", "--", "sleep", "600")
    site.start_dashboard().show(tab)
    if not tab.run("gandy.session.can_see_history"):
        pytest.skip("this version has no history")
    tab.wait_for("gandy.crew.now.used === 2")
    kept = tab.wait_for(FIND_BUSY_POINT)
    site.crew.run("job", "cancel", job)
    tab.wait_for(f"gandy.crew.jobs.get({job})?.state === 'cancelled'")

    tab.click(".axis .tabs button")
    tab.wait_for(f"gandy.now - {kept} > 20")  # what is nearer to the end of the axis means now
    x, y = tab.run(f"""(() => {{
        const {{ axis }} = gandy.view;
        const box = axis.plot.getBoundingClientRect();
        return [box.x + box.width * ({kept} + 3 - axis.from) / axis.span, box.y + 20];
    }})()""")
    tab.click_at(x, y)
    tab.wait_for("document.querySelector('.past').innerText.includes('ago')")
    tab.wait_for("document.querySelector('.jobs .state').innerText === 'running'")
    assert "at=" in tab.run("location.hash")
    assert tab.run("document.querySelector('.strip').innerText.includes('anvil')")
    assert tab.run("document.querySelector('.trouble').hidden")

    tab.press("n")
    tab.wait_for("document.querySelector('.past').hidden")
    tab.wait_for("document.querySelector('.jobs .state').innerText === 'cancelled'")


def test_moment_of_which_nothing_is_kept_says_so(site: Site, tab: Tab) -> None:
    site.start_dashboard().show(tab, "#/?at=1000000000")
    tab.wait_for("document.querySelector('.past').innerText.includes('ago')")
    tab.wait_for("gandy.view.past.crew")
    assert tab.run("document.querySelectorAll('.jobs tbody tr').length") == 0
    problems = tab.take_problems()
    assert all("404" in problem for problem in problems), problems
