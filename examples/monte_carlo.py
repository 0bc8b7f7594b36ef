"""The price of an option by Monte Carlo, on all slots of a crew.

Start one with `gandy up` in another terminal, then run `python examples/monte_carlo.py`.
"""

import math
import random
import statistics
import sys
from functools import partial

from gandy import Client
from gandy.errors import LinkError

START, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0
PATHS = 2_000  # of one item
ITEMS = 400
ITEMS_PER_TASK = 20


def price_call(seed: int, paths: int) -> float:
    """What the right to buy at STRIKE in YEARS is worth today: the mean over some paths."""
    chance = random.Random(seed)
    drift, spread = (RATE - VOLATILITY**2 / 2) * YEARS, VOLATILITY * math.sqrt(YEARS)
    ends = (START * math.exp(drift + spread * chance.gauss(0, 1)) for _ in range(paths))
    return math.exp(-RATE * YEARS) * statistics.fmean(max(end - STRIKE, 0.0) for end in ends)


def main() -> None:
    with Client() as client:
        price = partial(price_call, paths=PATHS)
        prices = list(client.map(price, range(ITEMS), chunksize=ITEMS_PER_TASK, progress=True))
    error = statistics.stdev(prices) / math.sqrt(len(prices))
    print(f"price {statistics.fmean(prices):.3f} ± {error:.3f}")
    print(f"{ITEMS * PATHS:,} paths in {ITEMS // ITEMS_PER_TASK} tasks")


if __name__ == "__main__":
    try:
        main()
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
