"""Decides which peers may connect: it answers libzmq's requests at inproc://zeromq.zap.01 (RFC 27, ZAP)."""

from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils import z85

from gandy.doors.sockets.curve import DOMAIN, KEY_BYTES, ServerKeys
from gandy.doors.sockets.reader import Socket, SocketReader

ADDRESS: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
FRAMES: Final = 9  # sender, an empty one, version, request, domain, address, routing id, mechanism, public key
REQUESTS_PER_TURN: Final = 200  # answered in one turn of the loop

_NOWAIT: Final = int(zmq.NOBLOCK)


class Authenticator:
    """Answers requests by the keys in the folder of a door. `on_refused` gets the IP address of a refused peer."""

    def __init__(self, keys: ServerKeys, on_refused: Callable[[str], None]) -> None:
        self.refused = 0
        self._keys = keys
        self._on_refused = on_refused

    def answer(self, frames: list[bytes]) -> list[bytes] | None:
        """The answer to a request; None if it cannot be answered."""
        if len(frames) < 4 or frames[1]:
            return None
        status, text, name = self._judge(frames)
        if status != b"200":
            self.refused += 1
            self._on_refused(frames[5].decode(errors="replace") if len(frames) == FRAMES else "")
        return [frames[0], b"", VERSION, frames[3], status, text, name.encode(errors="replace"), b""]

    def _judge(self, frames: list[bytes]) -> tuple[bytes, bytes, str]:
        if len(frames) != FRAMES or frames[2] != VERSION:
            return b"400", b"not understood", ""
        *_, domain, _address, _routing_id, mechanism, key = frames
        if domain != DOMAIN or mechanism != b"CURVE" or len(key) != KEY_BYTES:
            return b"400", b"only CURVE", ""
        try:
            name = self._keys.find_name(z85.encode(key))
        except OSError:
            return b"500", b"cannot read the keys", ""
        if name is None:
            # Not 400, after which a libzmq peer never tries again. So it is admitted by itself once its key is added.
            # Until then it costs a handshake each time that the last one has timed out.
            return b"300", b"unknown key", ""
        return b"200", b"OK", name


class ZapSocket:
    """An authenticator with its socket. Open it before the socket for which it decides is bound."""

    def __init__(self, context: zmq.Context[Socket], keys: ServerKeys, on_refused: Callable[[str], None]) -> None:
        self._authenticator = Authenticator(keys, on_refused)
        self._reader: SocketReader | None = None
        self._socket = context.socket(zmq.ROUTER)
        self._socket.bind(ADDRESS)

    @property
    def refused(self) -> int:
        return self._authenticator.refused

    def start(self) -> None:
        self._reader = SocketReader(self._socket, self._read)

    def stop(self) -> None:
        """To be called before `close`."""
        if self._reader is not None:
            self._reader.close()

    def close(self) -> None:
        """To be called after the socket for which it decides is closed."""
        self._socket.close(0)

    def _read(self) -> bool:
        for _ in range(REQUESTS_PER_TURN):
            try:
                answer = self._authenticator.answer(self._socket.recv_multipart(_NOWAIT))
            except zmq.Again:
                return False
            if answer is not None:
                self._socket.send_multipart(answer, _NOWAIT)
        return True
