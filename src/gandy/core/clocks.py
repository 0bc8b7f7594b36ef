"""Conversions between the clocks, where it is known how far one is ahead of another."""

from gandy.moments import Monotonic, Shared


def compute_shared(now: Monotonic, ahead: float) -> Shared:
    """The shared time at `now`."""
    return Shared(float(now) + ahead)
