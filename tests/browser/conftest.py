"""One browser for all tests. A tab shares nothing with another; its console must be clean when its test ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.browser.dashboards import PICTURES, Site, open_site
from tests.browser.devtools import CHROMIUM, Tab, browsing


@pytest.fixture(scope="session")
def open_tab() -> Iterator[Callable[[], Tab]]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: 'make test-browser' installs it")
    with browsing() as opener:
        yield opener


@contextmanager
def _open_clean(open_tab: Callable[[], Tab]) -> Iterator[Tab]:
    tab = open_tab()
    tab.resize(1440, 900)
    try:
        yield tab
        assert tab.take_problems() == []
    finally:
        tab.close()


@pytest.fixture
def tab(open_tab: Callable[[], Tab]) -> Iterator[Tab]:
    """A window of 1440 by 900 pixels."""
    with _open_clean(open_tab) as opened:
        yield opened


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path / "home") as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, open_tab: Callable[[], Tab]) -> Iterator[Tab]:
    """The page of a crew in which nothing happens."""
    with open_site(tmp_path_factory.mktemp("quiet") / "home") as opened, _open_clean(open_tab) as tab:
        opened.start_dashboard().show(tab)
        yield tab


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: GANDY_PICTURES, if it is set."""
    folder = Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
