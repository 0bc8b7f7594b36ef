"""Counters that never fall, whatever a foreman counts anew."""

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.dashboard.pictures import NOW, a_picture, a_worker, an_update

from gandy.core.extensions import MachineLoad
from gandy.core.views import CommandGlance, find_bucket
from gandy.dashboard.metrics import Metrics
from gandy.dashboard.rows import Surroundings
from gandy.viewer.picture import Picture


def a_command(name: str, *microseconds: int, failed: int = 0, workers: int = 1) -> CommandGlance:
    buckets = [0] * (max(map(find_bucket, microseconds), default=-1) + 1)
    for value in microseconds:
        buckets[find_bucket(value)] += 1
    return CommandGlance(name, workers, 0, len(microseconds), failed, tuple(buckets))


def read(metrics: Metrics, picture: Picture) -> dict[str, float]:
    text = metrics.format(picture, Surroundings(NOW), 0).decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name + "".join(f" {label}" for label in sample.labels.values()): sample.value for sample in samples}


def note(metrics: Metrics, picture: Picture, *commands: CommandGlance, is_whole: bool = False) -> dict[str, float]:
    picture.apply(an_update(commands=commands, is_whole=is_whole), NOW)
    metrics.note(picture, picture.take_changes())
    return read(metrics, picture)


def test_calls_of_all_commands_are_in_one_histogram() -> None:
    metrics, picture = Metrics(), a_picture()
    numbers = note(metrics, picture, a_command("a", 10, 63, 64, failed=1), a_command("b", 1_000_000, 10**9))
    assert (numbers["gandy_calls_total"], numbers["gandy_calls_failed_total"]) == (5, 1)
    assert numbers["gandy_call_duration_seconds_bucket 6.4e-05"] == 2
    assert numbers["gandy_call_duration_seconds_bucket 0.000256"] == 3
    assert numbers["gandy_call_duration_seconds_bucket 0.262144"] == 3
    assert numbers["gandy_call_duration_seconds_bucket 1.048576"] == 4
    assert numbers["gandy_call_duration_seconds_bucket 67.108864"] == 4
    assert numbers["gandy_call_duration_seconds_bucket +Inf"] == 5
    assert abs(numbers["gandy_call_duration_seconds_sum"] / 1001 - 1) < 0.125


def test_counters_grow_by_what_is_new() -> None:
    metrics, picture = Metrics(), a_picture()
    note(metrics, picture, a_command("a", 10, 10))
    assert note(metrics, picture, a_command("a", 10, 10, 70))["gandy_calls_total"] == 3
    assert note(metrics, picture)["gandy_calls_total"] == 3


def test_counters_do_not_fall_when_a_foreman_counts_anew() -> None:
    metrics, picture = Metrics(), a_picture()
    note(metrics, picture, a_command("a", 10, 10, 10))
    numbers = note(metrics, picture, a_command("a", 10), is_whole=True)
    assert (numbers["gandy_calls_total"], numbers["gandy_call_duration_seconds_count"]) == (4, 4)


def test_counters_do_not_fall_when_a_command_is_gone() -> None:
    metrics, picture = Metrics(), a_picture()
    note(metrics, picture, a_command("a", 10, 10, 10), a_command("b", 10))
    assert note(metrics, picture, a_command("b", 10, 10), is_whole=True)["gandy_calls_total"] == 5


def test_crew_that_cannot_be_watched_is_down() -> None:
    metrics, picture = Metrics(), a_picture()
    for about, up in ((Surroundings(NOW), 1), (Surroundings(NOW, "away"), 0), (Surroundings(NOW, "", 1, False), 0)):
        text = metrics.format(picture, about, 0).decode()
        assert f"\ngandy_up {up}\n" in text
        assert f'gandy_trouble{{severity="bad"}} {1 - up}\n' in text


def test_busiest_machine_is_shown_whichever_it_is() -> None:
    metrics, picture = Metrics(), a_picture()
    machines = {"a": MachineLoad(4.0, 8, 9, 10), "b": MachineLoad(3.0, 2, 5, 10), "c": MachineLoad(9.0), "d": None}
    workers = tuple(a_worker(name, machine=machine) for name, machine in machines.items())
    picture.apply(an_update(workers=workers), NOW)
    numbers = read(metrics, picture)
    assert (numbers["gandy_worker_load_max_ratio"], numbers["gandy_worker_memory_max_ratio"]) == (1.5, 0.9)
