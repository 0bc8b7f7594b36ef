"""`make bench`, and `python -m bench`: gandy beside its peers, all in one run."""

import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from contextlib import suppress

from bench import catalogue, records
from bench.catalogue import Entry
from bench.contract import Missing, Table
from bench.harness import find_needs, run_table
from bench.processes import adopt_orphans, kill_descendants

EXAMPLES = """
examples:
  python -m bench                               every workload, as `make bench` does
  python -m bench functions                     one workload, with all peers
  python -m bench functions --peer gandy dask   gandy and Dask beside the reference; nothing is kept
  python -m bench calls_in_flight --repeats 7   more repeats, less noise
  python -m bench list                          workloads and peers, and what cannot be installed here

Whole workloads are kept in bench/results; then `make docs` writes docs/benchmarks.md from them.
"""


def parse(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m bench", epilog=EXAMPLES, formatter_class=RawDescriptionHelpFormatter)
    parser.description = "Measure gandy beside its peers: interleaved repeats, each figure as a ratio in one run."
    parser.add_argument("workload", nargs="*", help="which ones, or `list`; all if none is named")
    parser.add_argument("--peer", nargs="+", default=[], metavar="NAME", help="only these, and the reference")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="of each contestant; by default 3 or more, as the workload says"
    )
    options = parser.parse_args(arguments)
    if options.repeats is not None and options.repeats < 1:
        parser.error("--repeats must be 1 or more")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    workloads, entries = catalogue.list_workloads(), catalogue.list_entries()
    catalogue.check(workloads, entries)
    if options.workload == ["list"]:
        print(list_all(workloads, entries))
        return 0
    if strangers := set(options.workload) - set(workloads):
        return refuse("workload", strangers, workloads)
    if strangers := set(options.peer) - (peers := {entry.peer for entry in entries}):
        return refuse("peer", strangers, sorted(peers))
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ctrl-C: servers are stopped
    try:
        for name in options.workload or workloads:
            run_workload(name, workloads[name], entries, options)
    finally:
        kill_descendants()
    return 0


def refuse(what: str, strangers: set[str], known: Iterable[str]) -> int:
    print(f"no such {what}: {', '.join(sorted(strangers))}; there are {', '.join(known)}", file=sys.stderr)
    return 2


def run_workload(name: str, tables: Sequence[Table], entries: Sequence[Entry], options: Namespace) -> None:
    outcomes = []
    for table in tables:
        chosen = [
            entry for entry in entries if entry.contestant.table == table.key and is_wanted(entry, table, options)
        ]
        outcomes.append(run_table(table, chosen, options.repeats or table.repeats))
        print(records.show(outcomes[-1]), flush=True)
    if not options.peer:
        records.keep(name, outcomes)


def is_wanted(entry: Entry, table: Table, options: Namespace) -> bool:
    return not options.peer or entry.peer in options.peer or entry.contestant.name == table.reference


def list_all(workloads: dict[str, tuple[Table, ...]], entries: Sequence[Entry]) -> str:
    lines = []
    for name, tables in workloads.items():
        lines.append(name)
        for table in tables:
            lines.append(f"  {table.title}")
            lines += [f"    {tell(entry)}" for entry in entries if entry.contestant.table == table.key]
    return "\n".join(lines)


def tell(entry: Entry) -> str:
    """A contestant's line, with the reason if it cannot run here."""
    reason = ""
    try:
        find_needs(entry.contestant)
    except Missing as missing:
        reason = f"  missing: {missing}"
    return f"{entry.peer:16} {entry.contestant.name}{reason}"


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
