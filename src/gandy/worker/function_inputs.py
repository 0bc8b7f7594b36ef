"""Completes the inputs of function tasks: with what the tasks of a job share, and with large arguments."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from gandy.core.extensions import Fetch, read_reference
from gandy.core.model import AttemptKey
from gandy.errors import GandyError
from gandy.ids import JobId
from gandy.limits import MAX_SHARED_SENT
from gandy.wire.messages import PythonOrders
from gandy.worker.fetch import Fetcher
from gandy.worker.order import Order, PythonOrder


class FunctionInputs:
    """One per worker. `send` requests a piece of large arguments from the foreman, and returns False without a link."""

    def __init__(self, send: Callable[[Fetch, int], bool]) -> None:
        self.fetcher = Fetcher(send)
        self._shared: OrderedDict[JobId, bytes] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[bytes]] = {}  # shared parts that are being fetched, by name
        self.incomplete: dict[AttemptKey, asyncio.Task[None]] = {}  # tasks whose arguments are being fetched

    def make(self, job: JobId, orders: PythonOrders) -> PythonOrder:
        """Make the order of a function task. Over each link, a job's shared part is sent once, with its first task."""
        if orders.shared is not None:
            self._shared[job] = orders.shared
            self._shared.move_to_end(job)
            if len(self._shared) > 2 * MAX_SHARED_SENT:  # the foreman has forgotten by then that it sent it
                self._shared.popitem(last=False)
        return PythonOrder(orders.input, self._shared.get(job, b""), orders.fresh)

    def fetch(
        self, order: Order, on_complete: Callable[[Order], None], on_failed: Callable[[AttemptKey, str], None]
    ) -> None:
        """Fetch the large arguments of a task. Neither function is called from within this method."""
        self.incomplete[order.attempt] = asyncio.create_task(self._fetch(order, on_complete, on_failed))

    def drop(self, attempt: AttemptKey) -> bool:
        """Stop fetching for a task. False: nothing was being fetched."""
        fetching = self.incomplete.pop(attempt, None)
        if fetching is None:
            return False
        fetching.cancel()
        return True

    async def _fetch(
        self, order: Order, on_complete: Callable[[Order], None], on_failed: Callable[[AttemptKey, str], None]
    ) -> None:
        assert order.python is not None
        try:
            python = await self._complete(order.attempt.job, order.python)
        except GandyError as error:
            del self.incomplete[order.attempt]
            on_failed(order.attempt, str(error))
        else:
            del self.incomplete[order.attempt]
            on_complete(replace(order, python=python))

    async def _complete(self, job: JobId, python: PythonOrder) -> PythonOrder:
        """Replace references by the large arguments they stand for. Raises: GandyError."""
        name = read_reference(python.shared)
        if name is not None:
            shared = await self._fetch_shared(name)
            if job in self._shared:
                self._shared[job] = shared
            python = replace(python, shared=shared)
        name = read_reference(python.input)
        return python if name is None else replace(python, input=await self.fetcher.fetch(name))

    async def _fetch_shared(self, name: str) -> bytes:
        """Fetch a shared part once, however many tasks wait for it. Raises: GandyError."""
        if name not in self._fetching:
            self._fetching[name] = asyncio.create_task(self.fetcher.fetch(name))
            self._fetching[name].add_done_callback(lambda _: self._fetching.pop(name))
        return await asyncio.shield(self._fetching[name])


def is_complete(python: PythonOrder) -> bool:
    return read_reference(python.input) is None and read_reference(python.shared) is None
