"""The harness of the benchmarks: its arithmetic, its marks, its plots and what it says of who is missing."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench import catalogue, environments, figures, harness, marks, processes, records
from bench.__main__ import parse
from bench.catalogue import Entry
from bench.contract import Contestant, Kind, Missing, Place, Table
from bench.figures import Sample
from tools import describe_benchmarks, draw_bars
from tools.draw_bars import Bar

TABLE = Table("speed", "Speed", "tasks", 100, "limit")


def never(_place: Place) -> Any:
    raise AssertionError("it must not be started")


def row(median: float, best: float = 0.0, **more: Any) -> dict[str, Any]:
    plain = {"cpu_us": 7.0, "operations": 100, "ratio": 1.0, "best_ratio": None, "durability": "none"}
    about = {"versions": {"gandy": "1.2"}, "note": "", "idle_percent": 0.0}
    return {"median": median, "best": best or median, **plain, **about, **more}


def a_record(rows: dict[str, dict[str, Any]], kind: str = "rates") -> dict[str, Any]:
    about = {"key": "speed", "title": "Speed <&>", "unit": "tasks", "kind": kind, "reference": "limit", "note": "Note."}
    where = {"workload": "speed", "date": "2030-01-01", "cores": 2, "machine": "x", "kernel": "k", "python": "3"}
    return {**about, "where": where, "repeats": 3, "rows": rows, "missing": {}}


# Arithmetic


def test_rates_have_best_median_and_cpu_of_each_operation() -> None:
    samples = [Sample(100, seconds, cpu=0.001) for seconds in (1.0, 0.5, 2.0)]
    expected = {"best": 200.0, "median": 100.0, "operations": 100, "repeats": 3, "cpu_us": 10.0}
    assert figures.summarize(Kind.RATES, samples) == expected


def test_times_are_microseconds_of_all_repeats_together() -> None:
    samples = [Sample(50, 1.0, 0.0, [at * 1e-6 for at in range(begin, 101, 2)]) for begin in (1, 2)]
    found = figures.summarize(Kind.TIMES, samples)
    assert (found["best"], found["median"], found["p99"]) == (1.0, 50.5, 100.0)


def test_ratios_are_of_medians_and_of_bests() -> None:
    rows = {"limit": {"median": 10.0, "best": 20.0}, "ours": {"median": 5.0, "best": 40.0}}
    figures.add_ratios(rows, "limit")
    assert (rows["ours"]["ratio"], rows["ours"]["best_ratio"]) == (0.5, 2.0)
    assert (rows["limit"]["ratio"], rows["limit"]["best_ratio"]) == (1.0, 1.0)


def test_without_a_reference_there_are_no_ratios() -> None:
    rows: dict[str, dict[str, Any]] = {"ours": {"median": 5.0, "best": 40.0}}
    figures.add_ratios(rows, "limit")
    assert rows["ours"]["ratio"] is None
    assert figures.divide(1.0, 0.0) is None


# Marks


@pytest.mark.parametrize(
    ("sign", "value", "word"),
    [("≥", 2.0, "met"), ("≥", 1.9, "not met"), (">", 2.0, "not met"), ("≤", 2.0, "met"), ("<", 2.0, "not met")],
)
def test_mark_is_met_by_the_median(sign: str, value: float, word: str) -> None:
    mark = marks.Mark("W0", "speed", sign, 2, marks.ratio("speed", "gandy", "limit"))
    (verdict,) = marks.judge({"speed": a_record({"gandy": row(value, best=100.0), "limit": row(1.0)})}, [mark])
    assert (verdict.median, verdict.best, verdict.word) == (value, 100.0, word)


def test_mark_that_needs_more_cores_is_not_judged() -> None:
    mark = marks.Mark("W0", "speed", ">", 1, marks.ratio("speed", "gandy", "limit"), cores=3)
    (verdict,) = marks.judge({"speed": a_record({"gandy": row(1.0), "limit": row(1.0)})}, [mark])
    assert verdict.word == "needs 3 cores"


def test_last_row_is_compared_with_the_first_by_the_sum_of_figures() -> None:
    def figures(one: float, two: float) -> dict[str, dict[str, float]]:
        return {"a": {"median": one, "best": one}, "b": {"median": two, "best": two}}

    rows = {"few": row(1.0, figures=figures(1, 3)), "many": row(1.0, figures=figures(2, 4))}
    measure = marks.last_to_first("speed", "a", "b")
    assert measure({"speed": a_record(rows)}, "median") == 1.5
    assert measure({"speed": a_record({"few": rows["few"]})}, "median") is None


def test_mark_without_results_is_not_measured() -> None:
    assert {verdict.word for verdict in marks.judge({})} == {"not measured"}
    mark = marks.Mark("W0", "speed", ">", 1, marks.ratio("speed", "gandy", "absent"))
    assert marks.judge({"speed": a_record({"gandy": row(1.0)})}, [mark])[0].word == "not measured"


@pytest.mark.parametrize(("kind", "expected"), [("rates", 0.5), ("times", 1.25)])
def test_nearest_peer_counts_and_limits_do_not(kind: str, expected: float) -> None:
    rows = {"gandy": row(10.0), "gandy, map": row(99.0), "NATS": row(20.0), "Ray": row(8.0), "bare relay": row(1.0)}
    assert marks.ratio_to_best_peer("speed")({"speed": a_record(rows, kind)}, "median") == expected


def test_late_calls_are_compared_with_the_median_only() -> None:
    tables = {"speed": a_record({"gandy": row(10.0, p99=40.0)}, "times")}
    measure = marks.late_ratio("speed", "gandy")
    assert (measure(tables, "median"), measure(tables, "best")) == (4.0, None)


def test_every_mark_names_rows_that_exist() -> None:
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    known = ("foreman_us", "foreman_mib", "postgres_us", "busiest_us", "bytes_per_row", "statements_per_second")
    told = {name: {"best": 1.0, "median": 1.0} for name in known}
    for entry in catalogue.list_entries():
        rows.setdefault(entry.contestant.table, {})[entry.contestant.name] = row(1.0, p99=1.0, figures=told)
    verdicts = marks.judge({key: a_record(found) for key, found in rows.items()})
    assert [verdict.mark.text for verdict in verdicts if verdict.mark.measure and verdict.median is None] == []


# Who takes part


def test_every_contestant_has_a_table_and_every_table_its_reference() -> None:
    catalogue.check(catalogue.list_workloads(), catalogue.list_entries())


def test_contestant_of_no_table_is_refused() -> None:
    entries = [Entry("x", Contestant("speed", "limit", never)), Entry("x", Contestant("weight", "limit", never))]
    with pytest.raises(ValueError, match="no such table: weight"):
        catalogue.check({"speed": (TABLE,)}, entries)
    with pytest.raises(ValueError, match="speed has no reference"):
        catalogue.check({"speed": (TABLE,)}, [])


def test_no_two_contestants_of_a_table_have_one_name() -> None:
    names = [(entry.contestant.table, entry.contestant.name) for entry in catalogue.list_entries()]
    assert len(set(names)) == len(names)


def test_who_lacks_a_program_is_named_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(harness, "STORE", tmp_path)
    entry = Entry("x", Contestant("speed", "ours", never, programs=("no-such-program",)))
    outcome = harness.run_table(TABLE, [entry], repeats=2)
    assert outcome.rows == {}
    assert outcome.missing == {"ours": "no-such-program is not installed, and cannot be fetched"}
    assert "missing: no-such-program" in records.show(outcome)
    assert list(tmp_path.iterdir()) == []


def test_who_lacks_a_package_is_named_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "prepare", lambda _name: {"celery": "pip cannot install it"})
    with pytest.raises(Missing, match="celery: pip cannot install it"):
        harness.find_needs(Contestant("speed", "ours", never, environment="peers", packages=("celery",)))


def test_reason_is_one_line_without_paths() -> None:
    text = "cannot open /home/somebody/project/file.txt\nmore of it"
    assert harness.format_reason(text) == "cannot open file.txt"
    assert harness.format_reason("") == "no reason"


def test_every_package_that_a_contestant_needs_is_pinned() -> None:
    for entry in catalogue.list_entries():
        if environment := entry.contestant.environment:
            text = (environments.REQUIREMENTS / f"{environment}.txt").read_text()
            pinned = {environments.name_package(line) for line in environments.list_lines(text) if "==" in line}
            assert set(entry.contestant.packages) <= pinned


# What is kept and shown


def test_results_are_kept_and_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    outcome = harness.Outcome(TABLE, 3, {"limit": row(1.0)}, {"ours": "it is not there"}, 4.5)
    records.keep("speed", [outcome])
    found = records.load()["speed"]
    assert found["rows"] == outcome.rows
    assert found["missing"] == outcome.missing
    assert (found["repeats"], found["stolen_percent"]) == (3, 4.5)
    assert json.loads((tmp_path / "speed.json").read_text())["workload"] == "speed"


def test_table_of_the_page_has_rows_best_first_and_who_is_missing() -> None:
    found = a_record({"limit": row(1.0), "gandy": row(1_234.0, ratio=1_234.0)})
    found["missing"] = {"Ray": "pip cannot install it"}
    lines = describe_benchmarks.describe_table(found).splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")][2:] == ["| **gandy**", "| limit"]
    assert "| **gandy** | 1,234 | 1,234 | 1,234 | - | 7 | 100 | none | gandy 1.2 |" in lines
    assert "Missing: Ray (pip cannot install it)." in lines
    assert lines[-1].endswith("interleaved repeats.")
    found["stolen_percent"] = 4.5
    assert describe_benchmarks.describe_table(found).endswith("; CPU steal 4.5 %.")


def test_cpu_steal_is_kept_and_shown() -> None:
    outcome = harness.Outcome(TABLE, 3, stolen_percent=4.5)
    assert "CPU steal 4.5 %" in records.show(outcome)
    assert "the host" not in records.show(harness.Outcome(TABLE, 3, stolen_percent=0.5))
    assert processes.stolen_seconds() >= 0.0


def test_marks_of_the_page_say_met_not_met_or_not_measured() -> None:
    functions = a_record({"gandy": row(10.0), "Dask": row(1.0), "ProcessPoolExecutor(2), submit": row(10.0)})
    text = describe_benchmarks.list_marks({"functions": functions})
    assert "| W1 | tasks per second, to Dask | ≥ 10 | 10 | 10 | **met** |" in text
    assert "| W1 | to ProcessPoolExecutor's submit | ≥ 1.5 | 1 | 1 | not met |" in text
    assert "| W7 | `gandy --help` | < 150 ms | - | - | not measured |" in text


@pytest.mark.parametrize(
    ("values", "expected"),
    [([2.0, 900.0], (0, 3)), ([1.0, 900.0], (-1, 3)), ([5.0], (0, 1)), ([10.0], (0, 1)), ([0.02, 3.0], (-2, 1))],
)
def test_scale_has_the_powers_of_ten_around_all_values(values: list[float], expected: tuple[int, int]) -> None:
    assert draw_bars.find_decades(values) == expected


def test_plot_is_xml_with_a_bar_for_each_figure_and_longer_ones_for_more() -> None:
    text = draw_bars.draw("a < b", [Bar("much & more", 1_000.0, "gandy"), Bar("little", 10.0, "other")])
    rects = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}rect")
    widths = {rect.get("class"): int(rect.get("width", "")) for rect in rects}
    assert widths["gandy"] > widths["other"] > 0
    assert "much &amp; more" in text
    assert ">1,000<" in text


@pytest.mark.parametrize("repeats", ["0", "-1"])
def test_no_repeats_are_refused_before_they_replace_what_is_kept(repeats: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["functions", "--repeats", repeats])
    assert ended.value.code == 2
