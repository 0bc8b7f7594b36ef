"""`make bench`: every measurement, each as a ratio to a limit or a peer in the same run."""

import sys

from bench import bus, calls, decoding, dispatching, functions, jobs, security, spawning, switching

WORKLOADS = {
    "decoding": decoding.run,
    "spawning": spawning.run,
    "jobs": jobs.run,
    "functions": functions.run,
    "calls": calls.run,
    "switching": switching.run,
    "dispatching": dispatching.run,
    "security": security.run,
    "bus": bus.run,
}


def main() -> None:
    names = sys.argv[1:] or list(WORKLOADS)
    if unknown := set(names) - set(WORKLOADS):
        sys.exit(f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(WORKLOADS)}")
    for name in names:
        WORKLOADS[name]()


if __name__ == "__main__":
    main()
