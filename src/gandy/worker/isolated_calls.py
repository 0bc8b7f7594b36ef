"""Runs calls of isolated commands in slot processes, like function tasks of jobs, so that they can be killed."""

import asyncio
from typing import Final

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.errors import GandyError
from gandy.functions import open_result, pack_task
from gandy.functions.isolated import run
from gandy.ids import JobId, TaskNumber
from gandy.wire.calls import LOST, CallFailure
from gandy.worker.call_results import CallResults
from gandy.worker.order import Order, PythonOrder
from gandy.worker.runner import Runner
from gandy.worker.running_call import RunningCall

NO_JOB: Final = JobId(0)  # the numbers of jobs begin with 1


class IsolatedCalls:
    """Connects a worker's calls with its runner, where each call is an attempt of job 0."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._calls: dict[AttemptKey, tuple[RunningCall, CallResults]] = {}
        self._count = 0

    def run(self, call: RunningCall, body: bytes, results: CallResults) -> None:
        """Start a call. Its outcome goes to `results`. Raises: NotPicklable."""
        self._count += 1
        attempt = AttemptKey(NO_JOB, TaskNumber(self._count), 1)
        python = PythonOrder(pack_task(run, (call.command.function, body, call.is_pickled)))
        self._calls[attempt] = call, results
        self._runner.start(Order(attempt=attempt, command=("command", call.command.name), python=python))

    def kill(self, call: RunningCall) -> None:
        for attempt, (other, _) in self._calls.items():
            if other is call:
                self._runner.kill(attempt, Cause.CANCELLED, "the call was cancelled", immediate=True)
                return

    def on_returned(self, order: Order) -> None:
        """A call has not begun in its process: start it again, unless it was cancelled."""
        call, _ = self._calls[order.attempt]
        if call.is_cancelled:
            ending = Ending(cause=Cause.CANCELLED, note="cancelled before it began")
            self.on_end(order.attempt, ending)
        else:
            asyncio.get_running_loop().call_soon(self._runner.start, order)

    def on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        call, results = self._calls.pop(attempt)
        if ending.is_success:
            results.finish_encoded(call, open_result(ending.result))
            return
        if ending.cause is Cause.WORKER_STOPPED:
            results.refuse(call, LOST, ending.note)
            return
        if ending.cause is Cause.RETURNED:
            results.refuse(call, LOST, f"its worker is short of {ending.note}")
            return
        kind, _, text = ending.note.partition(": ")
        if ending.cause is not Cause.RAISED:
            kind, text = GandyError.__name__, f"its process died: {ending.note}"
        trace = ending.tail.decode(errors="replace")
        pickled = ending.result if call.is_pickled else b""
        results.fail_with(call, CallFailure(kind, f"{kind}: {text}" if text else kind, trace, pickled))
