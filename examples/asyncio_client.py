"""Python functions on a crew from asyncio: one task, many at once, and values as they come.

Start a crew with `gandy up` in another terminal, then run `python examples/asyncio_client.py`.
"""

import asyncio
import math
import sys

from gandy import AsyncClient
from gandy.errors import LinkError


def count_primes(start: int, stop: int) -> int:
    """How many primes are in range(start, stop)."""
    return sum(all(number % d for d in range(2, math.isqrt(number) + 1)) for number in range(max(start, 2), stop))


async def main() -> None:
    async with AsyncClient() as client:
        print("primes below 1,000:", await client.run(count_primes, 0, 1_000))

        # Many tasks at once, each a future like any other.
        stops = [10, 100, 10_000]
        counts = await asyncio.gather(*(client.run(count_primes, 0, stop) for stop in stops))
        print("primes below", ", ".join(f"{stop:,}: {count}" for stop, count in zip(stops, counts, strict=True)))

        # A map that yields each value as soon as it is there.
        starts = range(0, 100_000, 5_000)
        total = 0
        async for count in client.map(count_primes, starts, (start + 5_000 for start in starts), ordered=False):
            total += count
            print(f"so far {total:,}")
        print(f"primes below 100,000: {total:,}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
