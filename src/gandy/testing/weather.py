"""A link in bad weather: delays, torn packets and cuts, on simulated time."""

from collections.abc import Iterable

from msgspec import Struct

from gandy.talk.law import Role
from gandy.testing.link import End, SimulatedLink, Watcher
from gandy.testing.simulation import Simulation


class Weather(Struct, frozen=True):
    """What a network does to a link. Times are in seconds, the others are chances from 0 to 1."""

    min_delay: float = 0.0001
    max_delay: float = 0.005
    tear: float = 0.3  # a packet arrives in two pieces
    cut: float = 0.0  # the link breaks when a packet arrives


class WeatheredLink(SimulatedLink):
    """A link that delivers by itself: `flush`, and let the simulation run."""

    def __init__(
        self, simulation: Simulation, weather: Weather, worker: End, foreman: End, watchers: Iterable[Watcher] = ()
    ) -> None:
        super().__init__(worker, foreman, watchers)
        self._simulation = simulation
        self._weather = weather
        self._under_way = {Role.WORKER: False, Role.FOREMAN: False}

    def flush(self) -> None:
        super().flush()
        for sender, data in self.in_flight.items():
            if data and not self._under_way[sender]:
                self._under_way[sender] = True
                delay = self._simulation.random.uniform(self._weather.min_delay, self._weather.max_delay)
                self._simulation.call_later(delay, lambda sender=sender: self._arrive(sender))  # type: ignore[misc]

    def _arrive(self, sender: Role) -> None:
        self._under_way[sender] = False
        if not self.is_up:
            return
        chance = self._simulation.random
        if chance.random() < self._weather.cut:
            self.cut()
            return
        count = len(self.in_flight[sender])
        if chance.random() < self._weather.tear:
            count = chance.randint(1, count)
        self.deliver(sender, count)
        self.flush()
