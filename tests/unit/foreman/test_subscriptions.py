"""Which requests get events about which job."""

import pytest
from tests.unit.core.linked import Crew

from gandy.core.refusal import Refusal
from gandy.foreman import subscriptions as subject
from gandy.foreman.subscriptions import Subscriptions
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


def test_a_subscription_ends_by_its_number() -> None:
    subscriptions, link, other = Subscriptions(), Crew().client("c"), Crew().client("d")
    for job, token in ((1, (link, 1)), (2, (link, 1)), (2, (link, 2)), (2, (other, 1))):
        subscriptions.add(JobId(job), token)
    subscriptions.forget_token((link, 1))
    assert (subscriptions[JobId(1)], set(subscriptions[JobId(2)])) == ((), {(link, 2), (other, 1)})
    subscriptions.forget_token((link, 9))
