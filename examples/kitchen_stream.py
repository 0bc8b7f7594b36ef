"""Streams: values as they come, from a plain program and from asyncio.

Run it while kitchen.py runs: `python examples/kitchen_stream.py`.
"""

import asyncio
import sys

from gandy import AsyncClient, Client
from gandy.errors import LinkError


def read_some() -> None:
    with Client() as client:
        print("served:", ", ".join(client.stream("courses", "soup", "roast", "cake")))

        print("10 MB in", len(list(client.stream("stream", 10_000_000))), "pieces")


async def stop_early() -> None:
    async with AsyncClient() as client, client.stream("countdown", 1_000_000_000) as numbers:
        async for number in numbers:
            if number <= 999_999_995:
                print("that is enough at", number)
                break  # the generator on the worker ends too


if __name__ == "__main__":
    try:
        read_some()
        asyncio.run(stop_early())
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
