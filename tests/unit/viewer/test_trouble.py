"""What needs a person's attention, worst first."""

from tests.unit.viewer.updates import a_job, a_whole, a_worker

from gandy.core.model import JobState
from gandy.viewer.picture import Picture
from gandy.viewer.trouble import MANY, Severity, list_trouble


def find(*updates: object) -> list[tuple[str, str, str]]:
    picture = Picture()
    for update in updates:
        picture.apply(update, 0.0)  # type: ignore[arg-type]
    return [(trouble.kind, trouble.about, trouble.text) for trouble in list_trouble(picture)]


def test_a_crew_that_works_has_no_trouble() -> None:
    assert find() == []
    assert find(a_whole(workers=(a_worker(version="1"), a_worker("v")), jobs=(a_job(),), waiting=3)) == []


def test_a_store_with_a_problem_is_the_worst() -> None:
    ((kind, about, text),) = find(a_whole(3, trouble="the disk is full"))
    assert (kind, about) == ("store", "3")
    assert text.endswith("takes no new work: the disk is full")


def test_what_is_bad_comes_before_warnings() -> None:
    workers = (
        a_worker("a", problem="few open files"),
        a_worker("b", connected=False),
        a_worker("c", silent_seconds=8.0),
    )
    picture = Picture()
    picture.apply(a_whole(workers=workers, jobs=(a_job(1, JobState.FAILED, failed=2), a_job(2, failed=1))), 0.0)
    found = list_trouble(picture)
    assert [trouble.text for trouble in found] == [
        "Worker b is away.",
        "Job 1: 2 of 10 tasks failed.",
        "Worker a: few open files",
        "Worker c has been silent for 8 s.",
        "Job 2: 1 of 10 tasks failed.",
    ]
    assert [trouble.severity is Severity.BAD for trouble in found] == [True, True, False, False, False]


def test_a_job_that_was_cancelled_is_no_trouble() -> None:
    assert find(a_whole(jobs=(a_job(1, JobState.CANCELLED, failed=2),))) == []


def test_tasks_that_wait_for_any_worker_are_trouble() -> None:
    assert [text for _, _, text in find(a_whole(waiting=1, workers=(a_worker(connected=False),)))] == [
        "Worker w is away.",
        "Tasks wait, and no worker is connected: start one with 'gandy worker run'.",
    ]


def test_different_versions_within_the_crew_are_named_once_with_those_who_have_them() -> None:
    workers = (a_worker("a", version="1.1"), a_worker("b", version="1.0"), a_worker("c"))
    assert find(a_whole(workers=workers, version="1.1")) == [
        ("worker", "", "The crew has different versions of gandy: 1.0 (b), 1.1 (the foreman, a).")
    ]
    many = tuple(a_worker(f"w{number}", version="1.0") for number in range(7))
    assert find(a_whole(1, workers=many, version="1.0"), a_whole(2, workers=many, version="1.1")) == [
        ("worker", "", "The crew has different versions of gandy: 1.0 (a foreman, w0, w1 and 5 more), 1.1 (a foreman).")
    ]


def test_peers_that_do_not_say_their_version_are_no_trouble() -> None:
    assert find(a_whole(1, workers=(a_worker("a", version="1.1"), a_worker("b")), version="1.1"), a_whole(2)) == []


def test_not_more_is_named_than_a_person_reads() -> None:
    workers = tuple(a_worker(f"w{number}", connected=False) for number in range(2 * MANY))
    jobs = tuple(a_job(number, JobState.FAILED, failed=1) for number in range(2 * MANY))
    assert len(find(a_whole(workers=workers, jobs=jobs))) == 2 * MANY
