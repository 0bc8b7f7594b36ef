"""The program of a slot process: `python -m gandy.worker.slot OUTPUT [MODULE to import first]...`

It runs function tasks, one at a time, for the worker that started it, and ends when its channel does. What a function
leaves in the process (modules, open files, threads) stays; its environment, folder, output and child processes do not.
"""

import faulthandler
import gc
import os
import select
import sys
from collections import OrderedDict
from contextlib import suppress
from importlib import import_module

from gandy.clocks import read_monotonic, read_wall
from gandy.files import write_all
from gandy.functions import Function, describe_error, format_error, open_function, open_task, pack_error, pack_value
from gandy.functions.decorated import is_final
from gandy.limits import MAX_PICKLE_BYTES
from gandy.worker.frames import (
    ASSIGNMENT,
    BOX,
    BOX_BYTES,
    DESCRIPTOR,
    HAS_CHILDREN,
    KEPT_JOBS,
    MEASURES,
    NO_TIME,
    NOT_RETRIED,
    PRINTED,
    RAISED,
    READY,
    REFUSED,
    SHORT,
    VALUE,
    Setting,
    decode_setting,
    encode_answer,
)
from gandy.worker.shortage import find_shortage
from gandy.worker.slot_environment import MEASURED_SECONDS, SlotOutput, TaskEnvironment, TaskMemory, has_children

BUFFER_BYTES = 2 * BOX_BYTES  # more than an ordinary assignment needs

Outcome = tuple[int, str, bytes]  # kind, note and body of an answer


class Slot:
    """The slot process, with its end of the channel to the worker."""

    def __init__(self, output: str) -> None:
        self._shared: OrderedDict[int, bytearray | Function] = OrderedDict()  # by job; bytes until first used
        self._reader = AssignmentReader()
        self._setting_data = bytearray()  # of the last task
        self._setting = Setting(0, has_shared=False, env={}, cwd="")
        self._environment = TaskEnvironment()
        self._output = SlotOutput(output)
        self._memory = TaskMemory()
        self._read_wall, self._read_monotonic = read_wall, read_monotonic  # even if a function replaces them
        # If preloaded modules have started processes, those of a task cannot be distinguished from them.
        self._watches_children = not has_children()

    def serve(self) -> None:
        """Run tasks until the channel ends."""
        _send(encode_answer(READY, MEASURES if self._memory.can_measure else 0, "", b""))
        take = self._reader.take
        while data := take(ASSIGNMENT.size):
            _number, task, attempt, setting_bytes, shared_bytes, input_bytes = ASSIGNMENT.unpack(data)
            setting = self._read_setting(take(setting_bytes))
            if setting.has_shared:
                self._keep_shared(setting.job, take(shared_bytes))
            self._assign(setting, task, attempt, take(input_bytes))

    def _read_setting(self, data: bytearray) -> Setting:
        if data != self._setting_data:
            self._setting_data, self._setting = data, decode_setting(data)
        return self._setting

    def _assign(self, setting: Setting, task: int, attempt: int, packed: bytearray) -> None:
        started = ended = NO_TIME
        flags = 0
        try:
            self._output.open()
            self._environment.enter(setting, task, attempt)
        except (OSError, ValueError) as error:
            kind, note, body = REFUSED, f"cannot run: {error}", b""
            shortage = find_shortage(error)
            if shortage is not None:
                note, flags = shortage, SHORT
                self._reader.ignores_box = True  # the worker will end this process
            # The worker counts the pairs of files by PRINTED, so it must be set whenever files are given up.
            self._output.give_up()
            has_printed = True
        else:
            self._output.begin()
            self._memory.begin()
            started, began = self._read_wall(), self._read_monotonic()
            kind, note, body = self._run(setting, packed)
            ended = started + (self._read_monotonic() - began)  # the wall clock may have stepped
            has_printed = self._output.end()
        flags |= PRINTED if has_printed else 0
        self._environment.leave()
        if self._watches_children and has_children():
            flags |= HAS_CHILDREN
            self._reader.ignores_box = True  # the worker will end this process
        peak = self._memory.read() if ended - started > MEASURED_SECONDS else 0
        _send(encode_answer(kind, flags, note, body, peak, started, ended), body)

    def _run(self, setting: Setting, packed: bytearray) -> Outcome:
        function: Function | None = None
        try:
            task = open_task(packed, self._find_shared(setting.job) if setting.has_shared else None)
            if len(packed) > BUFFER_BYTES:
                with suppress(BufferError):  # unless arrays are still in it
                    packed.clear()
            function = task.function
            value = task.run()
            del task  # frees its arguments before there are two copies of the result
            body = pack_value(value, function)
            if len(body) > MAX_PICKLE_BYTES:
                raise ValueError(f"a result may have {MAX_PICKLE_BYTES:,} bytes, not {len(body):,}: use a file")
        except BaseException as error:  # noqa: BLE001 - also SystemExit: the process stays, and the caller gets it
            trace = format_error(error)
            self._output.print_error(trace)
            kind = NOT_RETRIED if is_final(function, error) else RAISED
            return kind, describe_error(error), pack_error(error, trace)
        return VALUE, "", body

    def _keep_shared(self, job: int, shared: bytearray) -> None:
        """Keep a job's function, exactly as `SlotQueue` does: the worker sends nothing if it knows that we have it."""
        if shared:
            self._shared[job] = shared
        self._shared.move_to_end(job)
        while len(self._shared) > KEPT_JOBS:
            self._shared.popitem(last=False)

    def _find_shared(self, job: int) -> Function:
        shared = self._shared[job]
        if isinstance(shared, bytearray):
            shared = self._shared[job] = open_function(shared)
        return shared


class AssignmentReader:
    """Reads what the worker sends: a short assignment with one system call, a long one straight into its place."""

    def __init__(self) -> None:
        self._buffer = bytearray(BUFFER_BYTES)
        self._begin = self._end = 0
        self.ignores_box = False
        self._poll = select.poll()
        for descriptor in (DESCRIPTOR, BOX):
            self._poll.register(descriptor, select.POLLIN)

    def _wait(self) -> None:
        """Wait for an assignment. There is never one on the channel while others are in the box."""
        while not self.ignores_box:
            try:
                self._begin, self._end = 0, os.readv(BOX, [self._buffer])
            except BlockingIOError:
                if self._poll.poll()[0][0] == DESCRIPTOR:
                    break
            else:
                return
        self._begin, self._end = 0, os.readv(DESCRIPTOR, [self._buffer])

    def take(self, size: int) -> bytearray:
        """Read `size` bytes; none once the channel has ended. Unpickled arrays can use the memory of a bytearray."""
        if self._begin == self._end and size:
            self._wait()
        begin, end = self._begin, self._begin + size
        if end <= self._end:
            self._begin = end
            return self._buffer[begin:end]
        self._begin = self._end
        return self._take_rest(self._buffer[begin : self._end], size)

    def _take_rest(self, data: bytearray, size: int) -> bytearray:
        have = len(data)
        data.extend(bytes(size - have))
        view = memoryview(data)[have:]
        while view:
            count = os.readv(DESCRIPTOR, [view])
            if count == 0:
                return bytearray()
            view = view[count:]
        return data


def _send(head: bytes, body: bytes = b"") -> None:
    # One system call for both, without copying the body; usually it takes everything.
    sent = os.writev(DESCRIPTOR, [head, body])
    if sent < len(head) + len(body):
        write_all(DESCRIPTOR, memoryview(head)[sent:])
        write_all(DESCRIPTOR, memoryview(body)[max(0, sent - len(head)) :])


def _preload(modules: list[str]) -> None:
    for name in modules:
        try:
            import_module(name)
        except BaseException as error:
            shortage = find_shortage(error)
            if shortage is None:
                _send(encode_answer(REFUSED, 0, f"cannot preload {name}: {describe_error(error)}", b""))
            else:
                _send(encode_answer(REFUSED, SHORT, shortage, b""))
            raise


def main(output: str, modules: list[str]) -> None:
    os.set_inheritable(DESCRIPTOR, False)
    os.set_inheritable(BOX, False)
    faulthandler.enable()  # prints the stack of a crash to the output of its task
    # Modules are found in the folder of the task, as a program started there would find them.
    sys.path.insert(0, "")
    sys.argv = [""]
    _preload(modules)
    gc.collect()
    gc.freeze()  # the garbage collector need not examine what is never garbage
    Slot(output).serve()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
