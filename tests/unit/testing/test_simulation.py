import pytest

from gandy.testing import Simulation


def test_things_happen_in_the_order_of_their_time() -> None:
    simulation, seen = Simulation(), list[tuple[float, str]]()
    for delay, name in ((2.0, "later"), (1.0, "first"), (2.0, "last")):
        simulation.call_later(delay, lambda name=name: seen.append((simulation.now, name)))  # type: ignore[misc]
    assert simulation.run() == 3
    assert seen == [(1.0, "first"), (2.0, "later"), (2.0, "last")]


def test_an_endless_run_is_told_with_its_seed() -> None:
    simulation = Simulation(seed=7)

    def again() -> None:
        simulation.call_later(1, again)

    again()
    with pytest.raises(RuntimeError, match="seed 7"):
        simulation.run(max_steps=100)
