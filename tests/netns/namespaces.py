"""Network namespaces for tests: hosts with private addresses, whose broadcasts reach no other host.

A namespace has no name. It is gone with the last descriptor of it and the last process in it: so tests that run side by
side cannot meet, and a test that is killed leaves nothing behind.
"""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest
from tests.netns.programs import Program

CLONE_NEWNET: Final = 0x40000000
HERE: Final = "/proc/thread-self/ns/net"
LINK: Final = "eth0"
TUN: Final = "/dev/net/tun"
FIRST_IP: Final = "10.77.0.1"  # names are compared as text: this is the lower one
SECOND_IP: Final = "10.77.0.2"
PORTS: Final = (32768, 60999)  # what Linux gives out

_libc: Final = ctypes.CDLL(None, use_errno=True)


def find_hindrance() -> str | None:
    """Why namespaces cannot be made here, if so."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the ip command (iproute2)"
    try:
        Namespace().close()
    except OSError as error:
        return f"network namespaces are not allowed here: {error}"
    return None


def _call(function: Callable[..., int], *args: int) -> None:
    if function(*args) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def _coming_back() -> Iterator[None]:
    home = os.open(HERE, os.O_RDONLY)
    try:
        yield
    finally:
        _call(_libc.setns, home, CLONE_NEWNET)
        os.close(home)


class Namespace:
    """A host with loopback and nothing else. `close` it."""

    def __init__(self, ip: str = "127.0.0.1") -> None:
        """Raises: OSError."""
        self.ip = ip
        with _coming_back():
            _call(_libc.unshare, CLONE_NEWNET)
            self._descriptor = os.open(HERE, os.O_RDONLY)
            run("ip", "link", "set", "lo", "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets, threads and programs that begin here belong to the namespace, and stay there."""
        with _coming_back():
            _call(_libc.setns, self._descriptor, CLONE_NEWNET)
            yield

    def run(self, *command: str) -> None:
        """Raises: OSError."""
        with self.inside():
            run(*command)

    @contextmanager
    def giving_ports(self, tcp: int, udp: int) -> Iterator[None]:
        """Inside; a program that asks for any free port of either kind gets this one."""
        low, high = min(tcp, udp), max(tcp, udp)
        with self.inside(), socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            stream.bind(("", udp))  # so that it is taken, for the other kind
            datagrams.bind(("", tcp))
            try:
                _set_ports(low, high, f"{low + 1}-{high - 1}")
                yield
            finally:
                _set_ports(*PORTS, "")


def _set_ports(low: int, high: int, reserved: str) -> None:
    Path("/proc/sys/net/ipv4/ip_local_reserved_ports").write_text(f"{reserved}\n")
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"{low} {high}\n")


def run(*command: str) -> None:
    """Raises: OSError."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


# Two hosts


class Weather(NamedTuple):
    """What a network does to each packet, on each way."""

    delay_ms: float
    jitter_ms: float  # more or less than the delay
    loss_percent: float


class Hosts:
    """Two of them, and the wire between."""

    def __init__(self, first: Namespace, second: Namespace, wire: Program | None) -> None:
        self.first = first
        self.second = second
        self._wire = wire

    def set_weather(self, weather: Weather) -> None:
        if self._wire is not None:
            self._wire.say("{} {} {}".format(*weather))
            self._wire.expect("weather")
            return
        for host in (self.first, self.second):
            host.run("tc", "qdisc", "replace", "dev", LINK, "root", "netem", *_list_netem(weather))


def _list_netem(weather: Weather) -> tuple[str, ...]:
    delay, jitter, loss = weather
    return "limit", "10000", "delay", f"{delay}ms", f"{jitter}ms", "loss", f"{loss}%"


@contextmanager
def two_hosts(has_weather: bool = False) -> Iterator[Hosts]:
    """Joined by a veth pair. For weather where the kernel has no netem: by a program that reads, waits and writes."""
    with ExitStack() as stack:
        first = stack.enter_context(Namespace(FIRST_IP))
        second = stack.enter_context(Namespace(SECOND_IP))
        wire = None
        if has_weather and not has_netem():
            if not os.access(TUN, os.R_OK | os.W_OK):
                pytest.skip(f"no bad weather: the kernel has no netem, and {TUN} is for root only")
            wire = stack.enter_context(Program([sys.executable, "-m", "tests.netns.wire", first.path, second.path]))
            wire.expect("ready")
        else:
            first.run("ip", "link", "add", LINK, "type", "veth", "peer", "name", LINK, "netns", second.path)
        for host in (first, second):
            host.run("ip", "address", "add", f"{host.ip}/24", "dev", LINK)
            host.run("ip", "link", "set", LINK, "up")
            host.run("ip", "route", "add", "default", "dev", LINK)  # so that 255.255.255.255 leads somewhere
        yield Hosts(first, second, wire)


# Many hosts


class Network:
    """Hosts on one switch, which sees all that they say."""

    def __init__(self, switch: Namespace, hosts: tuple[Namespace, ...]) -> None:
        self.switch = switch
        self.hosts = hosts


def make_ipv6(number: int) -> str:
    """Of a host on the switch; they are counted from 1."""
    return f"fd77::{number}"


@contextmanager
def a_network(count: int) -> Iterator[Network]:
    """So many hosts, 10.77.0.1 and fd77::1 and so on. What the first one says and hears goes through port1."""
    with ExitStack() as stack:
        switch = stack.enter_context(Namespace())
        switch.run("ip", "link", "add", "bridge", "type", "bridge")
        switch.run("ip", "link", "set", "bridge", "up")
        hosts = tuple(stack.enter_context(Namespace(f"10.77.0.{number}")) for number in range(1, count + 1))
        for number, host in enumerate(hosts, 1):
            port = f"port{number}"
            host.run("ip", "link", "add", LINK, "type", "veth", "peer", "name", port, "netns", switch.path)
            switch.run("ip", "link", "set", port, "master", "bridge", "up")
            host.run("ip", "address", "add", f"{host.ip}/24", "dev", LINK)
            host.run("ip", "address", "add", f"{make_ipv6(number)}/64", "dev", LINK, "nodad")
            host.run("ip", "link", "set", LINK, "up")
            host.run("ip", "route", "add", "default", "dev", LINK)  # so that 255.255.255.255 leads somewhere
        yield Network(switch, hosts)


def has_netem() -> bool:
    with Namespace() as probe, suppress(OSError):
        probe.run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
        return True
    return False
