"""The installed command in its own process: pipes, exit codes, bytes as they come, and the examples of `--help`."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.builders import a_result, a_task
from tests.forks import run_command

from gandy.wire import v2
from gandy.wire.messages import Cancel, Hello, Job, Ok, Update

SCRIPTS = Path(sysconfig.get_path("scripts"))
GANDY = str(SCRIPTS / "gandy")
ENVIRONMENT = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}

# Seconds until a process that does not answer counts as hung. Nothing here is measured.
PATIENCE = 60

OK = v2.encode(2, Ok(17, 5))
FRAMES = v2.encode(0, Hello(4, (a_task(),))) + OK + v2.encode(3, Job((a_task(2), a_task(3)))) + v2.encode(5, Cancel(()))
OK_LINE = b'{"type":"OK","subtype":0,"seq":2,"padding":0,"arg0":1114117,"payload":null}\n'


def run(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_command([GANDY, *words], data, os.environ, PATIENCE)


def run_in_shell(line: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", line], input=data, capture_output=True, timeout=PATIENCE, check=False, env=ENVIRONMENT
    )


def start(*words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [GANDY, *words], stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, preexec_fn=_restore_interrupt
    )


def _restore_interrupt() -> None:
    """A shell that runs the tests in the background has them ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        assert ready, f"nothing came after {line!r}"
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, f"the output ended after {line!r}"
        line += piece
    return line


@pytest.mark.parametrize("command", [[GANDY], [sys.executable, "-m", "gandy"]], ids=["script", "module"])
def test_both_ways_to_start_are_the_same(command: list[str]) -> None:
    done = subprocess.run([*command, "wire", "decode", OK.hex()], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, OK_LINE, b"")
    shown = subprocess.run([*command, "--help"], capture_output=True, timeout=PATIENCE, check=True).stdout
    assert shown.startswith(b"Usage: gandy [OPTIONS] COMMAND")


def test_encode_prints_hex() -> None:
    done = run("wire", "encode", '{"type": "OK", "seq": 2, "nproc": 17, "nrun": 5}')
    assert (done.returncode, done.stdout, done.stderr) == (0, OK.hex().encode() + b"\n", b"")


@pytest.mark.parametrize(
    ("line", "data", "expected"),
    [
        ("gandy wire decode --raw | gandy wire encode --raw", FRAMES, FRAMES),
        ("gandy wire decode | gandy wire encode | tr -d '\\n'", FRAMES.hex().encode(), FRAMES.hex().encode()),
    ],
    ids=["raw", "hex"],
)
def test_frames_come_back_through_a_pipe(line: str, data: bytes, expected: bytes) -> None:
    done = run_in_shell(line, data)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")


@pytest.mark.parametrize(
    ("words", "data", "code", "output", "error"),
    [
        (("decode", "--raw"), OK + bytes(16), 1, OK_LINE, b"byte 16: bad magic 0x0000, expected 0xc047"),
        (("decode", "--raw"), OK + OK[:5], 1, OK_LINE, b"5 bytes are there, 11 are missing"),
        (("decode", "hello"), b"", 2, b"", b"character 1 is 'h', which is not a hex digit"),
        (("decode", "--generation", "3"), b"", 2, b"", b"'3' is not one of '1', '2'"),
        (("encode", '{"type": "JOB", "payload": {}}'), b"", 1, b"", b"line 1: JOB payload: Expected `array`"),
        (("encode", "nonsense"), b"", 2, b"", b"line 1, column 1: Expecting value"),
    ],
    ids=["bad frame", "cut frame", "no hex", "no generation", "bad payload", "no JSON"],
)
def test_bad_input_is_told(words: tuple[str, ...], data: bytes, code: int, output: bytes, error: bytes) -> None:
    done = run("wire", *words, data=data)
    assert (done.returncode, done.stdout) == (code, output)
    assert error in done.stderr
    assert b"Traceback" not in done.stderr


def test_raw_frames_are_printed_as_they_come() -> None:
    with start("wire", "decode", "--raw", "-") as process:
        assert process.stdin is not None
        process.stdin.write(OK + OK[:3])
        assert read_line(process) == OK_LINE
        process.stdin.write(OK[3:])
        assert read_line(process) == OK_LINE
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == 0


def test_reader_that_goes_away_is_met_quietly() -> None:
    with start("wire", "decode", "--raw") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(OK)
        read_line(process)
        process.stdout.close()
        process.stdin.write(OK)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


def test_head_cuts_long_output_quietly() -> None:
    done = run_in_shell("gandy wire decode --raw | head -n 1", v2.encode(2, Ok(17, 5)) * 20_000)
    assert (done.returncode, done.stdout, done.stderr) == (0, OK_LINE, b"")


def test_interrupt_ends_quietly() -> None:
    with start("wire", "decode", "--raw") as process:
        assert process.stdin is not None
        process.stdin.write(OK)
        read_line(process)  # from here on it waits for more
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_waiting_for_a_terminal_is_told() -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, OK.hex().encode() + b"\n\x04")
        done = subprocess.run(
            [GANDY, "wire", "decode"], stdin=theirs, capture_output=True, timeout=PATIENCE, check=True
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == OK_LINE
    assert done.stderr.startswith(b"gandy: reading from the terminal; Ctrl-D ends the input")


def test_json_is_utf8_in_any_locale() -> None:
    update = v2.encode(4, Update(a_result(status="größer ∞")))
    done = run_in_shell("LC_ALL=C PYTHONUTF8=0 gandy wire decode --raw | LC_ALL=C gandy wire encode --raw", update)
    assert (done.stdout, done.stderr) == (update, b"")


def find_examples() -> list[str]:
    pages = [run(*words, "--help").stdout.decode() for words in (("wire",), ("wire", "decode"), ("wire", "encode"))]
    sections = [re.search(r"\n  Examples:\n((?:    .*\n)+)", page) for page in pages]
    return sorted({line.strip() for section in sections if section for line in section[1].splitlines()})


def test_examples_of_the_help_run() -> None:
    examples = find_examples()
    assert len(examples) >= 8
    for example in examples:
        done = run_in_shell(example)
        assert (done.returncode, done.stderr) == (0, b""), example
        assert done.stdout, example
