"""Labels tell attempts and workers apart."""

from gandy.worker.labels import MARK_BITS, is_label_of, make_label

MARK, OTHER = (1 << MARK_BITS) - 1, 1 << (MARK_BITS - 1)


def test_a_label_says_which_worker_made_it() -> None:
    label = make_label(MARK, 1, 2, 3)
    assert is_label_of(MARK, label)
    assert not is_label_of(OTHER, label)


def test_attempts_have_labels_of_their_own() -> None:
    attempts = [(job, task, attempt) for job in range(9) for task in range(99) for attempt in range(3)]
    assert len({make_label(MARK, *attempt) for attempt in attempts}) == len(attempts)
    assert all(is_label_of(MARK, make_label(MARK, *attempt)) for attempt in attempts)
