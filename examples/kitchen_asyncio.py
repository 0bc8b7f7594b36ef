"""Calls of commands from asyncio: a thousand at once, and one that is cancelled.

Run it while kitchen.py runs: `python examples/kitchen_asyncio.py`.
"""

import asyncio
import sys

from gandy import AsyncClient
from gandy.errors import LinkError


async def main() -> None:
    async with AsyncClient() as client:
        # Each call takes the next free slot; none waits for the slowest.
        sums = await asyncio.gather(*(client.call("add", number, number) for number in range(1_000)))
        print("the sum of a thousand sums is", sum(sums))

        # Repeatable: if the worker dies, the call goes to another one.
        print("here comes", await client.call("cook", "soup", repeatable=True))

        roast = client.call("cook", "roast", 3_600)
        roast.cancel()  # the command stops too
        print("no roast today" if roast.cancelled() else "roast")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
