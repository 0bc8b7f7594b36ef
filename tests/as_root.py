"""Runs a Python program as root of a user namespace, for tests that mount disks and make networks.

    python -m tests.as_root -m pytest ...

As root, and if the kernel allows no namespace, it runs without one; pytest then lists what it skipped.
GANDY_NO_NAMESPACES=1 switches namespaces off.
"""

import ctypes
import fcntl
import getpass
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 1
NOBODY: Final = 65534

_libc: Final = ctypes.CDLL(None, use_errno=True)


def can_be_nobody() -> bool:
    """Whether this process can give itself, or a file, to another user. Root of a user namespace knows only itself."""
    if os.geteuid() != 0:
        return False
    ranges = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= NOBODY < first + count for first, _, count in ranges)


def enter() -> None:
    """Raises: OSError."""
    user, group = os.geteuid(), os.getegid()
    # With its own network, since a process in a new namespace cannot return to the machine's network.
    _unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def may_enter() -> bool:
    """Whether a namespace can be entered and used. A child tries, since there is no way back."""
    child = os.fork()
    if not child:
        try:
            enter()
        except OSError:
            os._exit(1)
        is_mounted = _libc.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=1m") == 0
        os._exit(0 if is_mounted else 1)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    if os.geteuid() != 0 and "GANDY_NO_NAMESPACES" not in os.environ and may_enter():
        os.environ["LOGNAME"] = getpass.getuser()  # pytest names its folder by the user, and root may have one already
        enter()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
