"""The C library's posix_spawn, with arguments that are reused for many processes, and a working folder.

Python's os.posix_spawn builds everything anew for each process, and cannot change the folder. Knows no orders.
"""

import ctypes
import os
from collections.abc import Iterable, Sequence
from typing import Final

# PyDLL keeps the interpreter lock, as os.posix_spawn does: a spawn takes a fraction of a millisecond.
_libc: Final = ctypes.PyDLL(None)
_spawn: Final = _libc.posix_spawn
_spawn.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_void_p] * 4]
_add_chdir: Final = getattr(_libc, "posix_spawn_file_actions_addchdir_np", None)  # glibc 2.29, musl 1.1.24

CAN_CHANGE_FOLDER: Final = _add_chdir is not None

_STRUCT_BYTES: Final = 1024  # more than any library's structs take: glibc's 336 are the largest
_SETPGROUP, _SETSIGDEF = 0x02, 0x04  # on every Linux


def encode(text: str) -> bytes:
    """Encode text for the operating system. Raises: ValueError, if it contains a zero byte."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("embedded null byte")
    return data


class Strings:
    """Arguments or an environment. Entries that differ between processes are overwritten in `array`."""

    def __init__(self, texts: Sequence[bytes], room: int = 0) -> None:
        """`room`: entries to add at the end, each of which may be set later or stay absent."""
        self.array = (ctypes.c_char_p * (len(texts) + room + 1))(*texts)
        self.address = ctypes.addressof(self.array)


class Actions:
    """What a process does before its program begins."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_STRUCT_BYTES)
        self.address = ctypes.addressof(self._buffer)
        _check(_libc.posix_spawn_file_actions_init(self._buffer))

    def copy(self, descriptor: int, number: int) -> None:
        """Duplicate a descriptor to this number."""
        _check(_libc.posix_spawn_file_actions_adddup2(self._buffer, descriptor, number))

    def open(self, number: int, path: bytes, flags: int, mode: int) -> None:
        _check(_libc.posix_spawn_file_actions_addopen(self._buffer, number, path, flags, mode))

    def go_to(self, folder: bytes) -> None:
        """Start in this folder. Only if CAN_CHANGE_FOLDER."""
        assert _add_chdir is not None, "check CAN_CHANGE_FOLDER first"
        _check(_add_chdir(self._buffer, folder))

    def close(self) -> None:
        _libc.posix_spawn_file_actions_destroy(self._buffer)


class Attributes:
    """A process group of its own, and default actions for these signals."""

    def __init__(self, defaults: Iterable[int]) -> None:
        signals = ctypes.create_string_buffer(_STRUCT_BYTES)
        _libc.sigemptyset(signals)
        for number in defaults:
            _libc.sigaddset(signals, number)
        self._buffer = ctypes.create_string_buffer(_STRUCT_BYTES)
        self.address = ctypes.addressof(self._buffer)
        _check(_libc.posix_spawnattr_init(self._buffer))
        _check(_libc.posix_spawnattr_setsigdefault(self._buffer, signals))
        _check(_libc.posix_spawnattr_setpgroup(self._buffer, 0))
        _check(_libc.posix_spawnattr_setflags(self._buffer, ctypes.c_short(_SETPGROUP | _SETSIGDEF)))


def spawn(program: bytes, arguments: Strings, env: Strings, actions: Actions, attributes: Attributes) -> int:
    """Start a process and return its pid. Raises: OSError, if its program does not begin."""
    pid = ctypes.c_int()  # a new one each time: workers may run in several threads
    code = _spawn(ctypes.byref(pid), program, actions.address, attributes.address, arguments.address, env.address)
    if code:
        raise OSError(code, os.strerror(code))
    return pid.value


def _check(code: int) -> None:
    if code:
        raise OSError(code, os.strerror(code))
