"""Where commands run for servers that are no foreman: calls and results as frames, isolated ones in processes."""

from collections.abc import Callable
from pathlib import Path

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.errors import ConfigError
from gandy.worker.commands import Commands, Way
from gandy.worker.isolated import IsolatedCalls
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.serving import Serving


class CommandHost:
    """One for each worker, on the current loop."""

    def __init__(
        self, commands: Commands, slots: int, write: Callable[[bytes], None], folder: Path, preload: tuple[str, ...]
    ) -> None:
        """`folder` is for isolated commands, and made only where there are some. Raises: GandyError."""
        self.calls = Serving(commands, slots, 0, write)
        self._isolated: IsolatedCalls | None = None
        self._runner: Runner | None = None
        if any(command.way is Way.PROCESS for command in commands):
            self._runner = Runner(folder, self._on_end, on_returned=self._on_returned, preload=preload)
            self._isolated = IsolatedCalls(self.calls, self._runner)
        else:
            self.calls.run_isolated = _refuse_isolated

    def _on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        assert self._isolated is not None, "only isolated commands run there"
        self._isolated.on_end(attempt, ending)

    def _on_returned(self, order: Order) -> None:
        assert self._isolated is not None, "only isolated commands run there"
        self._isolated.on_returned(order)

    async def kill_all(self) -> None:
        """Processes, that is: threads cannot be killed."""
        if self._runner is not None:
            self._runner.kill_all(Cause.WORKER_STOPPED, "the worker was stopped", immediate=True)
            await self._runner.wait_idle()

    def close(self) -> None:
        self.calls.close()
        if self._runner is not None:
            self._runner.close()


def _refuse_isolated(_call: object, _body: bytes) -> None:
    raise ConfigError("a worker must have its isolated commands when it starts")
