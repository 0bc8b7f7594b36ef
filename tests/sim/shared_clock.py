"""The clock of the bus in a simulated crew: an ensemble on the time and the random numbers of the crew."""

from typing import Protocol

from tests.sim.ensemble import EnsembleSim, SimMember
from tests.sim.ensemble_network import NetworkFaults

from gandy.testing.simulation import Simulation


class Clock(Protocol):
    """What a machine knows of the shared time."""

    def read(self) -> float | None:
        """The shared time; None if it is not known."""
        ...


class NoClock:
    """A machine in no ensemble."""

    def read(self) -> float | None:
        return None


class MemberClock:
    """A machine with a member of the ensemble."""

    def __init__(self, member: SimMember) -> None:
        self._member = member

    def read(self) -> float | None:
        return self._member.shared if self._member.member.time.is_synced(self._member.now) else None


class SharedTime:
    """The ensemble. The first member leads."""

    def __init__(self, simulation: Simulation, faults: NetworkFaults) -> None:
        self._ensemble = EnsembleSim(faults=faults, simulation=simulation)
        self._clocks: list[MemberClock] = []

    def add(self) -> MemberClock:
        host = self._ensemble.network.add_host()
        clock = MemberClock(self._ensemble.add_member(host, may_lead=not self._clocks))
        self._clocks.append(clock)
        return clock

    def wait(self) -> None:
        """Let time pass until all members know the shared time."""
        while any(clock.read() is None for clock in self._clocks):
            self._ensemble.sim.step()
