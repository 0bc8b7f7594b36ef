"""Makes, accepts, reads, writes and closes the TCP connections of a member, so that nothing sent is lost.

In a private ensemble each of them speaks TLS, and the member learns of a connection when its peer has shown the key.
"""

import logging
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from errno import EAGAIN, EINPROGRESS, EMFILE, ENFILE, EWOULDBLOCK
from functools import partial
from typing import TYPE_CHECKING, Final

from gandy.bus.core.member import Member
from gandy.bus.io.poller import Poller
from gandy.bus.io.sockets import READ_BYTES, READS_PER_TURN, Sockets, set_up_link
from gandy.bus.limits import MAX_UNSENT_BYTES, MAX_WAITING_DELIVERIES
from gandy.clocks import read_monotonic

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy, PrivateSession

log = logging.getLogger("gandy.bus")

FLUSH_SECONDS: Final = 5.0  # when we leave, to send what is left
FAREWELL_SECONDS: Final = 0.2  # after that, for the peers to close their ends


class TcpLink:
    """One connection."""

    def __init__(self, number: int, sock: socket.socket, is_open: bool, session: "PrivateSession | None") -> None:
        self.number = number  # by which the member knows it
        self.socket = sock
        self.is_open = is_open
        self.session = session  # of a private ensemble
        self.is_unreported = False  # we connected, and the member does not know yet
        self.unsent = bytearray()


class TcpLinks:
    """The TCP side of an engine, which holds its lock during every method but `leave` and `close`."""

    def __init__(self, sockets: Sockets, member: Member, poller: Poller, privacy: "Privacy | None") -> None:
        self._server = sockets.server
        self._place = sockets.place
        self._member = member
        self._poller = poller
        self._privacy = privacy
        self._links: dict[int, TcpLink] = {}
        self._is_full = False  # this process cannot open more files

    def __len__(self) -> int:
        return len(self._links)

    def accept(self, _event: int) -> bool:
        for _ in range(READS_PER_TURN):
            try:
                sock, _ = self._server.accept()
            except OSError as error:
                if error.errno in (EMFILE, ENFILE):  # connections left in the queue would wake us again and again
                    self._is_full = True
                    self._poller.modify(self._server, 0)
                break
            self._add(self._member.links.on_accept(read_monotonic()), sock, is_open=True)
        return True

    def maybe_accept_again(self) -> None:
        """After a while, this process may be able to open files again."""
        if self._is_full:
            self._is_full = False
            self._poller.modify(self._server, select.EPOLLIN)

    def connect(self, number: int, ip: str, port: int) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        set_up_link(sock)
        if sock.connect_ex((ip, port)) not in (0, EINPROGRESS):
            sock.close()
            self._member.links.on_cut(number, read_monotonic())
            return
        self._add(number, sock, is_open=False)

    def write(self, number: int, data: bytes) -> None:
        link = self._links.get(number)
        if link is not None:
            self._put(link, data if link.session is None else link.session.seal(data))

    def drop(self, number: int) -> None:
        """Close a connection without calling the member."""
        link = self._links.pop(number, None)
        if link is not None:
            if link.session is not None:
                link.session.close()
            self._poller.remove(link.socket)
            link.socket.close()

    def close(self) -> None:
        for link in self._links.values():
            link.socket.close()

    def _add(self, number: int, sock: socket.socket, is_open: bool) -> None:
        set_up_link(sock)
        session = None if self._privacy is None else self._privacy.make_session(self._place, is_server=is_open)
        link = self._links[number] = TcpLink(number, sock, is_open, session)
        self._poller.add(sock, select.EPOLLIN if is_open else select.EPOLLOUT, partial(self._on_event, link))

    def _watch(self, link: TcpLink) -> None:
        self._poller.modify(link.socket, select.EPOLLIN | (select.EPOLLOUT if link.unsent else 0))

    def _lose(self, link: TcpLink) -> None:
        self.drop(link.number)
        self._member.links.on_cut(link.number, read_monotonic())

    # Reading

    def _on_event(self, link: TcpLink, event: int) -> bool:
        """True if the engine must do more than hand out deliveries."""
        if event == select.EPOLLIN and link.is_open:
            return self._read(link)
        if not link.is_open:
            self._on_connect(link)
            return True
        if event & select.EPOLLOUT:
            self._send_more(link)
        if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and link.number in self._links:
            self._read(link)
        return True

    def _on_connect(self, link: TcpLink) -> None:
        if link.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lose(link)
            return
        link.is_open = True
        self._watch(link)
        if link.session is None:
            self._member.links.on_connected(link.number, read_monotonic())
        else:  # the member must not greet a peer before it has shown the key
            link.is_unreported = True
            self._put(link, link.session.begin())

    def _read(self, link: TcpLink) -> bool:
        result = False
        for _ in range(READS_PER_TURN):
            try:
                data = link.socket.recv(READ_BYTES)
            except OSError as error:
                if error.errno in (EAGAIN, EWOULDBLOCK):
                    return result
                data = b""
            if not data:
                self._lose(link)
                return True
            if link.session is None or link.session.is_known:  # programs without the key must not keep us spinning
                self._poller.spin.on_message(read_monotonic())
            if link.session is not None:
                result |= self._read_private(link, link.session, data)
            elif not self._member.links.on_data(link.number, data, read_monotonic()):
                result = True
            if len(data) < READ_BYTES or len(self._member.deliveries) >= MAX_WAITING_DELIVERIES:
                break
        return result

    def _read_private(self, link: TcpLink, session: "PrivateSession", data: bytes) -> bool:
        member, result = self._member, False
        try:
            for plain in session.receive(data):
                if link.is_unreported and session.is_known:
                    link.is_unreported = False
                    result = True
                    member.links.on_connected(link.number, read_monotonic())
                if plain and not member.links.on_data(link.number, plain, read_monotonic()):
                    result = True
        except (OSError, ValueError) as error:  # OpenSSL's errors are OSErrors; there may be an alert to send
            log.debug("a link is cut: %s", error)
            self._put(link, session.data_to_send())
            self._lose(link)
            return True
        self._put(link, session.data_to_send())
        return result

    # Writing

    def _put(self, link: TcpLink, data: bytes) -> None:
        """Send bytes as they are, without sealing them."""
        if not data:  # most of what TLS receives needs no answer
            return
        sent = 0
        if not link.unsent and link.is_open:
            try:
                sent = link.socket.send(data)
            except OSError as error:
                log.debug("cannot send; the next read will find the cause: %s", error)
        if sent < len(data):
            link.unsent += data[sent:]
            if len(link.unsent) > MAX_UNSENT_BYTES:
                log.warning("cutting the link to a process that does not read")
                self._lose(link)
            elif link.is_open:
                self._watch(link)

    def _send_more(self, link: TcpLink) -> None:
        try:
            sent = link.socket.send(link.unsent[:READ_BYTES])
        except OSError as error:
            if error.errno not in (EAGAIN, EWOULDBLOCK):
                self._lose(link)
            return
        del link.unsent[:sent]
        self._watch(link)

    # Leaving

    def leave(self) -> None:
        """Send what is left, and wait until the peers have closed their ends.

        Closing a socket with unread bytes resets the connection: then the peer may lose what we sent before, and libo2
        does not notice the loss at all.
        """
        for link in list(self._links.values()):
            self._poller.remove(link.socket)
            self._poller.add(link.socket, 0, partial(self._on_last, link))
            self._end(link)
        self._wait_for_peers(lambda: any(link.unsent for link in self._links.values()), FLUSH_SECONDS)
        self._wait_for_peers(lambda: bool(self._links), FAREWELL_SECONDS)

    def _wait_for_peers(self, is_needed: Callable[[], bool], seconds: float) -> None:
        deadline = read_monotonic() + seconds
        while is_needed() and read_monotonic() < deadline:
            self._poller.react(self._poller.wait(deadline))

    def _on_last(self, link: TcpLink, event: int) -> bool:
        try:
            if event & select.EPOLLOUT:
                del link.unsent[: link.socket.send(link.unsent[:READ_BYTES])]
                self._end(link)
            elif not link.socket.recv(READ_BYTES):
                self.drop(link.number)
        except BlockingIOError:
            pass
        except OSError:
            self.drop(link.number)
        return False

    def _end(self, link: TcpLink) -> None:
        """Close our direction once everything is sent."""
        if not link.is_open:
            self.drop(link.number)
            return
        if link.session is not None and link.session.is_known:
            link.unsent += link.session.end()
            link.session.close()
        if not link.unsent:
            with suppress(OSError):  # the peer has closed it already
                link.socket.shutdown(socket.SHUT_WR)
        self._watch(link)
