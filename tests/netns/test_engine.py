"""What an engine survives: floods and forks."""

import os
import warnings
from queue import Queue
from threading import Event

import pytest
from tests.netns.members import APP
from tests.netns.namespaces import Namespace
from tests.netns.programs import SOON

from gandy.bus import Ensemble
from gandy.bus.io import datagrams, tcp
from gandy.errors import LinkError


def test_datagrams_that_come_while_too_much_waits_are_read_later(
    host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datagrams, "MAX_WAITING_DELIVERIES", 10)
    monkeypatch.setattr(tcp, "MAX_WAITING_DELIVERIES", 10)
    heard, may_go_on, is_held = Queue[int](), Event(), Event()
    with host.inside(), Ensemble(APP) as reader, Ensemble(APP) as sender:

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


def test_the_child_of_a_fork_is_not_in_the_ensemble(host: Namespace) -> None:
    """Both would seal different messages with the same counts, and an eavesdropper could open them."""
    heard = Queue[int]()
    with host.inside(), Ensemble(APP) as reader, Ensemble(APP) as sender:
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
