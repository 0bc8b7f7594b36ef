"""joblib and scikit-learn through a real crew."""

import operator
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest
from joblib import Parallel, delayed
from tests.e2e.crew import PATIENCE, Crew

import gandy
import gandy.joblib
from gandy.core.rows import JobRow
from gandy.errors import ConfigError, LinkError
from gandy.functions import NotPicklable, RemoteTraceback

SLOTS = 3


@pytest.fixture(scope="module")
def foreman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    foreman = f"unix:{crew.home}/foreman.sock"
    with crew.running("up", "--slots", str(SLOTS)), gandy.Client(foreman) as client:
        while not client.workers():
            time.sleep(0.01)
        yield foreman


@pytest.fixture
def client(foreman: str) -> Iterator[gandy.Client]:
    with gandy.Client(foreman) as client:
        yield client


def find(client: gandy.Client, name: str) -> JobRow:
    (row,) = [row for row in client.jobs() if row.spec.name == name]
    return row


def test_values_come_in_order_and_from_elsewhere(foreman: str) -> None:
    with joblib.parallel_config("gandy", foreman=foreman):
        assert Parallel()(delayed(pow)(number, 2) for number in range(1_000)) == [n**2 for n in range(1_000)]
        assert os.getpid() not in Parallel()(delayed(os.getpid)() for _ in range(5))
    twice = 2
    values = Parallel(backend="gandy", foreman=foreman, n_jobs=2)(delayed(lambda n: n * twice)(n) for n in range(9))
    assert values == [number * 2 for number in range(9)]
    with joblib.parallel_backend("gandy", foreman=foreman), Parallel() as parallel:  # one job for both
        assert parallel(delayed(operator.neg)(number) for number in range(9)) == [-number for number in range(9)]
        assert parallel(delayed(abs)(-number) for number in range(9)) == list(range(9))


def test_all_jobs_are_all_slots_of_the_crew(foreman: str, client: gandy.Client) -> None:
    with joblib.parallel_config("gandy", foreman=foreman, name="all of them"):
        assert joblib.effective_n_jobs(-1) == SLOTS
        assert joblib.effective_n_jobs(None) == SLOTS
        assert joblib.effective_n_jobs(-2) == SLOTS - 1
        assert joblib.effective_n_jobs(100) == 100
        assert Parallel(n_jobs=-1)(delayed(abs)(n) for n in range(3)) == [0, 1, 2]
        with pytest.raises(ValueError, match="no meaning"):
            Parallel(n_jobs=0)(delayed(abs)(n) for n in range(3))
    assert find(client, "all of them").spec.limit is None
    with (
        joblib.parallel_config("gandy", foreman=foreman, tags=["no such tag"]),
        pytest.warns(UserWarning, match="no worker with the tags no such tag, python3"),
    ):
        assert joblib.effective_n_jobs(-1) == 2  # that wait for one; joblib would run a single one here


def test_number_of_jobs_is_the_limit_of_the_job(foreman: str, client: gandy.Client) -> None:
    with joblib.parallel_config("gandy", foreman=foreman, name="two of them", priority=3, retries=1):
        Parallel(n_jobs=2)(delayed(abs)(n) for n in range(10))
    spec = find(client, "two of them").spec
    assert (spec.limit, spec.priority, spec.retries) == (2, 3, 1)


def test_one_job_runs_here(foreman: str) -> None:
    with joblib.parallel_config("gandy", foreman=foreman):
        assert set(Parallel(n_jobs=1)(delayed(os.getpid)() for _ in range(3))) == {os.getpid()}


def test_unknown_option_is_named(foreman: str) -> None:
    with pytest.raises(ConfigError, match="no option speed"):
        joblib.parallel_config("gandy", foreman=foreman, speed=9)


def test_missing_foreman_is_told(tmp_path: Path) -> None:
    with joblib.parallel_config("gandy", foreman=f"unix:{tmp_path}/nobody.sock"), pytest.raises(LinkError):
        Parallel()(delayed(abs)(n) for n in range(3))


def fail(number: int) -> int:
    if number == 5:
        raise ValueError(f"no {number}")
    return number


def test_exception_comes_back_as_itself_with_where_it_was_raised(foreman: str) -> None:
    with joblib.parallel_config("gandy", foreman=foreman), pytest.raises(ValueError, match="no 5") as caught:
        Parallel()(delayed(fail)(number) for number in range(100))
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fail" in str(caught.value.__cause__)


def items_with_a_lock(count: int) -> Iterator[Any]:
    for number in range(count):
        yield delayed(str)(number)
    yield delayed(str)(threading.Lock())


@pytest.mark.parametrize("count", [0, 50])  # the first ones are pickled here, later ones on another thread
def test_what_cannot_travel_is_an_error_wherever_it_is_found(foreman: str, count: int) -> None:
    with joblib.parallel_config("gandy", foreman=foreman), pytest.raises(NotPicklable, match="lock"):
        Parallel()(items_with_a_lock(count))


def test_large_items_travel_too(foreman: str) -> None:
    items = [bytes([number]) * 400_000 for number in range(5)]
    with joblib.parallel_config("gandy", foreman=foreman):
        assert Parallel(batch_size=2)(delayed(bytes)(item) for item in items) == items


def test_generators_give_values_as_they_come(foreman: str) -> None:
    with joblib.parallel_config("gandy", foreman=foreman):
        first = Parallel(return_as="generator")(delayed(operator.neg)(number) for number in range(50))
        other = Parallel(return_as="generator_unordered")(delayed(abs)(-number) for number in range(50))
        assert next(first) == 0
        assert sorted(other) == list(range(50))
        assert list(first) == [-number for number in range(1, 50)]


def wait_and_fail(path: str) -> None:
    Path(path).read_text()
    raise RuntimeError("enough")


def report_and_wait(path: str) -> None:
    Path(path).write_text("I run")
    time.sleep(600)


def test_error_ends_what_waits_and_what_runs(foreman: str, client: gandy.Client, tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    calls = [
        delayed(wait_and_fail)(path),
        delayed(report_and_wait)(path),
        *(delayed(time.sleep)(600) for _ in range(9)),
    ]
    with (
        joblib.parallel_config("gandy", foreman=foreman, name="doomed"),
        pytest.raises(RuntimeError, match="enough"),
    ):
        Parallel(n_jobs=2, pre_dispatch="all")(calls)
    counts = client.job(find(client, "doomed").job).wait(PATIENCE).counts
    assert (counts.finished, counts.failed, counts.cancelled) == (0, 1, 10)


def test_generator_that_is_closed_cancels_the_rest(foreman: str, client: gandy.Client) -> None:
    with joblib.parallel_config("gandy", foreman=foreman, name="given up"):
        values = Parallel(n_jobs=2, return_as="generator")(delayed(time.sleep)(600 * (n > 0)) for n in range(9))
        assert next(values) is None
        with pytest.warns(UserWarning, match="have been cancelled"):
            values.close()
    assert client.job(find(client, "given up").job).wait(PATIENCE).counts.finished == 1


def test_managed_backend_works_on_after_an_error(foreman: str) -> None:
    with joblib.parallel_config("gandy", foreman=foreman), Parallel() as parallel:
        # The last one fails: what joblib had not dispatched would come with the values of the next call.
        with pytest.raises(ValueError, match="no 5"):
            parallel([delayed(time.sleep)(600), delayed(time.sleep)(600), delayed(fail)(5)])
        assert parallel(delayed(abs)(number) for number in range(9)) == list(range(9))


def run_inside(number: int) -> tuple[list[int], set[bool]]:
    here = os.getpid()
    values = Parallel(n_jobs=2)(delayed(pow)(number, power) for power in range(3))
    return values, {pid == here for pid in Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(3))}


def ask_for_a_crew_inside(foreman: str, number: int) -> tuple[list[int], set[bool]]:
    with joblib.parallel_config("gandy", foreman=foreman, n_jobs=2):
        return run_inside(number)


def test_nested_calls_run_on_threads_of_the_same_process(foreman: str, client: gandy.Client) -> None:
    expected = [([1, number, number**2], {True}) for number in range(10)]
    with joblib.parallel_config("gandy", foreman=foreman):
        assert Parallel()(delayed(run_inside)(number) for number in range(10)) == expected
        assert Parallel()(delayed(ask_for_a_crew_inside)(foreman, number) for number in range(10)) == expected
    assert list(client.map(ask_for_a_crew_inside, [foreman] * 10, range(10))) == expected


def test_grid_search_finds_what_it_finds_alone(foreman: str) -> None:
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    data = load_iris()
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 4]}, cv=3)
    forest = RandomForestClassifier(n_estimators=10, random_state=0)
    alone = search.fit(data.data, data.target).cv_results_["mean_test_score"].tolist()
    trees_alone = forest.fit(data.data, data.target).predict(data.data).tolist()
    with joblib.parallel_config("gandy", foreman=foreman):
        assert search.fit(data.data, data.target).cv_results_["mean_test_score"].tolist() == alone
        assert forest.fit(data.data, data.target).predict(data.data).tolist() == trees_alone
