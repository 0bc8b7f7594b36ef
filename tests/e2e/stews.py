"""Commands for tests of the doors: bytes in, bytes out."""

import time

import gandy

worker = gandy.Worker()


@worker.command
def cook(data: bytes) -> bytes:
    """Who did it, and what."""
    return b"gandy " + data


@worker.command
async def simmer(data: bytes) -> bytes:
    """It keeps the loop of its worker busy, as it should not."""
    time.sleep(float(data))
    return b"done"


@worker.command
def burn(data: bytes) -> bytes:
    raise ValueError(data.decode())
