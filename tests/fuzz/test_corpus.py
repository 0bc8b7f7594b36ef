"""Every seed, and every input that fuzzing kept, goes through its target again."""

from pathlib import Path

import pytest
from tests.fuzz.seeds import list_seeds
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"

# Bytes. Each clone of the project has the corpus.
CORPUS_LIMIT = 300_000


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_kept_input_breaks_nothing(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_break_nothing(name: str) -> None:
    for seed in list_seeds(name):
        TARGETS[name](seed)


def test_every_target_has_a_small_corpus() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.glob("*/*")) < CORPUS_LIMIT
