"""Calls of commands from a plain program.

Run it while kitchen.py runs: `python examples/kitchen_guest.py`.
"""

import sys

from gandy import Client
from gandy.errors import CallFailed, CallTimeout, LinkError


def main() -> None:
    with Client() as client:
        print("1 + 2 =", client.call("add", 1, 2))
        print("here comes", client.call("cook", "soup", timeout=30))
        print("sum of squares:", client.call("kitchen.grind", 1_000)["sum"])

        client.cast("cook", "rice")  # no answer is wanted, and none comes

        for reply in client.call_all("ping"):
            print(reply.worker, "says", reply.get())

        try:
            client.call("add", 1, "egg")
        except CallFailed as error:
            print("the kitchen says", error.kind)

        try:
            client.call("cook", "roast", 3_600, timeout=0.1)
        except CallTimeout:
            print("the roast takes too long")


if __name__ == "__main__":
    try:
        main()
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
