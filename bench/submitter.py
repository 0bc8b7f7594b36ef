"""A client in a process of its own. For each number that it reads, it runs as many tasks, and says when all are done.

python -m bench.submitter ADDRESS
"""

import operator
import sys
from concurrent.futures import wait

import gandy


def main(address: str) -> None:
    with gandy.Executor(address) as executor:
        for line in sys.stdin:
            wait([executor.submit(operator.neg, number) for number in range(int(line))])
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
