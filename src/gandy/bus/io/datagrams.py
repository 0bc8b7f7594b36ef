"""Reads and sends the datagrams of a member. In a private ensemble it seals and opens them."""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gandy.bus.core.effects import Datagram
from gandy.bus.core.member import Member
from gandy.bus.io.sockets import DATAGRAM_BUFFER, READS_PER_TURN, Sockets
from gandy.bus.io.spinning import SpinPolicy
from gandy.bus.limits import MAX_WAITING_DELIVERIES
from gandy.clocks import read_monotonic
from gandy.moments import LONG_AGO

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy

log = logging.getLogger("gandy.bus")

BURST_GAP: Final = 25e-6  # seconds between datagrams; a sender that waits for an answer takes longer
BROADCAST_IP: Final = "255.255.255.255"


class Datagrams:
    """The UDP side of an engine, which holds its lock during every method."""

    def __init__(self, sockets: Sockets, member: Member, spin: SpinPolicy, privacy: "Privacy | None") -> None:
        self._sockets = sockets
        self._member = member
        self._foreign = member.links.foreign  # while it is not empty, `on_datagram` needs the IP of every sender
        self._spin = spin
        self._privacy = privacy
        self._is_burst = False  # datagrams come less than BURST_GAP apart
        self._read_at = LONG_AGO

    def read(self, _event: int) -> bool:
        """True if the engine must do more than hand out deliveries."""
        # A second read only in a burst: one that finds nothing takes as long as one that reads a datagram.
        limit = READS_PER_TURN if self._is_burst else 1
        sock, member, read, ip, result = self._sockets.datagrams, self._member, 0, "", False
        if len(member.deliveries) >= MAX_WAITING_DELIVERIES:  # links have filled them
            return False
        try:
            while read < limit and len(member.deliveries) < MAX_WAITING_DELIVERIES:
                if self._foreign:
                    data, (ip, _) = sock.recvfrom(DATAGRAM_BUFFER)
                else:  # formatting the sender's address takes longer than reading the message
                    data = sock.recv(DATAGRAM_BUFFER)
                now = read_monotonic()
                if self._privacy is not None:
                    data = self._privacy.open(data)
                if data:  # programs without the key must not keep us spinning
                    self._spin.on_message(now)
                if not member.on_datagram(data, ip, now):
                    result = True
                read += 1
        except OSError:
            now = read_monotonic()  # nothing is left; or ICMP reports that an earlier datagram was not delivered
        self._is_burst = read > 1 or now - self._read_at < BURST_GAP
        self._read_at = now
        return result

    def read_discovery(self, _event: int) -> bool:
        with suppress(OSError):  # as above
            for _ in range(READS_PER_TURN):
                data, (ip, _) = self._sockets.discovery.recvfrom(DATAGRAM_BUFFER)
                if self._privacy is not None:
                    data = self._privacy.open(data)
                self._member.on_datagram(data, ip, read_monotonic())
        return True

    def send(self, datagram: Datagram) -> None:
        data, where = datagram.data, (datagram.ip, datagram.port)
        if self._privacy is not None and not (data := self._privacy.seal(data, where)):
            return  # its link has just gone
        try:
            self._sockets.datagrams.sendto(data, where)
        except OSError as error:  # UDP is best effort
            log.debug("a datagram was not sent: %s", error)

    def broadcast(self, port: int, data: bytes) -> None:
        if self._privacy is not None:
            data = self._privacy.seal(data, None)
        with suppress(OSError):  # there is no network now
            self._sockets.broadcasts.sendto(data, (BROADCAST_IP, port))
