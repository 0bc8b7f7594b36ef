"""A conversation written down for people."""

from collections.abc import Callable

from gandy.errors import name_code
from gandy.talk.law import Role
from gandy.wire.messages import (
    GREETING,
    RESEND_HELLO,
    STOP_ALL,
    Cancel,
    Error,
    Extended,
    Hello,
    Job,
    Message,
    Ok,
    Reset,
    Stop,
    Task,
    TaskPair,
    Update,
)
from gandy.wire.v2 import V2Decoder

Write = Callable[[str], None]


class Transcript:
    """Watches a v2 link and writes a line for each message that arrives."""

    def __init__(self, write: Write, now: Callable[[], float]) -> None:
        self._write = write
        self._now = now
        self._decoders = {role: V2Decoder() for role in Role}

    def on_sent(self, sender: Role, data: bytes) -> None:
        pass

    def on_delivered(self, sender: Role, data: bytes) -> None:
        decoder = self._decoders[sender]
        decoder.receive_data(data)
        while (numbered := decoder.next_message()) is not None:
            seq, message = numbered
            arrow = "worker  ──▶" if sender is Role.WORKER else "◀── foreman"
            self._write(f"{self._now() * 1000:9.2f} ms  {arrow}  {seq:>4}  {describe(message)}")


def describe(message: Message) -> str:
    """One line that says what a message says."""
    match message:
        case Ok():
            return _describe_ok(message)
        case Hello(nproc, running):
            return f"HELLO   {nproc} free, running: {_list_tasks(running)}"
        case Job(tasks):
            return f"JOB     start {_list_tasks(tasks)}"
        case Update(result):
            if result is None:
                return "UPDATE  empty"
            word = "done" if result.success else "failed"
            return f"UPDATE  {_name(result.pair)} {word}: {result.status}"
        case Cancel(pairs):
            return f"CANCEL  {', '.join(map(_name, pairs))}"
        case Stop(count):
            what = "now" if message.is_immediate else "all" if count == STOP_ALL else f"{count}"
            return f"STOP    {what}"
        case Error(code):
            return f"ERROR   {name_code(code)}"
        case Reset():
            return "RESET"
        case Extended(kind, payload):
            return f"0x{kind:02X}    {len(payload)} bytes"


def _describe_ok(message: Ok) -> str:
    if message == RESEND_HELLO:
        return "OK      send HELLO again"
    if message == GREETING:
        return "OK      0"
    words = " and ".join(extension.name.lower() for extension in message.extensions if extension.name)
    agreed = f", speaks {words}" if words else ""
    return f"OK      {message.nproc} free, {message.nrun} running{agreed}"


def _list_tasks(tasks: tuple[Task, ...]) -> str:
    return ", ".join(_name(task.pair) for task in tasks) or "nothing"


def _name(pair: TaskPair) -> str:
    return f"{pair.job_id}.{pair.task}" if pair.task >= 0 else f"all of {pair.job_id}"
