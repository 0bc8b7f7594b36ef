"""Which requests get events about which job."""

import pytest
from tests.unit.core.linked import Crew

from gandy.core.refusal import Refusal
from gandy.foreman import followers as subject
from gandy.foreman.followers import Subscriptions
from gandy.ids import JobId


def test_a_refused_subscription_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has reached its limit could otherwise fill the table with jobs that do not exist."""
    monkeypatch.setattr(subject, "MAX_WATCHED", 1)
    subscriptions, link = Subscriptions(), Crew().client("c")
    subscriptions.add(JobId(1), (link, 1))
    with pytest.raises(Refusal):
        subscriptions.add(JobId(2), (link, 2))
    assert JobId(1) in subscriptions
    assert JobId(2) not in subscriptions
    subscriptions.discard(JobId(1), (link, 1))
    assert not subscriptions
