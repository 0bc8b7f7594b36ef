"""Exchanges messages about the shared time with other processes: docs/protocol/bus.md, rules 14 to 16."""

from typing import assert_never

from gandy.bus.core.clock import LeadAct
from gandy.bus.core.directory import ServiceDirectory
from gandy.bus.core.effects import ClockChanged, ClockFound, ClockLost, Datagram, MemberOutput
from gandy.bus.core.links import Links
from gandy.bus.core.processes import Process, ProcessState
from gandy.bus.core.timekeeper import Timekeeper
from gandy.bus.wire import control
from gandy.bus.wire.dialects import CLOCK_SERVICE, Dialect
from gandy.moments import Monotonic


class ClockExchange:
    """Asks the leader for the time, answers if we lead, and announces which process leads."""

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        time: Timekeeper,
        links: Links,
        directory: ServiceDirectory,
        output: MemberOutput,
    ) -> None:
        self._name = name
        self._dialect = dialect
        self._time = time
        self._links = links
        self._directory = directory
        self._output = output

    def greet(self, process: Process, is_synced: bool) -> None:
        """Announce that we know the time, if the peer ignores that field of the init message, as 2016 does."""
        if is_synced and not self._dialect.reads_sync_of_init:
            self._send_synced(process)
        process.knows_our_state = is_synced

    # The leader

    def choose_leader(self, now: Monotonic) -> None:
        """To be called when a process began or ceased to offer the clock."""
        processes = self._links.processes
        others = [process.name for process in processes.values() if CLOCK_SERVICE in process.services]
        greater = sum(1 for name in processes if name > self._name)
        before = self._time.leader or self._name
        self._act(self._time.on_offers(others, greater, now), before)

    def on_time(self, now: Monotonic) -> None:
        others_know = any(process.state is ProcessState.OK for process in self._links.processes.values())
        self._act(self._time.on_time(now, others_know), self._name)
        for serial in self._time.follower.on_time(now):
            self._ask(serial)

    def _act(self, acts: tuple[LeadAct, ...], before: str) -> None:
        """`before`: the process that led until now."""
        for act in acts:
            match act:
                case LeadAct.OFFER:
                    self._directory.offer(CLOCK_SERVICE)
                    self._on_synced()
                case LeadAct.ANNOUNCE:
                    self._directory.announce(CLOCK_SERVICE)
                case LeadAct.WITHDRAW:
                    self._directory.withdraw(CLOCK_SERVICE)
                case LeadAct.WAIT:
                    self._output.news.append(ClockLost(before))
                case LeadAct.FOLLOW:
                    pass  # we use its time when it has answered often enough
                case _:
                    assert_never(act)

    def _on_synced(self) -> None:
        self._output.news.append(ClockFound(self._time.leader or self._name))
        for process in self._links.list_greeted():
            if not process.knows_our_state:
                self._send_synced(process)

    def _send_synced(self, process: Process) -> None:
        process.knows_our_state = True
        self._output.write(
            process.link, control.encode_clock_synced(control.ClockSynced(self._name), process.name, self._dialect)
        )

    # Requests and replies

    def _ask(self, serial: int) -> None:
        leader = self._links.processes.get(self._time.leader or "")
        if leader is not None:  # there is none after `close`
            data = control.encode_clock_request(control.make_clock_request(serial, self._name), self._dialect)
            self._output.effects.append(Datagram(leader.ip, leader.udp_port, data))

    def on_request(self, request: control.ClockRequest, now: Monotonic) -> None:
        time = self._time.on_request(now)
        asker = self._links.processes.get(request.reply_to[1:].partition("/")[0])
        if time is None or asker is None or not asker.is_here:
            self._output.dropped["clock request"] += 1
            return
        # It can always be encoded: MAX_REPLY_TO characters that name a process fit an address.
        data = control.encode_clock_reply(control.ClockReply(request.serial, time), request, self._dialect)
        self._output.effects.append(Datagram(asker.ip, asker.udp_port, data))

    def on_reply(self, reply: control.ClockReply, now: Monotonic) -> bool:
        """True if the shared time jumped back: times that were agreed on before are no longer valid."""
        effect = self._time.on_reply(reply.serial, reply.time, now)
        if effect.jump:
            self._output.news.append(ClockChanged(self._time.leader or "", effect.jump))
        if effect.is_new_leader:
            self._on_synced()
        return effect.jump < 0.0
