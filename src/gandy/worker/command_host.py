"""Runs commands for servers other than a foreman. Calls and results are frames; isolated commands run in processes."""

from collections.abc import Callable
from pathlib import Path

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.worker.call_service import CallService
from gandy.worker.commands import Commands, Way
from gandy.worker.isolated_calls import IsolatedCalls
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.threads import Threads
from gandy.worker.worker_folder import WorkerFolder


class CommandHost:
    """One per worker, on the current loop."""

    def __init__(
        self, commands: Commands, slots: int, write: Callable[[bytes], None], folder: Path, preload: tuple[str, ...]
    ) -> None:
        """`folder` is for isolated commands, and is made only if there are any. Raises: GandyError."""
        self._commands = commands
        self._threads = Threads(slots)
        self.calls = CallService(commands, slots, 0, write, self._threads)
        commands.on_change = self.calls.announce_soon
        self._isolated: IsolatedCalls | None = None
        self._runner: Runner | None = None
        if any(command.way is Way.PROCESS for command in commands):
            self._runner = Runner(WorkerFolder(folder), self._on_end, on_returned=self._on_returned, preload=preload)
            self._isolated = IsolatedCalls(self._runner)
            self.calls.runner.isolated = self._isolated

    def _on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        assert self._isolated is not None, "only isolated commands run there"
        self._isolated.on_end(attempt, ending)

    def _on_returned(self, order: Order) -> None:
        assert self._isolated is not None, "only isolated commands run there"
        self._isolated.on_returned(order)

    async def kill_all(self) -> None:
        """Kill the processes of isolated commands. Threads cannot be killed."""
        if self._runner is not None:
            self._runner.kill_all(Cause.WORKER_STOPPED, "the worker was stopped", immediate=True)
            await self._runner.running.wait_idle()

    def close(self) -> None:
        self.calls.on_cut()
        self._commands.on_change = lambda: None
        self._threads.close()
        if self._runner is not None:
            self._runner.close()
