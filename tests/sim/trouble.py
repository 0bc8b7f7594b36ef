"""Faults in a simulated crew for a few seconds, and what operators repair afterwards."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.sim.network import LinkFaults
from tests.sim.pingpong_peers import PingPongProcess
from tests.sim.roundrobin_peers import RoundRobinWorker
from tests.sim.workers import GandyWorker, WorkerMachine

from gandy.core import requests as ask
from gandy.talk.foreman import ForemanSide
from gandy.wire.messages import Reset

if TYPE_CHECKING:
    from tests.sim.crew import Crew

STEPS: Final = (-86_400.0, -3_600.0, -1.0, 1.0, 3_600.0, 86_400.0)  # seconds of the wall clock

Fault = Callable[[], None]


class Trouble:
    """Causes faults at random, as its plan says."""

    def __init__(self, crew: "Crew") -> None:
        self._crew = crew
        self._plan = crew.plan
        self._random = crew.random
        self._starts_at = 0.0

    @property
    def may_start(self) -> bool:
        """True if a foreman that crashed was down for long enough."""
        return self._crew.simulation.now >= self._starts_at

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def strike(self) -> None:
        crew, plan = self._crew, self._plan
        if self._happens(plan.steps):
            crew.program.wall_ahead += self._random.choice(STEPS)
        if self._happens(plan.crash) and crew.program.is_up:
            crew.laws.seen["foreman crash"] += 1
            crew.program.crash()
            self._starts_at = crew.simulation.now + self._random.choice(plan.down)
        if self._happens(plan.full_disk):
            crew.disk.is_full = not crew.disk.is_full
        if plan.trouble:
            self._strike_peers(plan.trouble)

    def _strike_peers(self, chance: float) -> None:
        crew = self._crew
        for worker in crew.workers:
            if worker.is_up and self._happens(chance):
                self._random.choice(self._list_faults(worker))()
        for client in crew.clients:
            if self._happens(chance / 3):
                client.cut()
        for process in crew.roundrobin:
            if process.is_up and self._happens(chance / 2):
                self._random.choice(_list_roundrobin_faults(process))()
        for peer in crew.pingpong:
            if peer.is_up and self._happens(chance / 2):
                self._random.choice(_list_pingpong_faults(peer))()
        for asker in crew.roundrobin_clients:
            if asker.is_up and self._happens(chance / 4):
                asker.vanish()

    def _list_faults(self, worker: WorkerMachine) -> list[Fault]:
        faults: list[Fault] = [worker.restart, worker.cut]
        if isinstance(worker, GandyWorker):
            slots = self._random.randint(0, worker.slots)
            faults += [worker.reset, worker.calls.announce, lambda: worker.change_capacity(slots)]
        if worker.end is not None:
            faults += [self._reset_all, worker.end.wire.fail]
        return faults

    def _reset_all(self) -> None:
        """The foreman begins sequence numbers anew."""
        program = self._crew.program
        for link in program.foreman.links.by_name.values() if program.is_up else ():
            if isinstance(link.side, ForemanSide) and link.side.exchange.can_request(Reset()):
                link.side.requests.append(Reset())
                link.flush()

    # Afterwards

    def clear_up(self) -> None:
        """No job stays held or open, and no worker short of memory."""
        crew = self._crew
        crew.network.faults = LinkFaults(max_delay=self._plan.faults.max_delay)
        crew.disk.is_full, crew.disk.error = False, 0.0
        for peer in crew.roundrobin:
            peer.drops = 0.0
        for worker in crew.workers:
            if isinstance(worker, GandyWorker) and worker.is_up and worker.tasks.allowed < worker.slots:
                worker.change_capacity(worker.slots)
        if crew.program.is_up:
            self._release_jobs()

    def _release_jobs(self) -> None:
        """Users release held jobs, also those whose client lost the answer. The foreman closes open jobs."""
        clients = self._crew.clients
        owners = {job: client for client in clients for job in client.list_jobs()}
        for job in self._crew.program.foreman.reactor.jobs:
            owner = owners.get(job.id, clients[0])
            if job.held and not owner.is_waiting:
                owner.change(ask.ReleaseJob(job.id))


def _list_roundrobin_faults(peer: RoundRobinWorker) -> list[Fault]:
    return [peer.restart, peer.hang, peer.lose_line]


def _list_pingpong_faults(peer: PingPongProcess) -> list[Fault]:
    return [peer.restart, peer.line.cut]
