"""Histograms whose buckets widen with the values, as foremen count calls: percentiles, and sums of several. Pure."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from gandy.core.views import Buckets, find_bucket, find_lower_bound


def add_buckets(all_buckets: Iterable[Sequence[int]]) -> Buckets:
    return tuple(map(sum, zip_longest(*all_buckets, fillvalue=0)))


def find_percentile(buckets: Sequence[int], percent: float) -> float | None:
    """The value that so many percent of all values do not exceed, to within half a bucket. None: there are none."""
    count = sum(buckets)
    if not count:
        return None
    left = count * percent / 100.0
    for bucket, found in enumerate(buckets):
        left -= found
        if left <= 0 and found:
            return (find_lower_bound(bucket) + find_lower_bound(bucket + 1) - 1) / 2
    raise AssertionError("the counts add up")


def count_values(values: Iterable[int]) -> Buckets:
    """The histogram of some values."""
    counts: list[int] = []
    for value in values:
        bucket = find_bucket(value)
        counts.extend([0] * (bucket + 1 - len(counts)))
        counts[bucket] += 1
    return tuple(counts)


def list_bars(buckets: Sequence[int]) -> list[tuple[int, int, int]]:
    """Bars to draw, from the first bucket with a value to the last: lower bound, upper bound, and how many."""
    full = [bucket for bucket, count in enumerate(buckets) if count]
    if not full:
        return []
    drawn = range(full[0], full[-1] + 1)
    return [(find_lower_bound(bucket), find_lower_bound(bucket + 1), buckets[bucket]) for bucket in drawn]
