"""Functions that slot processes import by name. Imports little, since every process pays for it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


class CustomError(Exception):
    """Travels as itself."""

    def __init__(self, code: int, hint: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.hint = hint


class StubbornError(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("too stubborn")
        self.lock = threading.Lock()


class PickyError(Exception):
    """Can be pickled, and not be opened."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def nothing() -> None:
    pass


def echo(value: Any) -> Any:
    return value


def who() -> int:
    return os.getpid()


def add(first: int, second: int = 0) -> int:
    return first + second


def double(value: int) -> int:
    return 2 * value


def raise_custom() -> None:
    raise CustomError(7, "try the other one")


def raise_stubborn() -> None:
    raise StubbornError


def raise_picky() -> None:
    raise PickyError("this", "that")


def raise_with_cause() -> None:
    try:
        os.environ["NO_SUCH_NAME"]
    except KeyError as error:
        problem = ValueError("bad")
        problem.add_note("a note")
        raise problem from error


def leave(code: Any) -> None:
    sys.exit(code)


def say(text: str, how: str = "print") -> None:
    if how == "print":
        print(text, end="")
    elif how == "stderr":
        print(text, end="", file=sys.stderr)
    elif how == "write":
        os.write(1, text.encode())
    elif how == "child":
        subprocess.run(["printf", "%s", text], check=True)
    elif how == "c":
        ctypes.CDLL(None).printf(b"%s", text.encode())


def say_and_die(text: str) -> None:
    print(text)
    os._exit(1)


def read_environment(*names: str) -> tuple[str, dict[str, str | None]]:
    return str(Path.cwd()), {name: os.environ.get(name) for name in names}


def spoil_environment() -> None:
    os.environ["SPOILED"] = "yes"
    os.environ.pop("PATH")
    os.chdir("/")
    sys.stdout.close()
    sys.stderr = None
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def spin(path: str) -> None:
    write_pid(path)
    while True:
        pass


def doze(path: str) -> None:
    write_pid(path)
    time.sleep(600)


def ignore_and_doze(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    doze(path)


def doze_with_child(path: str) -> None:
    child = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(f"{os.getpid()}\n{child.pid}\n")
    time.sleep(600)


def write_pid(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")


def crash() -> None:
    ctypes.string_at(0)


def exit_now(code: int) -> None:
    os._exit(code)


def close_everything() -> None:
    os.closerange(3, 100)
    time.sleep(600)


def abandon_child() -> int:
    return subprocess.Popen(["sleep", "600"]).pid


def start_thread() -> int:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return os.getpid()


def is_imported(name: str) -> bool:
    return name in sys.modules


def make_lock() -> object:
    return {"x": [threading.Lock()]}


def use_memory(size: int) -> int:
    return len(bytearray(size))


def write_into(buffer: bytearray) -> bytearray:
    buffer[0] = 1
    return buffer


class Counted:
    """Counts how often it is opened in one process."""

    opened = 0

    def __call__(self, value: int) -> tuple[int, int]:
        return value, Counted.opened

    def __setstate__(self, state: object) -> None:
        Counted.opened += 1

    def __getstate__(self) -> str:
        return "state"


def weigh_environments(tasks: int) -> int:
    """Bytes by which a process grows that enters the environments of so many tasks."""
    from gandy.worker.frames import Setting
    from gandy.worker.slot_environment import TaskEnvironment

    environment, setting = TaskEnvironment(), Setting(1, has_shared=False, env={}, cwd="")
    environment.enter(setting, 0, 1)
    before = _read_resident()
    for task in range(tasks):
        environment.enter(setting, task, 1)
    assert os.environ["GANDY_TASK"] == str(tasks - 1)
    assert subprocess.check_output(["/usr/bin/env", "printenv", "GANDY_TASK"], text=True) == f"{tasks - 1}\n"
    return _read_resident() - before


def _read_resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
