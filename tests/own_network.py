"""A network namespace for one test, so that tests of the bus do not use up the discovery ports of the machine."""

import ctypes
import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


@contextmanager
def own_network() -> Iterator[None]:
    """For this thread, and for all threads and processes that it starts. Only loopback is in it.

    A machine has five discovery ports (16 since 1.0), which parallel tests would use up. If the kernel does not let us
    make a namespace, one such test runs at a time.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as ours:
        if libc.unshare(CLONE_NEWNET) != 0:
            with (Path(tempfile.gettempdir()) / f"gandy-tests-{os.getuid()}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            return
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
            yield
        finally:
            assert libc.setns(ours.fileno(), CLONE_NEWNET) == 0
