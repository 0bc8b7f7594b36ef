"""What the status of an answer means for the spans."""

import pytest

from gandy.cli.trace.verdict import Verdict, judge


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, Verdict.TAKEN),
        (202, Verdict.TAKEN),
        (None, Verdict.LATER),
        (302, Verdict.LATER),  # nothing follows it
        (401, Verdict.LATER),  # once the user has mended the token, nothing is lost
        (404, Verdict.LATER),
        (429, Verdict.LATER),
        (503, Verdict.LATER),
        (400, Verdict.REFUSED),
        (413, Verdict.REFUSED),
        (422, Verdict.REFUSED),
    ],
)
def test_verdict(status: int | None, verdict: Verdict) -> None:
    assert judge(status) is verdict
