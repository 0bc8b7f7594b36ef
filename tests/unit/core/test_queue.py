from gandy.core.queue import JobQueue, Need, Rank
from gandy.ids import JobId

PLAIN = Need(1, (), False)
TAGGED = Need(1, ("gpu",), False)


def rank(job: int, priority: int = 0) -> Rank:
    return -priority, JobId(job)


def a_queue(*places: tuple[Rank, Need]) -> JobQueue:
    queue = JobQueue()
    for each, need in places:
        queue.settle(each, need)
        queue.check()
    return queue


def test_lines_are_walked_by_rank() -> None:
    queue = a_queue((rank(3), PLAIN), (rank(2), TAGGED), (rank(1), PLAIN), (rank(4, priority=1), TAGGED))
    assert list(queue.in_order(())) == [4, 1, 2, 3]
    assert list(JobQueue().in_order(())) == []


def test_a_line_that_is_given_up_on_the_way_is_left_out() -> None:
    queue = a_queue((rank(1), TAGGED), (rank(2), PLAIN), (rank(3), TAGGED), (rank(4), PLAIN), (rank(5), TAGGED))
    given_up: set[Need | None] = set()
    seen = []
    for job in queue.in_order(given_up):
        seen.append(job)
        given_up.add(TAGGED)
    assert seen == [1, 2, 4]


def test_a_job_changes_lines_with_its_need_and_leaves_without() -> None:
    queue = a_queue((rank(1), PLAIN), (rank(2), PLAIN))
    queue.settle(rank(1), TAGGED)
    queue.settle(rank(1), TAGGED)
    queue.check()
    assert (queue.find(JobId(1)), queue.find(JobId(2))) == (TAGGED, PLAIN)
    queue.settle(rank(2), None)
    queue.settle(rank(3), None)
    queue.check()
    assert list(queue.in_order(())) == [1]
