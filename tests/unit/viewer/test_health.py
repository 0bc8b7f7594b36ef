"""What is wrong now."""

from tests.unit.dashboard.pictures import NOW, a_glance, a_picture, a_worker, an_update

from gandy.core.model import Counts, JobState
from gandy.viewer.health import list_present_trouble
from gandy.viewer.trouble import Severity


def test_all_is_well() -> None:
    assert list_present_trouble(a_picture(a_glance(1)), "") == []


def test_job_that_fails_counts_until_it_has_ended() -> None:
    counts = Counts(running=3, failed=2)
    picture = a_picture(a_glance(1, counts=counts))
    assert [trouble.kind for trouble in list_present_trouble(picture, "")] == ["job"]
    picture.apply(an_update(jobs=(a_glance(1, JobState.FAILED, counts),)), NOW)
    assert list_present_trouble(picture, "") == []


def test_absent_workers_and_foremen_count() -> None:
    picture = a_picture()
    picture.apply(an_update(workers=(a_worker("hut", connected=False),)), NOW)
    found = list_present_trouble(picture, "nothing listens")
    assert [(trouble.kind, trouble.severity) for trouble in found] == [("foreman", "bad"), ("worker", "bad")]
    assert "nothing listens" in found[0].text


def test_crew_that_was_not_seen_is_not_well() -> None:
    (trouble,) = list_present_trouble(a_picture(), "", is_complete=False)
    assert (trouble.kind, trouble.severity) == ("foreman", Severity.BAD)
