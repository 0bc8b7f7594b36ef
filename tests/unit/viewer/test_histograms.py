"""Histograms are added, and percentiles read from them to within half a bucket."""

from hypothesis import given
from hypothesis import strategies as st

from gandy.core.views import find_bucket
from gandy.viewer.histograms import add_buckets, count_values, find_percentile, list_bars

values = st.lists(st.integers(0, 10**9), min_size=1, max_size=50)


def test_values_are_counted_by_bucket() -> None:
    assert count_values([0, 3, 3]) == (1, 0, 0, 2)
    assert count_values([]) == ()


@given(st.lists(values, min_size=1, max_size=4))
def test_a_sum_of_histograms_is_the_histogram_of_all_values(lists: list[list[int]]) -> None:
    assert add_buckets(map(count_values, lists)) == count_values([value for each in lists for value in each])


def test_no_histograms_add_up_to_none() -> None:
    assert add_buckets([]) == ()


@given(values, st.sampled_from([1.0, 50.0, 90.0, 99.0, 100.0]))
def test_a_percentile_is_in_the_bucket_of_the_value_that_so_many_do_not_exceed(
    values: list[int], percent: float
) -> None:
    found = find_percentile(count_values(values), percent)
    assert found is not None
    ordered = sorted(values)
    exact = ordered[max(0, -int(-len(values) * percent // 100) - 1)]
    assert find_bucket(int(found)) == find_bucket(exact)


def test_nothing_has_no_percentile() -> None:
    assert find_percentile((), 50.0) is None
    assert find_percentile((0, 0), 50.0) is None


def test_bars_begin_and_end_with_a_value() -> None:
    assert list_bars(count_values([9, 9, 12])) == [(8, 10, 2), (10, 12, 0), (12, 14, 1)]
    assert list_bars(()) == []
