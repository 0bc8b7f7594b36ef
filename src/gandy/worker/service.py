"""A worker's loop: keeps a link to the foreman, starts what it says, and reports what ended.

It outlives the foreman. Tasks go on while there is no link, and results wait until the foreman has them for good.
"""

import asyncio
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import UNSET
from msgspec.structs import replace

from gandy.core.extensions import (
    ARGUMENTS,
    CAPACITY,
    FETCH,
    PIECE,
    PIECES,
    PING,
    READ,
    READ_MANY,
    RETRACT,
    RETRACTED,
    WORKER_OFFERS,
    Capacity,
    Fetch,
    Piece,
    Pieces,
    Retraction,
    decode_piece,
    decode_read,
    decode_read_many,
    decode_retraction,
    encode,
    make_problem,
)
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result
from gandy.errors import REFUSALS, GandyError, LinkError, NotAllowed, RemoteProtocolError
from gandy.journal import Journal, Left
from gandy.limits import MAX_OUTPUTS_BYTES, MAX_PROBLEM, MAX_RESULT_BYTES
from gandy.net.links import Link
from gandy.reach import Reach
from gandy.talk.events import (
    ExtensionReceived,
    HelloRefused,
    Kill,
    Leave,
    Recalled,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.talk.worker import WorkerSide
from gandy.wire import payloads
from gandy.wire.messages import About, Extended, Extension, Task, TaskPair
from gandy.worker.calls import Calls, is_complete
from gandy.worker.commands import Commands
from gandy.worker.isolated import IsolatedCalls
from gandy.worker.large_results import LargeResults
from gandy.worker.line import Line
from gandy.worker.order import Order, PythonOrder
from gandy.worker.output import Stream
from gandy.worker.runner import Runner
from gandy.worker.serving import Serving
from gandy.worker.throttle import DISK_PERIOD, Throttle
from gandy.worker.trim import trim, weigh

if TYPE_CHECKING:
    from gandy.bus import Ensemble

log = logging.getLogger("gandy.worker")

MIN_PAUSE, MAX_PAUSE = 0.05, 5.0  # seconds between two tries to reach the foreman; it doubles. See `Policy.grace`.
HEARTBEAT_PERIOD = 5.0  # seconds between two PINGs
HEARTBEAT_EXPIRY = 15.0  # seconds without a word from the foreman, after which the link is taken for dead
FAREWELL_SECONDS = 5.0  # for the last results to be acknowledged, and calls to end, when the worker stops
HOLD_SECONDS = 0.05  # that a result may wait for others: a batch costs the foreman hardly more than one
MAX_OVER = 32  # commands that are over before their books are kept; each has files until then
MAX_READ = 1 << 20  # bytes of output in one piece
MAX_OUTPUT_BYTES = 10_000_000_000  # of output that is kept, unless somebody says otherwise
TRIMMED = 0.9  # of this is left when there was too much output, so that the next trimming is far away
TIDY_PERIOD = 10.0  # seconds between two looks at how much output there is


class WorkerService:
    """One worker. `run` ends when the foreman sent it away, or after `stop`."""

    def __init__(
        self,
        reach: Reach,
        about: About,
        folder: Path,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        preload: tuple[str, ...] = (),
        commands: Commands | None = None,
        reserved: int = 0,
        ensemble: str | None = None,
        insecure: bool = False,
    ) -> None:
        """`ensemble`: whose time it keeps; that of its foreman's, if the foreman is looked for in one."""
        self._reach = reach
        self._refusal: NotAllowed | None = None  # of our key, for good
        sought = (place.host for place in reach.places if place.scheme == "ensemble")
        self._ensemble = ensemble or next(sought, None)
        self._is_insecure = insecure
        self._band: Ensemble | None = None
        self._max_output_bytes = max_output_bytes
        self._about = about
        self._runner = Runner(
            folder,
            self._on_end,
            on_free=self._on_free,
            on_followed=self._on_followed,
            on_returned=self._on_returned,
            on_over=self._on_over,
            preload=preload,
        )
        self._attempts: dict[TaskPair, AttemptKey] = {}  # of what runs or waits here
        self._identities: dict[AttemptKey, int] = {}  # of the jobs of calls, whose results may have to be kept
        self._serving = Serving(commands or Commands(), about.slots + reserved, reserved, self._write)
        self._serving.on_room = self._on_call_room
        # A plain foreman has no attempts, and would take a result that was kept for another one for its own.
        is_plain = any(place.scheme == "plain" for place in reach.places)
        try:
            self._journal = None if is_plain else _open_journal(folder, about, self._runner.left)
        except GandyError:
            self._runner.close()
            raise
        self._side = WorkerSide(
            about.slots,
            about if is_plain else replace(about, former=self._runner.left.ids, folder=_name_folder(folder)),
            offers=WORKER_OFFERS,
            on_call=self._serving.on_frame,
            take_plain_calls=self._serving.take_plain,
        )
        if self._journal is not None:
            self._side.inherit(self._runner.left.results)
        self._isolated = IsolatedCalls(self._serving, self._runner)
        self._line = Line(self._runner, self._serving, about.slots, self._report, self._ask_for_turn)
        self._calls = Calls(self._send_fetch)
        self._fetching: dict[AttemptKey, asyncio.Task[None]] = {}  # calls whose arguments are on their way
        self._link: Link | None = None
        self._cut = asyncio.Event()
        self._done = asyncio.Event()
        self._is_stopping = False
        self._is_leaving = False  # and waits for calls to end
        self._side_was_welcome = False
        self._last_heard = 0.0
        self._holding: asyncio.TimerHandle | None = None  # while results wait for others
        self._may_hold = True  # those that came since the last turn
        self._allowance = 0  # of commands that may end before the next turn; none, unless results are held
        self._is_turn_due = False
        self._throttle = Throttle(about.slots, folder, self._line, self._on_capacity)
        self._results = LargeResults(self._runner.outputs, self._report, self._throttle.on_shortage)

    async def run(self) -> None:
        """Raises: ConfigError."""
        try:
            if self._ensemble is not None:
                self._join(self._ensemble)
        except BaseException:
            self._runner.close()
            raise
        keeper = asyncio.create_task(self._keep_link())
        heart = asyncio.create_task(self._beat())
        tidier = asyncio.create_task(self._tidy())
        looker = asyncio.create_task(self._watch_disk())
        ended = asyncio.create_task(self._done.wait())
        try:
            await asyncio.wait({keeper, ended}, return_when=asyncio.FIRST_COMPLETED)
            if keeper.done():
                keeper.result()
        finally:
            for task in (keeper, heart, tidier, looker, ended):
                task.cancel()
            await asyncio.gather(keeper, heart, tidier, looker, ended, return_exceptions=True)
            self._done.set()  # whatever the reason, nothing is started any more
            self._throttle.close()
            self._serving.close()
            self._runner.close()
            if self._journal is not None:
                self._journal.close()
            if self._band is not None:
                await asyncio.to_thread(self._band.close)
            if self._link is not None:
                self._link.close()
                await self._cut.wait()

    async def stop(self) -> None:
        """End all tasks, tell the foreman, and go."""
        if self._is_stopping:
            self._done.set()
            return
        self._is_stopping = True
        self._start_waiting()
        self._flush()
        self._serving.leave()
        self._runner.kill_all(Cause.WORKER_STOPPED, f"worker {self._about.name} was stopped")
        await self._runner.wait_idle()
        self._results.give_up()
        self._stop_holding()
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                while (self._side.has_results or not self._serving.is_idle) and self._link is not None:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.warning("calls that did not end are broken off, and results may be lost")
        self._done.set()

    def die(self) -> NoReturn:
        """The guardian of this process was killed: write down what has ended, and follow it. What runs is killed."""
        self._is_stopping = True  # nothing is started any more
        try:
            self._runner.end_now()
            self._start_waiting()
            self._stop_holding()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")

    # The shared time

    def _join(self, ensemble: str) -> None:
        """For as long as we are here: whoever knows the time can begin things at a time."""
        from gandy.bus import Ensemble  # only for those who need it

        self._band = Ensemble(ensemble, insecure=self._is_insecure)
        self._serving.appointments.join(self._band)
        self._reach.band = self._band
        loop = asyncio.get_running_loop()

        def on_news(_news: object) -> None:
            loop.call_soon_threadsafe(self._serving.on_clock)

        self._band.on_news(on_news)
        self._serving.on_clock()

    # The link

    async def _keep_link(self) -> None:
        pause = MIN_PAUSE
        while True:
            try:
                await self._reach.dial(lambda _address: Link(self))
            except LinkError as error:
                if pause == MIN_PAUSE:
                    log.info("%s; trying again", error)
            else:
                await self._cut.wait()
                if self._refusal is not None:
                    raise self._refusal
                if self._side_was_welcome:
                    pause = MIN_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all come back at once
            pause = min(MAX_PAUSE, pause * 2)

    def on_link(self, link: Link) -> None:
        self._link = link
        self._cut.clear()
        self._side_was_welcome = False
        self._last_heard = time.monotonic()
        self._side.connect()
        self._flush()

    def on_data(self, link: Link, data: bytes) -> None:
        self._last_heard = time.monotonic()
        taken = self._side.exchange.take_calls(data)
        if taken:
            self._serving.flush()
            if taken == len(data):
                return
            data = data[taken:]
        try:
            if self._side.exchange.receive_calls(data):
                self._serving.flush()
                return
            self._work()
        except RemoteProtocolError as error:
            if error.code in REFUSALS:
                self._refusal = NotAllowed(str(error))
            else:
                log.warning("the foreman broke the protocol: %s", error)
            link.write(self._side.data_to_send())
            link.close()
            return
        self._flush()

    def _write(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(data)

    def on_cut(self, _link: Link) -> None:
        self._link = None
        self._side.disconnect()
        self._calls.fetcher.on_cut()
        self._serving.on_cut()
        self._cut.set()

    def _flush(self) -> None:
        self._save_results()
        if self._link is not None:
            self._link.write(self._side.data_to_send(hold_results=self._holding is not None))

    def _flush_results(self) -> None:
        """Send results, but as long as the next tasks are here already, let them wait a little for company."""
        self._runner.keep_books()
        self._save_results()
        may_hold, self._may_hold = self._may_hold, True
        room = self._side.tell_room(self._line.ready)
        if not may_hold or not room:
            self._stop_holding()
            return
        if self._holding is None:
            self._holding = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._stop_holding)
        self._allowance = min(room, MAX_OVER)

    def _stop_holding(self) -> None:
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        self._allowance = 0
        self._runner.keep_books()
        self._flush()

    def _save_results(self) -> None:
        """Write down what ended since the last call. No result is sent, or waits for company, before that."""
        packed = self._side.take_unsaved()
        if packed and self._journal is not None:
            if self._journal.is_large:
                self._journal.compact(self._side.pack_results())
            else:
                self._journal.add(packed)
        if self._journal is None or not self._journal.is_behind:
            self._runner.forget_told()

    async def _beat(self) -> None:
        """PING now and then, and a link that is silent for too long is taken for dead."""
        number = 0
        while True:
            await asyncio.sleep(HEARTBEAT_PERIOD)
            self._serving.on_clock()
            if self._link is None or Extension.HEARTBEAT not in self._side.exchange.agreed:
                continue
            if time.monotonic() - self._last_heard > HEARTBEAT_EXPIRY:
                log.warning("the foreman has been silent for %.0f s; connecting again", HEARTBEAT_EXPIRY)
                self._link.abort()
                continue
            number = (number + 1) & 0xFFFF_FFFF
            self._side.exchange.send_extended(Extended(PING, b""), number)
            self._flush()

    # What the foreman says

    def _work(self) -> None:
        is_about_jobs = False
        while (event := self._side.next_event()) is not None:
            is_about_jobs = True
            self._on_event(event)
        if is_about_jobs:
            if self._journal is not None and not self._side.has_results:
                self._journal.forget()
            self._start_waiting()
        self._serving.flush()

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case Welcomed(extensions):
                self._on_welcome(extensions)
            case Start(tasks):
                for task in tasks:
                    self._start(task)
                if any(task.orders is not UNSET and task.orders.at is not None for task in tasks):
                    self._line.put_timed_first()
            case Kill(pairs):
                self._for_each(pairs, self._kill)
            case Recalled(pairs):
                self._for_each(pairs, self._give_back)
            case ExtensionReceived():
                self._on_extension(event)
            case HelloRefused():
                log.error("the foreman does not want this worker")
                self._done.set()
            case Leave(immediate):
                self._leave(immediate)
            case _:
                pass

    def _on_welcome(self, extensions: Extension) -> None:
        self._side_was_welcome = True
        if self._journal is not None:  # results that the last foreman has must not count for jobs of this one
            self._journal.compact(self._side.pack_results())
        if Extension.CALLS in extensions:
            self._serving.on_welcome()
        if self._throttle.problem:
            self._send_capacity()
        log.info("at work for the foreman at %s", self._reach)

    def _for_each(self, pairs: Iterable[TaskPair], act: Callable[[AttemptKey], None]) -> None:
        for pair in pairs:
            if pair in self._attempts:  # else it has ended, perhaps while we looked at another one
                act(self._attempts[pair])

    def _on_extension(self, message: ExtensionReceived) -> None:
        if message.type == READ:
            piece = self._read_piece(message.payload)
            self._side.exchange.send_extended(Extended(PIECE, encode(piece)), message.seq)
        elif message.type == READ_MANY:
            pieces = self._read_pieces(message.payload)
            self._side.exchange.send_extended(Extended(PIECES, encode(pieces)), message.seq)
        elif message.type == ARGUMENTS:
            try:
                piece = decode_piece(message.payload)
            except RemoteProtocolError as error:
                piece = make_problem(f"the foreman sent no arguments: {error}")
            self._calls.fetcher.on_piece(message.seq, piece)
        elif message.type == RETRACT:
            self._retract(message)

    def _retract(self, message: ExtensionReceived) -> None:
        """End attempts that have not begun, and say which."""
        try:
            attempts = decode_retraction(message.payload).attempts
        except RemoteProtocolError as error:
            log.warning("the foreman's question makes no sense: %s", error)
            attempts = ()
        known = [attempt for attempt in attempts if self._attempts.get(TaskPair(attempt.job, attempt.task)) == attempt]
        dropped = tuple(attempt for attempt in known if self._drop_waiting(attempt))
        for attempt in dropped:
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))
        self._side.exchange.send_extended(Extended(RETRACTED, encode(Retraction(dropped))), message.seq)

    def _start(self, task: Task) -> None:
        orders = None if task.orders is UNSET else task.orders
        packed = orders.python if orders is not None else None
        order = _make_order(task, None if packed is None else self._calls.make(task.job.job_id, packed))
        attempt = order.attempt
        self._attempts[task.pair] = attempt
        if packed is not None:
            self._identities[attempt] = order.identity
        if not is_complete(order.python):
            self._fetching[attempt] = asyncio.create_task(self._fetch(attempt, order, task))
            return
        self._line.add(order, 1 if orders is None else orders.slots)

    async def _fetch(self, attempt: AttemptKey, order: Order, task: Task) -> None:
        """Large arguments come before the call can begin."""
        assert order.python is not None
        try:
            python = await self._calls.complete(attempt.job, order.python)
        except GandyError as error:
            del self._fetching[attempt]
            self._report(attempt, Ending(cause=Cause.NOT_STARTED, ended=time.time(), note=str(error)))
            self._flush()
            return
        del self._fetching[attempt]
        slots = 1 if task.orders is UNSET else task.orders.slots
        self._line.add(replace(order, python=python), slots)
        if order.at is not None:
            self._line.put_timed_first()
        self._start_waiting()
        self._flush()

    def _send_fetch(self, fetch: Fetch, number: int) -> bool:
        if self._link is None or Extension.OUTPUT not in self._side.exchange.agreed:
            return False
        self._side.exchange.send_extended(Extended(FETCH, encode(fetch)), number)
        self._flush()
        return True

    def _start_waiting(self) -> None:
        """Start what fits, the oldest first. A worker that was told to stop gives back what has not begun."""
        if self._side.slots.limit == 0 or self._is_stopping:
            for attempt in [*self._line.unstarted, *self._fetching]:
                self._give_back(attempt)
        self._line.start()

    def _on_call_room(self) -> None:
        """A call of a command has ended, or slots are wanted for some."""
        if self._is_leaving and self._serving.is_idle:
            asyncio.get_running_loop().call_soon(self._done.set)  # its result is written first
        if (self._line.ready or self._serving.wanted) and not self._done.is_set():
            self._start_waiting()
            self._flush()

    def _on_followed(self, attempt: AttemptKey) -> None:
        self._line.on_followed(attempt)

    def _on_returned(self, order: Order) -> None:
        if self._isolated.knows(order.attempt):
            self._isolated.on_returned(order)
        else:
            self._line.on_returned(order)

    def _ask_for_turn(self) -> None:
        """Go on with the next tasks, once for all that is heard together."""
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        if not self._done.is_set():
            self._save_results()  # before the next ones are started, which takes longer
            self._start_waiting()
            self._flush_results()

    def _drop_waiting(self, attempt: AttemptKey) -> bool:
        """Whether it had not begun."""
        fetching = self._fetching.pop(attempt, None)
        if fetching is not None:
            fetching.cancel()
        return self._line.drop(attempt) or fetching is not None

    def _give_back(self, attempt: AttemptKey) -> None:
        """Unless it has begun."""
        if self._drop_waiting(attempt):
            self._report(attempt, Ending(cause=Cause.WORKER_STOPPED if self._is_stopping else Cause.RETURNED))

    def _kill(self, attempt: AttemptKey) -> None:
        # A call that has not begun, though we thought so, waits once more when we try to kill it.
        if self._results.drop(attempt):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"))
        elif self._drop_waiting(attempt) or (
            not self._runner.kill(attempt, Cause.CANCELLED, "cancelled") and self._drop_waiting(attempt)
        ):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))

    def _leave(self, immediate: bool) -> None:
        if immediate:
            self._runner.kill_all(Cause.WORKER_STOPPED, "stopped by the foreman", immediate=True)
        log.info("sent away by the foreman")
        if immediate or self._serving.is_idle:
            self._done.set()
        else:
            self._serving.leave()
            self._is_leaving = True

    def _read_piece(self, payload: bytes) -> Piece:
        """What the foreman asked for, or why not. Calls and tasks must not be cut off because of one bad question."""
        try:
            read = decode_read(payload)
        except RemoteProtocolError as error:
            return make_problem(str(error))
        attempt = AttemptKey(read.job, read.task, read.attempt)
        return self._read(attempt, read.stream, read.offset, min(read.limit, MAX_READ), read.identity)

    def _read_pieces(self, payload: bytes) -> Pieces:
        """The beginnings of the first outputs, as many as fit; none where the question makes no sense."""
        try:
            read = decode_read_many(payload)
        except RemoteProtocolError as error:
            log.warning("the foreman's question makes no sense: %s", error)
            return Pieces(())
        pieces: list[Piece] = []
        left = min(read.limit, MAX_OUTPUTS_BYTES)
        for task, attempt in read.attempts:
            if left <= 0:
                break
            pieces.append(self._read(AttemptKey(read.job, task, attempt), read.stream, 0, left, read.identity))
            left -= len(pieces[-1].data)
        return Pieces(tuple(pieces))

    def _read(self, attempt: AttemptKey, stream: str, offset: int, limit: int, identity: int) -> Piece:
        which: Stream = stream if stream in ("err", "result") else "out"  # type: ignore[assignment]
        try:
            data, is_last, is_absent = self._runner.read(attempt, which, offset, limit, identity)
            return Piece(data, is_last, is_absent=is_absent)
        except OSError as error:
            return make_problem(str(error))
        except Exception as error:
            log.exception("output cannot be read: this is a bug in gandy")
            return make_problem(f"the worker has a bug: {type(error).__name__}")

    # What the tasks do

    async def _tidy(self) -> None:
        """Remove the oldest output whenever there is too much of it. Nothing is read from the disk until then."""
        outputs = self._runner.outputs
        before: int | None = None  # that were kept before we began to count
        while True:
            try:
                if before is None:
                    before = await _do_aside(weigh, outputs.folder) - outputs.kept_bytes
                if before + outputs.kept_bytes > self._max_output_bytes:
                    before -= await _do_aside(trim, outputs.folder, int(self._max_output_bytes * TRIMMED))
            except (OSError, RuntimeError) as error:  # RuntimeError: there can be no further thread
                log.warning("old output cannot be removed now: %s", error)
            await asyncio.sleep(TIDY_PERIOD)

    async def _watch_disk(self) -> None:
        """And keep what had to wait for room."""
        while True:
            self._throttle.look_at_disk()
            self._runner.outputs.move_rest()
            self._results.try_again()
            if self._journal is not None and self._journal.is_behind:
                self._journal.compact(self._side.pack_results())
            self._flush()
            await asyncio.sleep(DISK_PERIOD)

    def _on_capacity(self, uses_less: bool) -> None:
        """We use another number of slots from now on. Other workers can have what waits here in vain."""
        if self._done.is_set():
            return
        for attempt in self._line.waiting if uses_less else ():
            self._give_back(attempt)
        self._send_capacity()
        self._start_waiting()
        self._flush()

    def _send_capacity(self) -> None:
        if self._link is None or not self._side_was_welcome or Extension.HEARTBEAT not in self._side.exchange.agreed:
            return
        slots = min(self._about.slots, self._throttle.slots + self._serving.borrowed)
        ahead = 0 if self._throttle.problem else self._about.ahead
        told = Capacity(slots, ahead, self._throttle.problem[:MAX_PROBLEM])
        self._side.exchange.send_extended(Extended(CAPACITY, encode(told)), 0)

    def _on_free(self, order: Order) -> None:
        """The next task runs while we do the books of the last. Calls end many at a time, and have others behind."""
        if order.python is None:
            self._line.on_free(order.attempt)
            if not self._done.is_set():
                self._start_waiting()
        elif not self._isolated.knows(order.attempt):
            self._line.on_free(order.attempt)

    def _on_over(self, attempt: AttemptKey) -> None:
        """A command is over. Its books can wait as long as its result may: many are kept faster than one by one."""
        self._allowance -= 1
        if self._allowance <= 0 or attempt.attempt != 1:
            self._ask_for_turn()

    def _on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        if ending.cause is Cause.RETURNED:
            self._throttle.on_shortage(ending.note)
        if self._isolated.knows(attempt):
            self._isolated.on_end(attempt, ending)
            return
        if not self._done.is_set():
            ending = self._line.tell_lateness(attempt, ending)
            if len(ending.result) > MAX_RESULT_BYTES:
                self._results.keep(attempt, ending, self._identities.get(attempt, 0))
            else:
                self._report(attempt, ending)
            # A task that was lost before, perhaps with its worker, must not be lost again for want of a word.
            self._may_hold = self._may_hold and attempt.attempt == 1
            self._ask_for_turn()

    def _report(self, attempt: AttemptKey, ending: Ending) -> None:
        del self._attempts[TaskPair(attempt.job, attempt.task)]
        self._identities.pop(attempt, None)
        self._side.end(make_result(attempt, ending))


def _name_folder(folder: Path) -> str:
    """Its path for HELLO, or nothing where that is no text: then no foreman looks there."""
    path = str(folder.absolute())
    return path if path.isprintable() else ""


def _open_journal(folder: Path, about: About, left: Left) -> Journal:
    """With what dead workers left. Raises: GandyError."""
    try:
        return Journal(folder, (*left.ids, about.id), [payloads.encode(result) for result in left.results])
    except OSError as error:
        raise GandyError(f"cannot keep results in {folder}: {error.strerror}") from None


async def _do_aside(act: Callable[..., int], *args: object) -> int:
    """In a thread that ends with it: the kernel wakes an idle one whenever a task ends while the next is spawned."""
    threads = ThreadPoolExecutor(1)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, act, *args)
    finally:
        threads.shutdown(wait=False)


def _make_order(task: Task, python: PythonOrder | None) -> Order:
    """What a JOB asks for. A plain foreman knows neither attempts nor arguments."""
    job = task.job
    if task.orders is UNSET:
        attempt = AttemptKey(job.job_id, task.number, 1)
        command = (job.command, str(task.number))  # as the original runs it
        return Order(
            attempt=attempt,
            command=command,
            job_name=job.name,
            tasks=job.num_tasks,
            cwd=job.working_dir,
            log_folder=job.logging_dir,
        )
    orders = task.orders
    attempt = AttemptKey(job.job_id, task.number, orders.attempt)
    return Order(
        attempt=attempt,
        command=orders.command,
        job_name=job.name,
        tasks=job.num_tasks,
        line=orders.line,
        cwd=job.working_dir,
        env=orders.env,
        timeout=orders.timeout,
        memory=orders.memory,
        python=python,
        at=orders.at,
        identity=orders.identity,
    )
