"""A whole crew on simulated time: foreman, disk, network, workers of every kind, clients and doors, from one seed.

For three seconds clients want things (`wishes.py`) and everything fails (`trouble.py`), as the seed's plan says
(`plan.py`). Then nothing fails any more, and all work must end. The laws (`laws.py`, `overseer.py`) hold at every
moment. What is simulated: links (`network.py`), the disk, the clocks (`shared_clock.py`, with real members of an
ensemble), and the programs around the real `core.Foreman` and its doors (`foreman.py`, `requests.py`, `doors.py`),
around workers (`workers.py`, `*_peers.py`) and around clients (`clients.py`).

To replay a seed that broke a law: `python -m tests.sim SEED`. It prints what arrived when, and then the law.
The same seed is the same run, in every process. `GANDY_SIM_SEEDS=100000 make test` runs more of them.
"""

import os
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final

from tests.sim import pingpong_peers
from tests.sim.clients import JobClient
from tests.sim.disk import Disk
from tests.sim.doors import SimulatedSocket
from tests.sim.ensemble_network import NetworkFaults
from tests.sim.foreman import ForemanProgram
from tests.sim.garbage import freed_at_the_end
from tests.sim.laws import BrokenLaw, Law, Laws
from tests.sim.network import Network, Wire
from tests.sim.overseer import Overseer
from tests.sim.pingpong_peers import PingPongProcess
from tests.sim.plan import CLEAR, HORIZON, Plan, draw_plan
from tests.sim.referee import GreetedReferee
from tests.sim.roundrobin_peers import RoundRobinClient, RoundRobinMemory, RoundRobinWorker
from tests.sim.shared_clock import Clock, NoClock, SharedTime
from tests.sim.trouble import Trouble
from tests.sim.wishes import COMMANDS, Wishes
from tests.sim.workers import FirstGenerationWorker, GandyWorker, PlainWorker, WorkerMachine

from gandy.core.policy import Policy
from gandy.testing.referee import BrokenLaw as BrokenProtocol
from gandy.testing.simulation import Simulation

SEEDS: Final = int(os.environ.get("GANDY_SIM_SEEDS", "1000"))
CHECK_PERIOD: Final = 5  # steps: tables that disagree do so for a while, and a look at them takes long
MAX_SECONDS: Final = 150.0  # by then all work must have ended
TICK: Final = 0.1  # seconds between two checks of the crew while faults happen
CALM_TICK: Final = 0.5  # and afterwards
AIR: Final = NetworkFaults(max_delay=0.002)  # between members of the ensemble


class Crew:
    """`run` it, and every law was kept or `BrokenLaw` is raised."""

    def __init__(
        self, seed: int, plan: Plan | None = None, program_class: type[ForemanProgram] = ForemanProgram
    ) -> None:
        self.plan = plan = plan or draw_plan(seed)
        self.simulation = Simulation(seed)
        self.random = Random(f"{seed} crew")
        self.laws = Laws()
        self.network = Network(self.simulation, plan.faults)
        self.watched: list[tuple[Wire, GreetedReferee]] = []
        if plan.is_watched:
            self.network.watch = self._watch
        self.disk = Disk(self.laws, plan.max_commit, plan.disk_error, seed)
        self._shared_time = SharedTime(self.simulation, AIR) if plan.has_clock else None
        self.program = self._make_program(program_class)
        self._add_doors()
        self.workers = list(self._make_workers())
        self.clients = [self._make_client(number) for number in range(plan.clients)]
        self.wishes = Wishes(self)
        self._trouble = Trouble(self)
        self._overseer = Overseer(self)
        self.is_done = False
        self._steps = 0
        self._start()

    def _start(self) -> None:
        if self._shared_time is not None:
            self._shared_time.wait()
        self._began = self.simulation.now
        self.program.start()
        for actor in (*self.workers, *self.clients, *self.roundrobin, *self.roundrobin_clients, *self.pingpong):
            actor.start()
        self.wishes.give()
        self.simulation.call_later(TICK, self._tick)

    def _watch(self, wire: Wire) -> tuple[GreetedReferee]:
        referee = GreetedReferee()
        self.watched.append((wire, referee))
        return (referee,)

    # Members

    def _make_program(self, program_class: type[ForemanProgram]) -> ForemanProgram:
        # A crash limit that is never reached: here crashes are random, and not the task's fault.
        plan = self.plan
        policy = Policy(grace=plan.grace, crash_limit=1_000, look_ahead=plan.look_ahead)
        program = program_class(self.simulation, self.network, self.disk, self.laws, policy, self._make_clock())
        program.may_reboot = not plan.has_clock  # otherwise only the wall clock could say when jobs with a time begin
        program.after_step = self._on_step
        return program

    def _make_clock(self) -> Clock:
        return NoClock() if self._shared_time is None else self._shared_time.add()

    def _make_workers(self) -> Iterable[WorkerMachine]:
        plan, program = self.plan, self.program
        sim, laws, luck = self.simulation, self.laws, plan.luck
        for number in range(plan.gandy):
            slots = self.random.choice([1, 1, 2, 4])
            commands = COMMANDS if plan.calls else ()
            yield GandyWorker(sim, program, laws, f"gandy{number}", slots, luck, commands, self._make_clock())
        for number in range(plan.plain):
            yield PlainWorker(sim, program, laws, f"plain{number}", self.random.randint(1, 3), luck)
        for number in range(plan.first_generation):
            yield FirstGenerationWorker(sim, program, laws, f"first{number}", self.random.randint(1, 3), luck)

    def _make_client(self, number: int) -> JobClient:
        clock = self.workers[0].clock if self.workers and isinstance(self.workers[0], GandyWorker) else NoClock()
        return JobClient(self.simulation, self.program, self.laws, f"client{number}", clock)

    def _add_doors(self) -> None:
        sim, laws, plan, program = self.simulation, self.laws, self.plan, self.program
        self.roundrobin: list[RoundRobinWorker] = []
        self.roundrobin_clients: list[RoundRobinClient] = []
        self.pingpong: list[PingPongProcess] = []
        self.doors: list[SimulatedSocket] = []
        if plan.roundrobin:
            socket = SimulatedSocket(program, laws, "round-robin", RoundRobinMemory().make_door)
            self.doors.append(socket)
            for number in range(plan.roundrobin):
                self.roundrobin.append(RoundRobinWorker(sim, socket, laws, f"rr{number}", plan.drops))
            self.roundrobin_clients.append(RoundRobinClient(sim, socket, laws, "rrclient"))
            # The others may have been dismissed, and the original then waits until a user starts it again.
            last = RoundRobinWorker(sim, socket, laws, "rr last", 0.0)
            sim.call_later(CLEAR, last.start)
        if plan.pingpong:
            socket = SimulatedSocket(program, laws, "ping-pong", pingpong_peers.make_door)
            self.doors.append(socket)
            self.pingpong += [PingPongProcess(sim, socket, laws, f"pp{number}") for number in range(plan.pingpong)]

    # Running

    @property
    def _elapsed(self) -> float:
        return self.simulation.now - self._began

    def _on_step(self) -> None:
        self._steps += 1
        if self._steps % CHECK_PERIOD == 0:
            self._check_tables()

    def _check_tables(self) -> None:
        self.laws.check_tables(self.program.foreman)
        for socket in self.doors:
            socket.check()

    def _tick(self) -> None:
        is_clear = self._elapsed >= CLEAR
        if is_clear:
            self._trouble.clear_up()
        else:
            self._trouble.strike()
        if not self.program.is_up and self._trouble.may_start:
            self.program.start()
        self._overseer.look()
        self.is_done = self._elapsed > HORIZON and not self._overseer.find_unended()
        if not self.is_done:
            self.simulation.call_later(CALM_TICK if is_clear else TICK, self._tick)

    def run(self) -> None:
        """Raises: BrokenLaw."""
        try:
            self._run()
        except BrokenProtocol as error:
            raise BrokenLaw(Law.PROTOCOL, f"seed {self.simulation.seed}: {error}") from error
        except BrokenLaw as broken:
            broken.add_note(f"seed {self.simulation.seed} at {self.simulation.now:.3f} s")
            raise

    def _run(self) -> None:
        while not self.is_done:
            if self._elapsed > MAX_SECONDS:
                raise BrokenLaw(Law.ENDS, self._overseer.find_unended())
            self.simulation.step()
        self._check_tables()
        self._overseer.check_end()


def run_seeds(seeds: Iterable[int]) -> Counter[str]:
    """Returns what was seen, in all of them together. Raises: BrokenLaw."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        with freed_at_the_end():
            crew = Crew(seed)
            crew.run()
            seen.update(crew.laws.seen)
            del crew
    return seen


def write_transcript(seed: int) -> str:
    """One line for each message that arrived anywhere."""
    crew = Crew(seed)
    crew.network.transcript = []
    crew.run()
    return "\n".join(crew.network.transcript)
