"""Programs in C. A round-trip program reads a count, and prints the nanoseconds of each round trip."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contract import Missing, Place, Work


def compile_c(place: Place, source: Path, *libraries: str) -> str:
    """The program.

    Raises: Missing.
    """
    program = str(place.folder / source.stem)
    command = [place.programs["cc"], "-O2", "-o", program, str(source), *libraries]
    if subprocess.run(command, check=False).returncode:
        raise Missing(f"{source.name} cannot be compiled here")
    return program


@contextmanager
def playing(*command: str) -> Iterator[Work]:
    """Raises: Missing, if it ends before it has answered."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:

        def play(count: int) -> list[float]:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(f"{count}\n")
            program.stdin.flush()
            lines = [program.stdout.readline() for _ in range(count)]
            if not all(lines):
                raise Missing("its processes did not find each other, or a message was lost")
            return [int(line) * 1e-9 for line in lines]

        try:
            play(100)
            yield play
        finally:
            program.kill()
