"""The bus (docs/protocol/bus.md): processes of an ensemble find one another and send typed, timed messages.

`Ensemble` is for programs that block, `AsyncEnsemble` for asyncio. Each runs an engine in a thread of its own.
"""

from gandy.bus.aio import AsyncEnsemble
from gandy.bus.core.processes import ProcessState, Status
from gandy.bus.ensemble import Ensemble, Service
from gandy.bus.events import Message, Neighbour
from gandy.bus.wire.messages import INFINITUM

__all__ = ["INFINITUM", "AsyncEnsemble", "Ensemble", "Message", "Neighbour", "ProcessState", "Service", "Status"]
