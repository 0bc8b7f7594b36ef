"""What the page's modules compute, in the browser that they are for: functions.js has the laws."""

from pathlib import Path

from tests.browser.devtools import Tab

LAWS = (Path(__file__).parent / "functions.js").read_text()


def test_functions_of_the_page_hold_their_laws(page: Tab) -> None:
    found = page.run(f"({LAWS.partition(chr(10))[2].rstrip().rstrip(';')})((path) => import(path))")
    assert len(found) > 40
    assert {law: values for law, values in found.items() if values[0] != values[1]} == {}
