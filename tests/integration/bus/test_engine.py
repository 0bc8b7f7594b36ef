"""What an engine survives: floods, forks, and peers that do not read."""

import os
import warnings
from queue import Queue
from threading import Event

import pytest
from tests.integration.bus.test_ensembles import SOON, make_name

from gandy.bus import Ensemble, engine
from gandy.errors import LinkError


def test_datagrams_that_come_while_too_much_waits_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_WAITING", 10)
    name, heard, may_go_on, is_held = make_name(), Queue[int](), Event(), Event()
    with Ensemble(name) as reader, Ensemble(name) as sender:

        def hold() -> None:
            is_held.set()
            may_go_on.wait(SOON)

        reader.service("reader").add(hold, "/hold")
        reader.service("reader").add(heard.put, "/take", "i")
        assert sender.wait_for("reader", SOON)
        sender.send("!reader/hold")
        assert is_held.wait(SOON)
        for number in range(100):
            sender.send("!reader/take", number)
        sender.send("!reader/take", 100, reliable=False)
        may_go_on.set()
        assert {heard.get(timeout=SOON) for _ in range(101)} == set(range(101))


def test_the_child_of_a_fork_is_not_in_the_ensemble() -> None:
    """Both would say different things under the same numbers, and whoever listens could open them."""
    name, heard = make_name(), Queue[int]()
    with Ensemble(name) as reader, Ensemble(name) as sender:
        reader.service("reader").add(heard.put, "/take", "i")
        assert sender.wait_for("reader", SOON)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that a process with threads forks is the point
            child = os.fork()
        if child == 0:
            status = 1
            try:
                sender.send("!reader/take", 1)
            except LinkError:
                sender.close()  # which says nothing
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sender.send("!reader/take", 2)
        assert heard.get(timeout=SOON) == 2
