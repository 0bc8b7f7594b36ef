"""Search the targets for inputs that break them: `python -m tests.fuzz --seconds N [TARGET...]`.

Each target runs in a process of its own, as libFuzzer ends the process at the first finding. The input is left in the
target's corpus as `finding-...`, where the tests replay it from then on.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

FUZZ: Final = Path(__file__).parent
CORPUS: Final = FUZZ / "corpus"

CHILD: Final = "--child"  # what this program calls itself with: CHILD TARGET and options of libFuzzer

OPTIONS: Final = (
    f"-dict={FUZZ / 'wire.dict'}",
    "-max_len=1024",  # bytes; longer inputs are slower and find no more, as a frame with two tasks has 300
    "-timeout=10",  # seconds until one input counts as a hang
    "-rss_limit_mb=1024",
    "-print_final_stats=1",
)


class Report(NamedTuple):
    """What the run over one target told."""

    target: str
    runs: int
    edges: int
    findings: list[str]
    log: str

    def __str__(self) -> str:
        verdict = f"FOUND {', '.join(self.findings)}" if self.findings else "nothing found"
        return f"{self.target:<18}{self.runs:>9} runs {self.edges:>4} edges  {verdict}"


def main() -> int:
    arguments = _parse_arguments()
    seconds = max(1, arguments.seconds // len(arguments.targets))
    print(f"{len(arguments.targets)} targets, {seconds} s each", flush=True)
    reports = []
    for target in arguments.targets:
        reports.append(_fuzz(target, seconds, arguments.keep))
        print(reports[-1], flush=True)
    broken = [report for report in reports if report.findings]
    for report in broken:
        print(f"\n{report.target}: {_find_traceback(report.log)}")
    return 1 if broken else 0


def _parse_arguments() -> argparse.Namespace:
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Search the targets for findings.")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together (default: 60)")
    parser.add_argument("--keep", action="store_true", help="leave inputs that reach new code in the corpus")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(TARGETS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    arguments.targets = arguments.targets or list(TARGETS)
    return arguments


def _fuzz(target: str, seconds: int, keep: bool) -> Report:
    corpus = CORPUS / target
    corpus.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as fresh, TemporaryDirectory() as seeds:
        _write_seeds(target, Path(seeds))
        limits = (f"-max_total_time={seconds}", f"-artifact_prefix={corpus}/finding-")
        log = _run_child(target, *OPTIONS, *limits, fresh, str(corpus), seeds)
        report = _read_log(target, log)
        if keep and not report.findings:
            _keep(target, corpus, (str(corpus), seeds, fresh))
    return report


def _read_log(target: str, log: str) -> Report:
    findings = [Path(path).name for path in re.findall(r"Test unit written to (.*)", log)]
    if not findings and "\nDone " not in log:
        findings = ["the fuzzer itself broken"]
    runs = re.findall(r"^stat::number_of_executed_units: (\d+)", log, re.MULTILINE)
    edges = re.findall(r" cov: (\d+)", log)
    return Report(target, int(runs[-1]) if runs else 0, int(edges[-1]) if edges else 0, findings, log)


def _write_seeds(target: str, folder: Path) -> None:
    from tests.fuzz.seeds import list_seeds

    for number, seed in enumerate(list_seeds(target)):
        (folder / f"seed-{number}").write_bytes(seed)


def _keep(target: str, corpus: Path, folders: Sequence[str]) -> None:
    """Make the corpus the least set of inputs that reaches all that is reached. Findings stay, whatever they reach."""
    with TemporaryDirectory() as merged:
        log = _run_child(target, "-merge=1", "-use_counters=0", merged, *folders)
        assert "MERGE-OUTER: successful" in log, log
        for path in corpus.iterdir():
            if not path.name.startswith("finding-"):
                path.unlink()
        for path in Path(merged).iterdir():
            shutil.copy(path, corpus / path.name[:12])


def _run_child(target: str, *options: str) -> str:
    command = [sys.executable, "-m", "tests.fuzz", CHILD, target, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
    return done.stdout


def _find_traceback(log: str) -> str:
    found = re.search(r"=== Uncaught Python exception: ===\n(.*?)\n==\d+==", log, re.DOTALL)
    return found[1] if found else log[-3000:]


def run_child(target: str, options: Sequence[str]) -> None:
    """Fuzz in this process, and never come back."""
    import atheris

    with atheris.instrument_imports(include=["gandy"]):
        from tests.fuzz.targets import PAYLOADS, TARGETS
    from tests.fuzz.mutation import mutate
    from tests.fuzz.seeds import list_seeds

    seeds = list_seeds(target)

    def mutate_payload(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        # libFuzzer drops seeds that reach no new code, and the compiled msgpack library is no code to it.
        return mutate(chance.choice((data, chance.choice(seeds))), chance.randrange)[:max_size]

    # libFuzzer starts the program again to merge, with its first argument as the command.
    command = f"{sys.executable} -m tests.fuzz {CHILD} {target}"
    mutator = {"custom_mutator": mutate_payload} if target in PAYLOADS else {}
    atheris.Setup([command, *options], TARGETS[target], **mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        run_child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
