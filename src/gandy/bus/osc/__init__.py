"""Bridges between OSC programs and an ensemble: their messages go to a service, and messages of a service to them.

One thread serves all sockets that must be waited for. It starts with the first of them and ends with the ensemble. It
sends no bundles and no answers. docs/how-to/use-the-bus.md has the table of types.
"""

from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.io.engine import Engine
from gandy.bus.osc.incoming import OscIn
from gandy.bus.osc.outgoing import OscOut, OscTcpOut
from gandy.bus.osc.thread import OscThread


class Osc:
    """All bridges of one ensemble. Nothing is opened before the first of them."""

    def __init__(self, engine: Engine, insecure: bool) -> None:
        self._thread = OscThread(engine, insecure)

    def open_in(self, service: str, port: int, *, tcp: bool, host: str = LOCALHOST) -> OscIn:
        """Raises: ConfigError, LinkError."""
        return OscIn(service, host, port, self._thread, tcp)

    def open_out(self, service: str, host: str, port: int, *, tcp: bool) -> OscOut:
        """Raises: ConfigError, LinkError."""
        return (OscTcpOut if tcp else OscOut)(service, host, port, self._thread)

    def close(self) -> None:
        self._thread.close()
