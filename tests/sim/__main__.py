"""Replays one seed of the simulator: `python -m tests.sim SEED`."""

import sys

from tests.sim.crew import Crew


def main(seed: int) -> None:
    """Print what arrived when. Raises: BrokenLaw, if the seed breaks a law."""
    crew = Crew(seed)
    print(crew.plan)
    lines: list[str] = []
    crew.network.transcript = lines
    try:
        crew.run()
    finally:
        print(*lines, dict(crew.laws.seen), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
