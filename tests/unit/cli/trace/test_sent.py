"""What has been sent is remembered in little room, and nothing that was not sent is taken for sent."""

import pytest

from gandy.cli.trace import sent
from gandy.cli.trace.sent import SentJobs
from gandy.errors import ConfigError
from gandy.ids import JobId


def test_jobs_that_ended_before_the_beginning_are_not_sent() -> None:
    found = SentJobs(100.0)
    assert found.has(JobId(1), 100.0)
    assert not found.has(JobId(1), 100.1)


def test_job_that_ends_again_is_sent_again() -> None:
    found = SentJobs(0.0)
    found.note(JobId(1), 5.0)
    assert found.has(JobId(1), 5.0)
    assert not found.has(JobId(1), 6.0)


def test_million_jobs_take_the_room_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent, "MAX_SENT_JOBS", 10)
    found = SentJobs(0.0)
    for job in range(1, 1_001):
        found.note(JobId(job), float(job))
    assert found.through == 990.0
    assert all(found.has(JobId(job), float(job)) for job in range(1, 1_001))
    assert not found.has(JobId(1_001), 1_001.0)
    assert len(found.pack()) < 300


def test_jobs_that_come_a_little_out_of_order_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent, "MAX_SENT_JOBS", 2)
    found = SentJobs(0.0)
    for job, changed in ((1, 5.0), (2, 4.0), (3, 6.0), (4, 7.0)):
        found.note(JobId(job), changed)
    assert found.through == 5.0
    assert not found.has(JobId(5), 5.5)


def test_what_is_kept_is_read_again() -> None:
    found = SentJobs(3.0)
    found.note(JobId(1), 5.0)
    found.note(JobId(2), 4.0)
    again = SentJobs.unpack(found.pack())
    assert again.pack() == found.pack() == b'{"through":3.0,"sent":[[1,5.0],[2,4.0]]}'


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"through":"x","sent":[]}', b"\xff"])
def test_damaged_file_is_an_error(damaged: bytes) -> None:
    with pytest.raises(ConfigError, match="damaged"):
        SentJobs.unpack(damaged)


def test_clock_that_was_set_back_makes_no_job_look_sent() -> None:
    found = SentJobs(100.0)
    found.note(JobId(1), 110.0)
    assert not found.on_foreman_clock(100.0)
    assert found.on_foreman_clock(50.0)
    assert not found.has(JobId(2), 50.5)
    assert found.has(JobId(1), 110.0)


def test_clock_that_was_set_back_meanwhile_makes_us_look_further_back() -> None:
    found = SentJobs(100.0)
    assert found.on_foreman_clock(90.0, margin=30.0)
    assert not found.has(JobId(2), 61.0)
    assert found.has(JobId(2), 60.0)
