"""Tasks with a child and a grandchild, for tests of kills."""

from pathlib import Path

from tests.integration.worker.runner_bench import Bench, an_order, read_pids

# All three processes write their numbers to the file that the line names.
TREE = """sh -c 'sleep 600 & echo $! >> "$GANDY_LINE"; echo $$ >> "$GANDY_LINE"; wait' & echo $$ >> {line}; wait"""
STUBBORN_TREE = "trap '' TERM; " + TREE.replace("'sleep", '\'trap "" TERM; sleep')  # ignores SIGTERM


async def start_tree(bench: Bench, path: Path, line: str = TREE, timeout: float | None = None) -> list[int]:
    bench.runner.start(an_order(line, line=str(path), timeout=timeout))
    return await read_pids(path, 3)
