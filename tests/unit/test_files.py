"""No write is taken for whole that was not: here, and wherever gandy writes to a descriptor."""

import ast
import os
import resource
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.sources import read_modules

from gandy.files import write_all

# What tells how much it has written, and writes less than it was given when a disk or a pipe is nearly full.
PARTIAL = {"write", "pwrite", "writev", "pwritev", "sendfile", "copy_file_range", "splice"}


def list_ignored_writes(nodes: Iterable[ast.AST]) -> list[int]:
    """The lines in which a module asks the kernel to write, and does not look at how much it did."""
    calls = (node.value for node in nodes if isinstance(node, ast.Expr))
    return [
        call.lineno
        for call in calls
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "os"
        and call.func.attr in PARTIAL
    ]


def test_a_write_whose_count_is_ignored_is_found() -> None:
    source = "import os\nos.pwrite(1, b'', 0)\nn = os.write(1, b'')\n"
    assert list_ignored_writes(ast.walk(ast.parse(source))) == [2]


def test_no_module_ignores_how_much_was_written() -> None:
    for name, text, nodes in read_modules():
        assert not list_ignored_writes(nodes), name
        assert "buffering=0" not in text, f"{name}: a file without a buffer writes parts, too"


def test_a_slow_reader_gets_all_bytes() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, True)
    data = os.urandom(1_000_000)
    writer = threading.Thread(target=write_all, args=(writing, data))
    writer.start()
    got = bytearray()
    while len(got) < len(data):
        got += os.read(reading, 70_000)
    writer.join()
    assert got == data
    os.close(reading)
    os.close(writing)


def test_a_file_that_may_not_grow_is_an_error(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        write_all(descriptor, b"0123", 4)
        with pytest.raises(OSError, match="too large"):
            write_all(descriptor, b"0123", 8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.read(descriptor, 99) == b"\0\0\0\x000123" + b"01"
    os.close(descriptor)
