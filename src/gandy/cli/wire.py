"""`gandy wire`: converts frames to JSON and back. Only arguments and printing are here; the rest is in `cli.frames`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from typing import Any, BinaryIO, Final, TypeVar, cast

import click
import msgspec

from gandy.cli import frames as plain
from gandy.cli.frames import Generation
from gandy.errors import GandyError, LocalProtocolError, RemoteProtocolError
from gandy.terminal.exits import EXIT_HELP
from gandy.terminal.say import say
from gandy.terminal.text import parse_hex, parse_json

# Bytes per read from standard input: the capacity of a pipe.
READ_SIZE: Final = 65536

WIRE_EXAMPLES: Final = """\b
Examples:
  gandy wire decode 47c00100020000000000000005001100
  gandy wire encode '{"type": "OK", "seq": 2, "nproc": 17, "nrun": 5}'
"""

DECODE_EXAMPLES: Final = """\b
Examples:
  gandy wire decode 47c00100020000000000000005001100
  gandy wire decode 47:c0:07:00 07:00:00:00 00:00:00:00 ff:ff:ff:ff
  gandy wire decode --generation 1 0x47c004000000000001000000
  printf '\\107\\300\\011\\000\\004\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0' | gandy wire decode --raw
"""

ENCODE_EXAMPLES: Final = """\b
Examples:
  gandy wire encode '{"type": "OK", "seq": 2, "nproc": 17, "nrun": 5}'
  gandy wire encode --generation 1 '{"type": "STOP", "arg0": 1}'
  echo '{"type": "CANCEL", "seq": 3, "payload": [{"JobId": 7, "Task": -1}]}' | gandy wire encode
  gandy wire encode --raw '{"type": "RESET", "seq": 4, "arg0": 0}' | gandy wire decode --raw
"""

F = TypeVar("F", bound=Callable[..., Any])


def _generation_option(command: F) -> F:
    option = click.option(
        "--generation",
        type=click.Choice(["1", "2"]),
        default="2",
        show_default=True,
        callback=lambda _context, _option, value: int(value),
        help="The generation of the job protocol.",
    )
    return option(command)


@click.group(epilog=WIRE_EXAMPLES + "\n" + EXIT_HELP)
def wire() -> None:
    """Decode and encode bytes of the job protocols."""


@wire.command(epilog=DECODE_EXAMPLES + "\n" + EXIT_HELP)
@_generation_option
@click.option("--raw", is_flag=True, help="Read raw bytes from standard input, and print each frame as it arrives.")
@click.argument("words", metavar="[HEX|-]...", nargs=-1)
def decode(generation: Generation, raw: bool, words: tuple[str, ...]) -> None:
    """Print frames as JSON, one object on each line.

    HEX is bytes as hex digits; white space, colons and 0x are skipped. Without HEX, or with -, standard input is read.

    Payloads are printed as gandy would send them, so a flat task is printed nested. Types of extensions are printed as
    numbers, with the payload as hex.
    """
    if raw and not _means_stdin(words):
        raise click.UsageError("--raw reads standard input; leave HEX out.")
    pieces = _read_pieces() if raw else [parse_hex(_read_text(words, " "))]
    _print_frames(generation, pieces, sys.stdout.buffer)


def _print_frames(generation: Generation, pieces: Iterable[bytes], stdout: BinaryIO) -> None:
    decoder, guess = plain.make_decoder(generation), plain.Guess(2 if generation == 1 else 1)
    try:
        for piece in pieces:
            guess.receive_data(piece)
            decoder.receive_data(piece)
            _print_complete(decoder, stdout)
    except RemoteProtocolError as error:
        raise GandyError(f"byte {error.offset}: {error}{_hint(guess)}") from None
    if decoder.missing:
        text = f"the input ends inside a frame: {decoder.unread} bytes are there, {decoder.missing} are missing"
        raise GandyError(f"byte {decoder.offset}: {text}{_hint(guess)}")


def _print_complete(decoder: plain.PlainDecoder, stdout: BinaryIO) -> None:
    try:
        while (frame := decoder.next_message()) is not None:
            stdout.write(msgspec.json.encode(frame) + b"\n")
    finally:
        stdout.flush()  # what is right comes before the message about what is wrong


def _hint(guess: plain.Guess) -> str:
    return f"\nhint: the bytes make sense as generation {guess.generation}" if guess.is_right else ""


@wire.command(epilog=ENCODE_EXAMPLES + "\n" + EXIT_HELP)
@_generation_option
@click.option("--raw", is_flag=True, help="Write raw bytes instead of hex.")
@click.argument("words", metavar="[JSON|-]...", nargs=-1)
def encode(generation: Generation, raw: bool, words: tuple[str, ...]) -> None:
    """Print the bytes of frames, each as a line of hex.

    JSON is what 'gandy wire decode' prints: objects one after another, or an array of them. Without JSON, or with -,
    standard input is read.

    Only "type" is required, and "payload" if the type has one. "subtype", "seq" and "padding" default to 0. "arg0" may
    be left out if there is a payload, and for OK "nproc" and "nrun" may replace it.
    """
    stdout = sys.stdout.buffer
    try:
        for place, value in parse_json(_read_text(words, "\n")):
            frame = _encode_frame(generation, place, value)
            stdout.write(frame if raw else frame.hex().encode() + b"\n")
    finally:
        stdout.flush()  # what is right comes before the message about what is wrong


def _encode_frame(generation: Generation, place: str, value: object) -> bytes:
    try:
        return plain.encode(generation, value)
    except LocalProtocolError as error:
        raise GandyError(f"{place}: {error}") from None


def _means_stdin(words: tuple[str, ...]) -> bool:
    return words in ((), ("-",))


def _read_text(words: tuple[str, ...], separator: str) -> str:
    if not _means_stdin(words):
        return separator.join(words)
    # Bytes that are not UTF-8 become characters that neither hex nor a string of a payload may contain.
    return _open_stdin().read().decode("utf-8", "surrogateescape")


def _read_pieces() -> Iterator[bytes]:
    """Read standard input as it arrives."""
    stdin = _open_stdin()
    while piece := stdin.read1(READ_SIZE):
        yield piece


def _open_stdin() -> BufferedReader:
    if sys.stdin.isatty():
        say("gandy: reading from the terminal; Ctrl-D ends the input, --help explains more", err=True)
    return cast("BufferedReader", sys.stdin.buffer)
